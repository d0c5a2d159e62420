/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's answers as bytes: whole, cut, endless, and made to do harm. Over a real socket. */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "engine/rest.h"
#include "tests/unit/engine-server.h"
#include "tests/unit/tap.h"

#define QUICK_MS   300
#define PATIENT_MS 20000

static struct engine_server server;

static int call_body(const char *method, const json_t *body, struct rest *r, json_t **ret)
{
    rest_open(r, server.path, PATIENT_MS);
    return rest_call(r, method, "/v1.41/x?y=1", body, ret);
}

static int call(struct rest *r, json_t **ret)
{
    return call_body("GET", NULL, r, ret);
}

/* --- good ones */

static void test_requests(void)
{
    static const char *const answers[] = {OK("{\"a\":[1,2]}"), NULL};
    struct rest r;
    _cleanup_json_ json_t *a = NULL, *b = NULL, *body = json_pack("{s:s}", "k", "\xc3\xa4\n\"");
    server_set(&server, answers, NULL);
    ok(call(&r, &a) == 200 && json_array_size(json_object_get(a, "a")) == 2, "an answer");
    ok(server_was_asked(&server, 0, "GET /v1.41/x?y=1"), "what was asked");
    ok(!strstr(server_request(&server, 0), "Content-Length"), "no body");
    ok(call_body("POST", body, &r, &b) == 200, "a body");
    const char *q = server_request(&server, 1);
    ok(server_was_asked(&server, 1, "POST /v1.41/x?y=1") &&
           strstr(q, "\r\nContent-Type: application/json\r\n") &&
           strstr(q, "\r\n\r\n{\"k\":\"\xc3\xa4\\n\\\"\"}"),
       "which is the body's text");
    ok(call_body("POST", NULL, &r, NULL) == 200 &&
           strstr(server_request(&server, 2), "\r\nContent-Length: 0\r\n"),
       "a POST of nothing says so");
    ok(call_body("DELETE", NULL, &r, NULL) == 200 &&
           server_was_asked(&server, 3, "DELETE /v1.41/x?y=1"),
       "a DELETE");
}

/* Of a server whose next answer is this. */
static int ask(const char *bytes, struct rest *r, json_t **ret)
{
    static const char *answers[2]; /* the server may look at it later */
    answers[0] = bytes;
    server_set(&server, answers, NULL);
    return call(r, ret);
}

