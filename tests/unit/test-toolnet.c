/* SPDX-License-Identifier: Apache-2.0 */
/* mas-tool-net and the gateway together, against a real web server on loopback.
 *
 * The pieces are those of production: gateway_main() in a forked child as an ordinary user, the
 * tool as a program. This test plays the runner and the control plane: it listens on the tool's
 * unix socket and hands each connection to the gateway.
 *
 * Usage: test-toolnet MAS-TOOL-NET SERVER.js */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "gateway/gateway-client.h"
#include "gateway/gateway.h"
#include "tests/unit/tap.h"

#define NOBODY 65534
#define MIB    (1 << 20)

static char dir[] = "/tmp/test-toolnet.XXXXXX";
static const char *tool;
static int main_port, other_port, tls_port, secret_port, black_hole_port;
static int gateway_sock = -1, listen_fd = -1;
static pid_t gateway_pid, server_pid;
static int server_stdin = -1;
/* What the control plane would send with each stream; changed only while no tool runs. */
static char *const *allowed_hosts;

static void die(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- a command with stdin and stdout ------------------------------------------------------- */

static pid_t start(char *const argv[], int *ret_in, int *ret_out)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *ret_in = in[1];
    *ret_out = out[0];
    return pid;
}

static void read_all(int fd, struct strbuf *b)
{
    char chunk[65536];
    for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
        strbuf_append(b, chunk, (size_t)n);
}

static int run(char *const argv[], const char *input, struct strbuf *out)
{
    int in_fd, out_fd, status;
    pid_t pid = start(argv, &in_fd, &out_fd);
    fd_write_all(in_fd, input, strlen(input));
    close(in_fd);
    read_all(out_fd, out);
    close(out_fd);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- the tool ------------------------------------------------------------------------------ */

struct answer {
    int exit;
    json_t *json;
    size_t bytes;
};

static struct answer run_tool(const char *input)
{
    struct error err = {0};
    struct answer a = {0};
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(64 * MIB);
    char *argv[] = {(char *)tool, NULL};
    a.exit = run(argv, input, &out);
    a.bytes = out.len;
    a.json = json_parse_object(out.data ? out.data : "", out.len, &err);
    if (!a.json)
        printf("# no JSON from the tool: %s\n", err.message);
    return a;
}

/* {"tool": tool, "args": args} where fmt makes args. */
__attribute__((format(printf, 2, 3))) static struct answer call(const char *name, const char *fmt,
                                                                ...)
{
    char args[4096], input[8192];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof(args), fmt, ap);
    va_end(ap);
    snprintf(input, sizeof(input),
             "{\"tool\":\"%s\",\"args\":%s,\"web_search_endpoint\":\"http://127.0.0.1:%d/ddg\"}",
             name, args, main_port);
    return run_tool(input);
}

static struct answer get(const char *name, const char *path)
{
    return call(name, "{\"url\":\"http://127.0.0.1:%d%s\"}", main_port, path);
}

static const char *str(const struct answer *a, const char *key)
{
    const json_t *result = json_object_get(a->json, "result");
    const json_t *v = json_object_get(a->json, key);
    v = v ? v : json_object_get(result, key);
    return json_is_string(v) ? json_string_value(v) : "(none)";
}