/* Statuses and values; NULL for none. */
static void test_answers(void)
{
    static const struct {
        const char *name, *bytes;
        int status;
        const char *value;
    } all[] = {
        {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, NULL},
        {"an empty body", OK(""), 200, NULL},
        {"a list", OK("[]"), 200, "[]"},
        {"a scalar", OK("1"), 200, "1"},
        {"by length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}"},
        {"by length, and more", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{\"x\":1}", 200,
         "{}"},
        {"in chunks",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
         "chunked\r\n\r\n1\r\n{\r\n3\r\n\"a\"\r\n2;x=y\r\n:1\r\n"
         "1\r\n}\r\n0\r\nTrailer: x\r\n\r\n",
         200, "{\"a\":1}"},
        {"after a 100", "HTTP/1.1 100 Continue\r\n\r\n" OK("{}"), 200, "{}"},
        {"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n{}", 200, "{}"},
        {"a stream, of which the first line counts", OK("{\"a\":1}\r\n{\"b\":2}\r\n"), 200,
         "{\"a\":1}"},
        {"a stream whose second line is cut", OK("{\"a\":1}\n{\"b\"\n"), 200, "{\"a\":1}"},
        {"an object on many lines", OK("{\"a\":\n1\n}\n"), 200, "{\"a\":1}"},
        {"two members of a name", OK("{\"a\":1,\"a\":2}"), 200, "{\"a\":2}"},
        {"elsewhere, where nobody goes",
         ANSWER_HEAD("302 Found") "Location: file:///etc/passwd\r\n"
                                  "\r\n{}",
         302, "{}"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rest r;
        _cleanup_json_ json_t *a = NULL;
        int status = ask(all[i].bytes, &r, &a);
        char *text = a ? json_dumps(a, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        ok(status == all[i].status && !text == !all[i].value &&
               (!text || strcmp(text, all[i].value) == 0),
           "%s: %d %s %s", all[i].name, status, text ? text : "-", r.why);
        ok(!*server_request(&server, 1), "%s: asked once", all[i].name);
        free(text);
    }
}

static void test_errors(void)
{
    static const struct {
        const char *name, *bytes, *why;
        int status;
    } all[] = {
        {"docker's words", ANSWER("404 Not Found", "{\"message\":\"no such\"}"), "no such", 404},
        {"podman's words",
         ANSWER("500 Oops", "{\"cause\":\"c\",\"message\":\"m\",\"response\":500}"), "m", 500},
        {"no words", ANSWER("503 Busy", ""), "status 503", 503},
        {"words that are none", ANSWER("500 Oops", "{\"message\":7}"), "status 500", 500},
        {"no JSON", ANSWER("502 Bad Gateway", "<html>"), "status 502", 502},
        {"a list", ANSWER("400 Bad", "[1]"), "status 400", 400},
        {"words for a terminal", ANSWER("400 Bad", "{\"message\":\"a\\u001b[2J\\nb\xc3\xa4\"}"),
         "a?[2J?b??", 400},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rest r;
        _cleanup_json_ json_t *a = NULL;
        int status = ask(all[i].bytes, &r, &a);
        ok(status == all[i].status && strcmp(r.why, all[i].why) == 0, "%s: %d %s", all[i].name,
           status, r.why);
        status = call(&r, NULL);
        ok(status == all[i].status && strcmp(r.why, all[i].why) == 0, "%s: not asked for: %s",
           all[i].name, r.why);
    }
}

static void answer_long_words(int fd)
{
    char text[20000];
    memset(text, 'w', sizeof(text));
    server_write(fd, ANSWER("500 Oops", "{\"message\":\""),
                 strlen(ANSWER("500 Oops", "{\"message\":\"")));
    server_write(fd, text, sizeof(text));
    server_write(fd, "\"}", 2);
}

static void test_versions(void)
{
    static const struct {
        const char *header, *api, *libpod;
    } all[] = {
        {"Api-Version: 1.41\r\n", "1.41", ""},
        {"api-version:1.41\r\nLIBPOD-API-VERSION:   4.3.1\r\n", "1.41", "4.3.1"},
        {"Api-Version: 1.41-beta\r\n", "1.41", ""},
        {"Api-Version:\r\n", "", ""},
        {"Api-Version:     \r\n", "", ""},
        {"Api-Version: v1\r\n", "", ""},
        {"Api-Version: 1.23456789012345678901234567890\r\n", "", ""},
        {"Api-Version: 1.40\r\nApi-Version: 1.41\r\n", "1.41", ""},
        {"X-Api-Version: 1.41\r\n", "", ""},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char bytes[256];
        const char *const answers[] = {bytes, NULL};
        struct rest r;
        snprintf(bytes, sizeof(bytes), ANSWER_HEAD("200 OK") "%s\r\n", all[i].header);
        server_set(&server, answers, NULL);
        int status = call(&r, NULL);
        ok(status == 200 && !strcmp(r.api_version, all[i].api) &&
               !strcmp(r.libpod_version, all[i].libpod),
           "%s -> '%s' '%s'", all[i].header, r.api_version, r.libpod_version);
    }
}

/* --- bad ones */

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static void test_nonsense(void)
{
    static const struct {
        const char *name, *bytes;
        int error;
    } all[] = {
        {"nothing", "", -EHOSTDOWN},
        {"half a head", "HTTP/1.1 200 OK\r\nContent-Le", -EHOSTDOWN},
        {"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{\"a\":", -EHOSTDOWN},
        {"half of the chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
         -EHOSTDOWN},
        {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
         -EHOSTDOWN},
        {"a chunk of no size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
         -EHOSTDOWN},
        {"a chunk of too many digits",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
         -EHOSTDOWN},
        {"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", -EPROTO},
        {"no head", "{\"ApiVersion\":\"1.41\"}", -EPROTO},
        {"no such status", "HTTP/1.1 999 What\r\nConnection: close\r\n\r\n{}", -EPROTO},
        {"half JSON", OK("{\"a\":"), -EPROTO},
        {"bad UTF-8", OK("{\"a\":\"\xff\xfe\"}"), -EPROTO},
        {"two values", OK("{} {}"), -EPROTO},
        {"what a terminal takes for orders", OK("{\"a\":\x1b[2J\n}"), -EPROTO},
        {"a page", OK("<html></html>\n"), -EPROTO},
        {"a number out of reach", OK("{\"a\":1e999}"), -EPROTO},
        {"an integer out of reach", OK("{\"Pid\":99999999999999999999999}"), -EPROTO},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const char *const answers[] = {all[i].bytes, NULL};
        struct rest r;
        json_t *a = (json_t *)&r;
        server_set(&server, answers, NULL);
        int status = call(&r, &a);
        ok(status == all[i].error && !a && strstr(r.why, server.path), "%s: %d %s", all[i].name,
           status, r.why);
        ok(is_printable(r.why), "%s: said in words for a log", all[i].name);
    }
}

static void answer_deep(int fd)
{
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH);
    memset(text, '[', DEPTH);
    server_write(fd, OK(""), strlen(OK("")));
    server_write(fd, text, DEPTH);
    free(text);
}

static void answer_nul(int fd)
{
    static const char bytes[] = OK("{\"a\":1}\n\0{}\n");
    server_write(fd, bytes, sizeof(bytes) - 1);
}

static void repeat(int fd, const char *head, const char *part)
{
    char text[32 * 1024];
    size_t len = 0, n = strlen(part);
    for (; len + n <= sizeof(text); len += n)
        memcpy(text + len, part, n);
    if (server_write(fd, head, strlen(head)))
        while (server_write(fd, text, len))
            ;
}

static char many[16 * 1024];

static void answer_endless(int fd)
{
    repeat(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", many);
}

static void answer_endless_stream(int fd)
{
    repeat(fd, OK("{\"a\":1}\n"), "{\"status\":\"a line of a stream that has no end\"}\r\n");
}

static void answer_endless_chunks(int fd)
{
    repeat(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
           "20\r\n                                \r\n");
}

static void answer_endless_headers(int fd)
{
    repeat(fd, "HTTP/1.1 200 OK\r\n", "X-Header: and another one of a server's many headers\r\n");
}

static void answer_endless_line(int fd)
{
    repeat(fd, "HTTP/1.1 200 OK\r\nX: ", many);
}

static void answer_endless_continue(int fd)
{
    repeat(fd, "", "HTTP/1.1 100 Continue\r\nApi-Version: 1.41\r\n\r\n");
}

static void answer_endless_trailers(int fd)
{
    repeat(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
           "X-Trailer: and another one of a server's many trailers\r\n");
}

static void test_endless(void)
{
    static const struct {
        const char *name;
        void (*answer)(int fd);
    } all[] = {
        {"a body", answer_endless},
        {"a stream", answer_endless_stream},
        {"chunks", answer_endless_chunks},
        {"headers", answer_endless_headers},
        {"a line", answer_endless_line},
        {"interim answers", answer_endless_continue},
        {"trailers", answer_endless_trailers},
        {"deep lists", answer_deep},
    };
    memset(many, ' ', sizeof(many) - 1);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rest r;
        json_t *a = (json_t *)&r;
        server_set(&server, NULL, all[i].answer);
        int status = call(&r, &a);
        ok(status == -EPROTO && !a && r.why[0], "without an end: %s: %d %s", all[i].name, status,
           r.why);
    }
    struct rest r;
    json_t *a = NULL;
    server_set(&server, NULL, answer_nul);
    ok(call(&r, &a) == 200 && json_object_get(a, "a"), "a NUL after the first line is past it");
    json_decref(a);
    server_set(&server, NULL, answer_long_words);
    ok(call(&r, NULL) == 500 && strlen(r.why) == sizeof(r.why) - 1 && r.why[0] == 'w',
       "many words are cut");
}

static void answer_never(int fd)
{
    char byte;
    while (read(fd, &byte, 1) > 0) /* until the client is gone */
        ;
}

static void answer_slowly(int fd)
{
    static const char bytes[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    if (!server_write(fd, bytes, sizeof(bytes) - 1))
        return;
    while (server_write(fd, " ", 1))
        usleep(20000);
}

static void test_slow(void)
{
    void (*const all[])(int fd) = {answer_never, answer_slowly};
    for (size_t i = 0; i < 2; i++) {
        struct rest r;
        json_t *a = NULL;
        server_set(&server, NULL, all[i]);
        rest_open(&r, server.path, QUICK_MS);
        int status = rest_call(&r, "GET", "/x", NULL, &a);
        ok(status == -EHOSTDOWN && !a && strstr(r.why, "no answer within 300 ms"), "%s: %s",
           i ? "slowly" : "never", r.why);
    }
}

static void test_nobody(void)
{
    static const char *const paths[] = {"/nonexistent/sock", "/dev/null", "/tmp", ""};
    char path[2048];
    struct rest r;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        rest_open(&r, paths[i], QUICK_MS);
        int status = rest_call(&r, "GET", "/x", NULL, NULL);
        ok(status == -EHOSTDOWN && r.why[0], "nobody at '%s': %d %s", paths[i], status, r.why);
    }
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = 0;
    rest_open(&r, server.path, QUICK_MS);
    ok(rest_call(&r, "GET", path, NULL, NULL) == -ENAMETOOLONG, "a path that is too long");
    ok(rest_upload(&r, path, -1, NULL) == -ENAMETOOLONG, "a path that is too long for an upload");
}

/* Said twice to one that asks twice: libcurl 7.88 must not remember the first. */
static void test_folded(void)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nX-A: b\r\nConnection: close\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n folded\r\nConnection: close\r\n\r\n{}", NULL};
    struct rest r;
    server_set(&server, answers, NULL);
    rest_open(&r, server.path, PATIENT_MS);
    for (int i = 0; i < 4; i++) {
        _cleanup_json_ json_t *a = NULL;
        int status = rest_call(&r, "GET", "/x", NULL, &a);
        ok(i ? status == -EPROTO : status == 200, "a head that begins with a folded line: %d %s",
           status, r.why);
    }
}

/* --- uploads */

static int upload(const char *data, size_t len, struct rest *r, json_t **ret)
{
    int fd = memfd_create("upload", MFD_CLOEXEC);
    if (write(fd, data, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) != 0)
        return -EIO;
    rest_open(r, server.path, PATIENT_MS);
    int status = rest_upload(r, "/images", fd, ret);
    close(fd);
    return status;
}

static void test_upload(void)
{
    static const char *const good[] = {OK("{\"status\":\"sha256:1\"}\r\n{\"b\":1}\r\n"), NULL},
                             *const bad[] = {ANSWER("500 Oops", "{\"message\":\"full\"}"), NULL},
                             *const none[] = {"", NULL};
    struct rest r;
    _cleanup_json_ json_t *a = NULL;
    server_set(&server, good, NULL);
    ok(upload("tar archive", 11, &r, &a) == 200 && json_object_get(a, "status"), "an upload");
    ok(server_was_asked(&server, 0, "POST /images") &&
           strstr(server_request(&server, 0), "\r\n\r\nb\r\ntar archive\r\n0\r\n"),
       "arrives whole");
    server_set(&server, bad, NULL);
    ok(upload("x", 1, &r, NULL) == 500 && !strcmp(r.why, "full"), "one that is refused");
    server_set(&server, none, NULL);
    ok(upload("x", 1, &r, NULL) == -EHOSTDOWN, "one that is cut");
    rest_open(&r, server.path, PATIENT_MS);
    ok(rest_upload(&r, "/images", -1, NULL) < 0, "one of what cannot be read");
}

int main(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    server_start(&server);
    test_requests();
    test_answers();
    test_errors();
    test_versions();
    test_nonsense();
    test_endless();
    test_slow();
    test_nobody();
    test_folded();
    test_upload();
    server_stop(&server);
    curl_global_cleanup();
    return tap_done();
}