static json_int_t num(const struct answer *a, const char *key)
{
    const json_t *v = json_object_get(a->json, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static bool truth(const struct answer *a, const char *key)
{
    return json_is_true(json_object_get(a->json, key));
}

static bool is(const struct answer *a, const char *key, const char *want)
{
    bool same = strcmp(str(a, key), want) == 0;
    if (!same)
        printf("# %s is '%.300s'\n", key, str(a, key));
    return same;
}

static bool has(const struct answer *a, const char *key, const char *part)
{
    bool found = strstr(str(a, key), part) != NULL;
    if (!found)
        printf("# %s is '%.300s'\n", key, str(a, key));
    return found;
}

static void done(struct answer *a)
{
    json_decref(a->json);
    a->json = NULL;
}

#define _answer_ __attribute__((cleanup(done))) struct answer

/* --- set up -------------------------------------------------------------------------------- */

static void make_certificate(char *key, char *cert, size_t size)
{
    snprintf(key, size, "%s/key.pem", dir);
    snprintf(cert, size, "%s/cert.pem", dir);
    char *argv[] = {(char *)"openssl",
                    (char *)"req",
                    (char *)"-x509",
                    (char *)"-newkey",
                    (char *)"ec",
                    (char *)"-pkeyopt",
                    (char *)"ec_paramgen_curve:P-256",
                    (char *)"-nodes",
                    (char *)"-days",
                    (char *)"2",
                    (char *)"-subj",
                    (char *)"/CN=test",
                    (char *)"-addext",
                    (char *)"subjectAltName=IP:127.0.0.1",
                    (char *)"-keyout",
                    key,
                    (char *)"-out",
                    cert,
                    NULL};
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(MIB);
    if (run(argv, "", &out) != 0)
        die("openssl req");
}

static void start_server(const char *script, char *key, char *cert)
{
    int out;
    char line[512] = "";
    char *argv[] = {(char *)"node", (char *)script, key, cert, NULL};
    server_pid = start(argv, &server_stdin, &out);
    for (size_t n = 0; n < sizeof(line) - 1 && read(out, line + n, 1) == 1 && line[n] != '\n'; n++)
        ;
    struct error err = {0};
    _cleanup_json_ json_t *ports = json_parse_object(line, strlen(line), &err);
    main_port = (int)json_integer_value(json_object_get(ports, "main"));
    other_port = (int)json_integer_value(json_object_get(ports, "other"));
    tls_port = (int)json_integer_value(json_object_get(ports, "tls"));
    secret_port = (int)json_integer_value(json_object_get(ports, "secret"));
    if (!main_port || !other_port || !tls_port || !secret_port)
        die("node server");
}

/* A port that answers no connect: its queue is full. */
static void open_black_hole(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, size) < 0 || listen(fd, 0) < 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &size) < 0)
        die("black hole");
    black_hole_port = ntohs(sa.sin_port);
    for (int i = 0; i < 4; i++) {
        int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(filler, (struct sockaddr *)&sa, size);
    }
}

static void start_gateway(void)
{
    int pair[2];
    char a[32], b[32], c[32], hole[32];
    snprintf(hole, sizeof(hole), "127.0.0.1:%d", black_hole_port);
    snprintf(a, sizeof(a), "127.0.0.1:%d", main_port);
    snprintf(b, sizeof(b), "127.0.0.1:%d", other_port);
    snprintf(c, sizeof(c), "127.0.0.1:%d", tls_port);
    char *allow[] = {a, b, c, hole, (char *)"127.0.0.1:1", (char *)"127.0.0.3", NULL};
    char *deny[] = {(char *)"*.denied.example", (char *)"127.0.0.3", NULL};
    struct gateway_options options = {.config = {.allow_private = allow,
                                                 .deny_hosts = deny,
                                                 .request_timeout_ms = 1000,
                                                 .connect_timeout_ms = 1000,
                                                 .idle_timeout_ms = 3000,
                                                 .max_connections_per_label = 8},
                                      .uid = NOBODY,
                                      .gid = NOBODY};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    gateway_pid = fork();
    if (gateway_pid == 0) {
        log_setup("gateway", getenv("TEST_VERBOSE") ? LOG_INFO : LOG_ERROR, false);
        _exit(gateway_main(pair[1], &options));
    }
    close(pair[1]);
    gateway_sock = pair[0];
}

static void *accept_loop(void *data)
{
    (void)data;
    for (;;) {
        struct error err = {0};
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        struct gateway_rules rules = {.hosts = allowed_hosts, .label = "sbx-test", .tag = 7};
        if (gateway_open(gateway_sock, &rules, fd, -1, &err) < 0)
            printf("# gateway_open: %s\n", err.message);
        close(fd);
    }
}

static pthread_t start_acceptor(void)
{
    pthread_t thread;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/gw.sock", dir);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
        listen(listen_fd, 16) < 0)
        die("listen");
    setenv("MAS_GATEWAY_SOCKET", sa.sun_path, 1);
    if (pthread_create(&thread, NULL, accept_loop, NULL) != 0)
        die("thread");
    return thread;
}

static void remove_files(void)
{
    static const char *const names[] = {"gw.sock", "key.pem", "cert.pem"};
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* --- http_client --------------------------------------------------------------------------- */

static void test_http_client(void)
{
    _answer_ a = get("http_client", "/hello");
    ok(a.exit == 0 && truth(&a, "success") && num(&a, "status_code") == 200, "GET answers 200");
    ok(is(&a, "status", "200 OK") && is(&a, "body", "hello, wörld\n") && num(&a, "size") == 14,
       "with status, body and size");
    const json_t *h = json_object_get(a.json, "headers");
    const char *type = json_string_value(json_object_get(h, "Content-Type"));
    const char *twice = json_string_value(json_object_get(h, "X-Twice"));
    ok(type && strcmp(type, "text/plain; charset=utf-8") == 0, "headers in canonical case");
    ok(twice && strcmp(twice, "a, b") == 0, "repeated headers are joined");
    ok(has(&a, "duration", "s") && !json_object_get(a.json, "error"), "a duration, no error");

    _answer_ missing = get("http_client", "/missing");
    ok(missing.exit == 0 && !truth(&missing, "success") && num(&missing, "status_code") == 404 &&
           is(&missing, "error", "HTTP 404 Not Found"),
       "a 404 is an answer without success");
    _answer_ empty = get("http_client", "/empty");
    ok(empty.exit == 0 && truth(&empty, "success") && is(&empty, "body", ""), "204 without a body");
    _answer_ head =
        call("http_client", "{\"method\":\"head\",\"url\":\"http://127.0.0.1:%d/big\"}", main_port);
    ok(head.exit == 0 && num(&head, "status_code") == 200 && is(&head, "body", ""), "HEAD");
}

static void test_http_request(void)
{
    _answer_ a = call("http_client",
                      "{\"method\":\"POST\",\"url\":\"http://127.0.0.1:%d/echo\",\"body\":\"a=1\","
                      "\"headers\":{\"X-One\":\"1\",\"Authorization\":\"Bearer t\","
                      "\"Host\":\"evil.example\",\"Content-Length\":\"99\"}}",
                      main_port);
    ok(has(&a, "body", "\"method\":\"POST\"") && has(&a, "body", "\"body\":\"a=1\""),
       "POST a body");
    ok(has(&a, "body", "\"x-one\":\"1\"") && has(&a, "body", "Bearer t"), "with headers");
    ok(!strstr(str(&a, "body"), "evil.example") && has(&a, "body", "\"content-length\":\"3\""),
       "but not with a Host or length of its own");
    _answer_ j =
        call("http_client",
             "{\"method\":\"PUT\",\"url\":\"http://127.0.0.1:%d/echo\",\"body\":{\"k\":[1]}}",
             main_port);
    ok(has(&j, "body", "{\\\"k\\\":[1]}") &&
           has(&j, "body", "\"content-type\":\"application/json\""),
       "a body that is not a string is sent as JSON");

    size_t size = 4 * MIB;
    _cleanup_free_ char *body = xcalloc(1, size + 1);
    memset(body, 'b', size);
    _cleanup_free_ char *input =
        xasprintf("{\"tool\":\"http_client\",\"args\":{\"method\":\"POST\",\"url\":"
                  "\"http://127.0.0.1:%d/echo\",\"body\":\"%s\"}}",
                  main_port, body);
    _answer_ big = run_tool(input);
    ok(has(&big, "body", "\"size\":4194304"), "4 MiB go up whole");
}

static void test_bodies(void)
{
    _answer_ bin = get("http_client", "/binary");
    ok(is(&bin, "body", "AAEC//4=") && is(&bin, "body_encoding", "base64") &&
           num(&bin, "size") == 5,
       "a binary body comes as base64");
    _answer_ latin = get("http_client", "/latin1-text");
    ok(is(&latin, "body", "café"), "a text in a declared charset comes as UTF-8");
    _answer_ gzip = get("http_client", "/gzip");
    ok(is(&gzip, "body", "squeezed"), "a compressed body is unpacked");
    _answer_ exact = get("http_client", "/exact");
    ok(num(&exact, "size") == 5 * MIB && !truth(&exact, "truncated"), "5 MiB fit");
    static const char *const large[] = {"/big", "/endless", "/bomb"};
    for (size_t i = 0; i < ELEMENTS(large); i++) {
        _answer_ a = get("http_client", large[i]);
        ok(a.exit == 0 && num(&a, "size") == 5 * MIB && truth(&a, "truncated"),
           "%s ends at 5 MiB and says so", large[i]);
    }
    _answer_ cut = get("http_client", "/cut");
    ok(cut.exit == 1 && is(&cut, "code", "tool_failed"), "a body cut short is a failure");
    _answer_ heads = get("http_client", "/headers");
    ok(heads.exit == 1 && has(&heads, "error", "headers"), "too many headers are a failure");
    _answer_ small = run_tool("{\"tool\":\"http_client\",\"limits\":{\"body_bytes\":99999999}}");
    ok(small.exit == 1 && is(&small, "code", "invalid_request"), "limits cannot be raised");
}

static void test_redirects(void)
{
    _answer_ a = get("fetch", "/to-hello");
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/hello", main_port);
    ok(a.exit == 0 && is(&a, "content", "hello, wörld\n") && is(&a, "url", url),
       "a redirect is followed");
    static const char *const forms[][2] = {{"/to-echo-303", "\"method\":\"GET\""},
                                           {"/to-echo-307", "\"method\":\"POST\""}};
    for (size_t i = 0; i < 2; i++) {
        _answer_ r = call("http_client",
                          "{\"method\":\"POST\",\"url\":\"http://127.0.0.1:%d%s\",\"body\":\"x\"}",
                          main_port, forms[i][0]);
        ok(has(&r, "body", forms[i][1]), "%s: %s", forms[i][0], forms[i][1]);
    }
    static const char *const headers = "{\"Authorization\":\"sesame\",\"Cookie\":\"sesame\","
                                       "\"X-Api-Key\":\"sesame\",\"Accept-Language\":\"de\"}";
    _answer_ same =
        call("http_client", "{\"url\":\"http://127.0.0.1:%d/to-echo-307\",\"headers\":%s}",
             main_port, headers);
    ok(has(&same, "body", "sesame"), "credentials stay with their origin");
    _answer_ other =
        call("http_client", "{\"url\":\"http://127.0.0.1:%d/to-other\",\"headers\":%s}", main_port,
             headers);
    ok(num(&other, "status_code") == 200 && !strstr(str(&other, "body"), "sesame") &&
           has(&other, "body", "\"accept-language\":\"de\""),
       "and do not go to another");
    _answer_ loop = get("fetch", "/loop");
    ok(loop.exit == 1 && is(&loop, "error", "stopped after 10 redirects"), "a loop ends");
    static const char *const schemes[] = {"/to-file", "/to-gopher"};
    for (size_t i = 0; i < 2; i++) {
        _answer_ f = get("fetch", schemes[i]);
        ok(f.exit == 1 && is(&f, "code", "tool_failed") && has(&f, "error", "http and https"),
           "%s is not followed", schemes[i]);
    }
}

/* --- what must not be reached -------------------------------------------------------------- */

static void check_denied(struct answer a, const char *what)
{
    ok(a.exit == 1 && is(&a, "code", "policy_denied") && is(&a, "error", "host not allowed"),
       "%s is denied", what);
    json_decref(a.json);
}

static void test_denied(void)
{
    static const char *const urls[] = {
        "http://localhost:%d/",         "http://127.0.0.1:%d/",
        "http://127.0.0.2:%d/",         "http://[::1]:%d/",
        "http://0.0.0.0:%d/",           "http://[::ffff:127.0.0.1]:%d/",
        "http://2130706433:%d/",        "http://0x7f000001:%d/",
        "http://0177.0.0.1:%d/",        "http://127.1:%d/",
        "http://LOCALHOST.:%d/",        "http://[::]:%d/",
        "http://[64:ff9b::7f00:1]:%d/",
    };
    for (size_t i = 0; i < ELEMENTS(urls); i++) {
        char url[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(url, sizeof(url), urls[i], secret_port);
#pragma GCC diagnostic pop
        check_denied(call("http_client", "{\"url\":\"%s\"}", url), url);
    }
    check_denied(call("fetch", "{\"url\":\"http://169.254.169.254/\"}"), "the metadata service");
    check_denied(call("fetch", "{\"url\":\"http://10.0.0.1/\"}"), "a private address");
    check_denied(call("fetch", "{\"url\":\"http://www.denied.example/\"}"),
                 "a name on the deny list");
    check_denied(call("fetch", "{\"url\":\"http://127.0.0.3:%d/\"}", main_port),
                 "an address on the deny list, even if it is listed as private");
    check_denied(get("fetch", "/to-secret"), "a redirect to an address that is not listed");
    check_denied(get("fetch", "/to-metadata"), "a redirect to the metadata service");
    _answer_ hits = get("fetch", "/secret-hits");
    ok(is(&hits, "content", "0"), "nobody ever connected to the server that is not listed");
    _answer_ why = call("http_client", "{\"url\":\"http://localhost:%d/\"}", secret_port);
    const json_t *result = json_object_get(why.json, "result");
    const char *words = json_string_value(json_object_get(result, "error"));
    ok(words && strstr(words, "localhost is a loopback address"), "the result says why: %s", words);
}

static void test_allowed_hosts(void)
{
    char rule[32];
    snprintf(rule, sizeof(rule), "127.0.0.1:%d", main_port);
    char *mine[] = {rule, NULL};
    char *others[] = {(char *)"example.com", (char *)"*.example.org", NULL};
    allowed_hosts = mine;
    _answer_ a = get("fetch", "/hello");
    ok(a.exit == 0, "a host on the list is reached");
    check_denied(get("fetch", "/to-other"), "a redirect off the list");
    allowed_hosts = others;
    check_denied(get("fetch", "/hello"), "a host that is not on the list");
    check_denied(call("web_search", "{\"query\":\"x\"}"),
                 "a search endpoint that is not on the list");
    allowed_hosts = NULL;
}

static void test_failures(void)
{
    _answer_ slow =
        call("http_client", "{\"url\":\"http://127.0.0.1:%d/slow\",\"timeout\":0.3}", main_port);
    ok(slow.exit == 1 && is(&slow, "error", "timed out after 300ms"), "a silent server times out");
    _answer_ drip =
        call("fetch", "{\"url\":\"http://127.0.0.1:%d/drip\",\"timeout\":\"400ms\"}", main_port);
    ok(drip.exit == 1 && is(&drip, "error", "timed out after 400ms"), "so does one that drips");
    _answer_ closed = call("http_client", "{\"url\":\"http://127.0.0.1:1/\"}");
    ok(closed.exit == 1 && is(&closed, "code", "tool_failed") &&
           has(&closed, "error", "Connection refused"),
       "a closed port is named");
    ok(json_is_false(json_object_get(json_object_get(closed.json, "result"), "success")),
       "a failure has a result without success");
    _answer_ plain = call("http_client", "{\"url\":\"https://127.0.0.1:%d/hello\"}", main_port);
    ok(plain.exit == 1 && is(&plain, "code", "tool_failed"), "TLS to a plain server fails");
    _answer_ tls = call("http_client", "{\"url\":\"https://127.0.0.1:%d/hello\"}", tls_port);
    ok(tls.exit == 1 && has(&tls, "error", "certificate"), "an unknown certificate is refused");
}

static void test_tls(const char *cert)
{
    setenv("MAS_CA_FILE", cert, 1);
    _answer_ a = call("http_client", "{\"url\":\"https://127.0.0.1:%d/hello\"}", tls_port);
    ok(a.exit == 0 && is(&a, "body", "hello, wörld\n"), "a trusted certificate is accepted");
    _answer_ name = call("http_client", "{\"url\":\"https://localhost:%d/hello\"}", tls_port);
    ok(name.exit == 1 && has(&name, "error", "localhost"), "but not for another name");
    unsetenv("MAS_CA_FILE");
}

static void test_arguments(void)
{
    static const char *const bad[][2] = {
        {"http_client", "{}"},
        {"http_client", "{\"url\":\"\"}"},
        {"http_client", "{\"url\":7}"},
        {"http_client", "{\"url\":\"not a url\"}"},
        {"http_client", "{\"url\":\"http://\"}"},
        {"http_client", "{\"url\":\"file:///etc/passwd\"}"},
        {"http_client", "{\"url\":\"ftp://127.0.0.1/\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1:99999/\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/a b\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\\r\\nX: y\"}"},
        {"http_client", "{\"url\":\"http://[fe80::1%25lo]/\"}"},
        {"http_client", "{\"url\":\"http://a_b..c/\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"method\":\"BREW\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"method\":\"GET / HTTP/1.1\\r\\n\"}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"headers\":[]}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"headers\":{\"A\":1}}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"headers\":{\"A: b\":\"c\"}}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"timeout\":-1}"},
        {"http_client", "{\"url\":\"http://127.0.0.1/\",\"timeout\":\"soon\"}"},
        {"fetch", "{\"url\":\"http://127.0.0.1/\",\"format\":\"pdf\"}"},
        {"fetch", "{\"url\":\"javascript:alert(1)\"}"},
        {"web_search", "{}"},
        {"web_search", "{\"query\":\"x\",\"max_results\":\"2\"}"},
        {"web_search", "{\"query\":\"x\",\"language\":\"en\\r\\nX: y\"}"},
        {"telnet", "{}"},
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        _answer_ a = call(bad[i][0], "%s", bad[i][1]);
        ok(a.exit == 1 && is(&a, "code", "invalid_request") && *str(&a, "error"),
           "%s %s is refused: %s", bad[i][0], bad[i][1], str(&a, "error"));
    }
    static const char *const inputs[] = {"", "[]", "{", "{\"tool\":1}",
                                         "{\"tool\":\"fetch\",\"args\":3}"};
    for (size_t i = 0; i < ELEMENTS(inputs); i++) {
        _answer_ a = run_tool(inputs[i]);
        ok(a.exit == 1 && is(&a, "code", "invalid_request"), "input '%s' is refused", inputs[i]);
    }
}

/* --- fetch and web_search ------------------------------------------------------------------ */

static void test_fetch(void)
{
    _answer_ text = get("fetch", "/page");
    ok(text.exit == 0 && truth(&text, "success") && is(&text, "format", "text") &&
           is(&text, "content", "Title\n\nSome bold text and a link.\n\n- one\n- two"),
       "HTML as text");
    _answer_ md =
        call("fetch", "{\"url\":\"http://127.0.0.1:%d/page\",\"format\":\"markdown\"}", main_port);
    char want[256];
    snprintf(
        want, sizeof(want),
        "# Title\n\nSome **bold** text and a [link](http://127.0.0.1:%d/next).\n\n- one\n- two",
        main_port);
    ok(is(&md, "content", want), "HTML as markdown");
    _answer_ html =
        call("fetch", "{\"url\":\"http://127.0.0.1:%d/page\",\"format\":\"html\"}", main_port);
    ok(has(&html, "content", "<script>"), "HTML as it is");
    _answer_ latin = get("fetch", "/latin1");
    ok(is(&latin, "content", "café “q”"), "a charset of the Content-Type");
    _answer_ meta = get("fetch", "/latin1-meta");
    ok(is(&meta, "content", "café"), "a charset of the document");
    _answer_ untyped = get("fetch", "/untyped");
    ok(is(&untyped, "content", "typed?"), "HTML without a Content-Type");
    _answer_ plain = get("fetch", "/hello");
    ok(is(&plain, "content", "hello, wörld\n"), "other text as it is");
    _answer_ controls = get("fetch", "/controls");
    ok(is(&controls, "content", "abc\td"), "without control characters");
    _answer_ bin = get("fetch", "/binary");
    ok(is(&bin, "content", "AAEC//4=") && is(&bin, "content_encoding", "base64"),
       "binary as base64");
    _answer_ big = get("fetch", "/big");
    ok(truth(&big, "truncated") && num(&big, "size") == 5 * MIB, "a large page says it was cut");
    _answer_ missing = get("fetch", "/missing");
    ok(missing.exit == 0 && !truth(&missing, "success") && is(&missing, "content", "nothing here"),
       "a 404 is an answer without success");
}

static void test_search(void)
{
    _answer_ a = call("web_search", "{\"query\":\"a b&c\",\"language\":\"de-CH\"}");
    const json_t *results = json_object_get(a.json, "results");
    ok(a.exit == 0 && truth(&a, "success") && is(&a, "query", "a b&c") && num(&a, "total") == 4 &&
           json_array_size(results) == 4,
       "four results, one of them twice in the answer");
    static const char *const want[4][4] = {
        {"Answer", "https://en.example/answer", "The abstract.", "Encyclopedia"},
        {"Official", "https://r.example/", "Official - site", "DuckDuckGo"},
        {"Topic one", "https://t.example/1", "Topic one - about one", "DuckDuckGo"},
        {"Topic two", "https://t.example/2", "Topic two - about two", "DuckDuckGo"},
    };
    static const char *const keys[] = {"title", "url", "snippet", "source"};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            const json_t *item = json_array_get(results, i);
            const char *got = json_string_value(json_object_get(item, keys[k]));
            ok(got && strcmp(got, want[i][k]) == 0, "result %zu: %s is %s", i, keys[k], want[i][k]);
        }
    _answer_ two = call("web_search", "{\"query\":\"x\",\"max_results\":2}");
    ok(num(&two, "total") == 2 && is(&two, "message", "2 results"), "max_results");
    char input[256];
    snprintf(input, sizeof(input),
             "{\"tool\":\"web_search\",\"args\":{\"query\":\"x\"},"
             "\"web_search_endpoint\":\"http://127.0.0.1:%d/%%s\"}",
             main_port);
    static const char *const paths[] = {"ddg-empty", "hello", "missing"};
    for (size_t i = 0; i < 3; i++) {
        char request[256], *mark = strstr(input, "%s");
        snprintf(request, sizeof(request), "%.*s%s%s", (int)(mark - input), input, paths[i],
                 mark + 2);
        _answer_ r = run_tool(request);
        ok(i == 0 ? r.exit == 0 && is(&r, "message", "no results")
                  : r.exit == 1 && is(&r, "code", "tool_failed"),
           "endpoint /%s: %s", paths[i], i ? str(&r, "error") : str(&r, "message"));
    }
}

/* --- the gateway's stream ------------------------------------------------------------------ */

static int open_stream(const char *label)
{
    int pair[2];
    struct error err = {0};
    struct gateway_rules rules = {.label = label};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    if (gateway_open(gateway_sock, &rules, pair[1], -1, &err) < 0)
        die(err.message);
    close(pair[1]);
    return pair[0];
}

static void check_stream(const char *text, size_t len, const char *want, const char *what)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(MIB);
    _cleanup_close_ int fd = open_stream("sbx-raw");
    send(fd, text, len, MSG_NOSIGNAL);
    read_all(fd, &out);
    bool good = out.data && strncmp(out.data, want, strlen(want)) == 0;
    if (!good)
        printf("# answer: %s\n", out.data ? out.data : "(none)");
    ok(good, "%s: %.*s", what, (int)strcspn(want, "\n"), want);
}

static void test_stream(void)
{
    char line[600];
    check_stream("hello\n", 6, "ERR bad_request ", "not a CONNECT line");
    check_stream("CONNECT 127.0.0.1\n", 18, "ERR bad_request ", "no port");
    memset(line, 'a', sizeof(line));
    check_stream(line, sizeof(line), "ERR bad_request ", "a line without end");
    check_stream("CONNECT x", 9, "ERR timeout ", "half a line");
    check_stream("CONNECT 127.0.0.1 2\n", 20, "ERR address_not_allowed ", "not listed");
    check_stream("CONNECT localhost 2\n", 20, "ERR address_not_allowed ", "a name for it");
    int n = snprintf(line, sizeof(line), "CONNECT 127.0.0.1 %d\nGET /hello HTTP/1.0\r\n\r\n",
                     main_port);
    check_stream(line, (size_t)n, "OK 127.0.0.1\nHTTP/1.1 200 OK\r\n", "data right after the line");

    n = snprintf(line, sizeof(line), "CONNECT 127.0.0.1 %d\n", black_hole_port);
    check_stream(line, (size_t)n, "ERR timeout ", "a place that does not answer");
    n = snprintf(line, sizeof(line), "CONNECT 127.0.0.1 %d\n", main_port);
    check_stream(line, (size_t)n, "OK 127.0.0.1\n", "an idle connection is ended");

    int held[8];
    for (size_t i = 0; i < ELEMENTS(held); i++)
        held[i] = open_stream("sbx-greedy");
    char answer[64] = "";
    _cleanup_close_ int over = open_stream("sbx-greedy");
    ok(recv(over, answer, sizeof(answer) - 1, 0) > 0 && strstr(answer, "too many connections"),
       "one sandbox cannot take all connections");
    _answer_ a = get("fetch", "/hello");
    ok(a.exit == 0, "while another still gets one");
    for (size_t i = 0; i < ELEMENTS(held); i++)
        close(held[i]);
}

/* Half-close: the client ends its side, the answer still comes. */
static void test_half_close(void)
{
    char line[64];
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(16 * MIB);
    _cleanup_close_ int fd = open_stream("sbx-half");
    int n = snprintf(line, sizeof(line), "CONNECT 127.0.0.1 %d\n", main_port);
    fd_write_all(fd, line, (size_t)n);
    static const char request[] = "GET /big HTTP/1.0\r\n\r\n";
    fd_write_all(fd, request, strlen(request));
    shutdown(fd, SHUT_WR);
    read_all(fd, &out);
    ok(out.len > 6 * MIB, "6 MiB come down after the client ended its side (%zu)", out.len);
}

static void test_process(void)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof(path), "/proc/%d/status", gateway_pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ok(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "the gateway lives");
    ok(geteuid() != 0 || strstr(text, "Uid:\t65534\t65534\t65534\t65534"), "as a user of its own");
    ok(strstr(text, "CapEff:\t0000000000000000") && strstr(text, "NoNewPrivs:\t1"),
       "without capabilities, and cannot get any");
    char junk[100] = "junk";
    send(gateway_sock, junk, sizeof(junk), MSG_NOSIGNAL);
    send(gateway_sock, junk, 0, MSG_NOSIGNAL);
    int zero = open("/dev/null", O_RDWR | O_CLOEXEC);
    fd_send_msg(gateway_sock, junk, sizeof(junk), &zero, 1);
    close(zero);
    _answer_ a = get("fetch", "/hello");
    ok(a.exit == 0, "malformed requests do not end it");
}

int main(int argc, char **argv)
{
    char key[64], cert[64];
    int status = -1;
    if (argc != 3 || !mkdtemp(dir))
        die("usage: test-toolnet MAS-TOOL-NET SERVER.js");
    tool = argv[1];
    make_certificate(key, cert, sizeof(key));
    start_server(argv[2], key, cert);
    open_black_hole();
    start_gateway();
    pthread_t acceptor = start_acceptor();
    test_http_client();
    test_http_request();
    test_bodies();
    test_redirects();
    test_denied();
    test_allowed_hosts();
    test_failures();
    test_tls(cert);
    test_arguments();
    test_fetch();
    test_search();
    test_stream();
    test_half_close();
    test_process();
    shutdown(listen_fd, SHUT_RDWR);
    pthread_join(acceptor, NULL);
    close(gateway_sock);
    waitpid(gateway_pid, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the gateway ends when its socket does");
    close(server_stdin);
    waitpid(server_pid, NULL, 0);
    remove_files();
    return tap_done();
}
