/* SPDX-License-Identifier: Apache-2.0 */
/* The client over TLS, against what a real API server has said: whole, in two pieces at 50 places,
 * torn and closed at 50 places; then what it does by itself: trust, deadlines, credentials, watches
 * that go on. Each group of recordings is a case. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "kube/access.h"
#include "kube/client.h"
#include "kube/exec.h"
#include "kube/watch.h"
#include "loop/loop.h"
#include "tests/unit/kube-exchange.h"
#include "tests/unit/kube-server.h"
#include "tests/unit/tap.h"

#define PLACES      50
#define DEADLINE_MS 10000

static const char *dir;
static uv_loop_t loop;
static struct server server;

static struct kube_access access_to(const struct server *s)
{
    return (struct kube_access){.server = xasprintf("https://127.0.0.1:%d", s->port),
                                .ca = xstrdup(s->ca),
                                .token = xstrdup("the-token")};
}

static struct kube_client *client_to(const struct server *s)
{
    _cleanup_kube_access_ struct kube_access a = access_to(s);
    return kube_client_new(&loop, &a, NULL);
}

static void close_client(struct kube_client *c)
{
    kube_client_close(c, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* --- one call */

struct waited {
    bool done;
    struct kube_result result;
    bool object;
    size_t bytes;
    unsigned long sum;
};

static void on_done(void *data, const struct kube_answer *answer)
{
    struct waited *w = data;
    w->done = true;
    w->result = answer->result;
    w->object = answer->object != NULL;
    for (size_t i = 0; i < answer->len; i++)
        w->sum = w->sum * 31 + (unsigned char)answer->text[i];
    w->bytes += answer->len;
}

static int on_bytes(void *data, const char *bytes, size_t len)
{
    struct waited *w = data;
    for (size_t i = 0; i < len; i++)
        w->sum = w->sum * 31 + (unsigned char)bytes[i];
    w->bytes += len;
    return 0;
}

static const struct kube_call_events call_events = {.on_done = on_done};
static const struct kube_call_events stream_events = {.on_done = on_done, .on_bytes = on_bytes};

static void run_call(struct kube_client *c, const struct kube_request *request, bool stream,
                     struct waited *ret)
{
    *ret = (struct waited){0};
    kube_call_start(c, request, stream ? &stream_events : &call_events, ret);
    while (!ret->done)
        uv_run(&loop, UV_RUN_ONCE);
}

static void ask(struct kube_client *c, const struct exchange *x, bool stream, struct waited *ret)
{
    struct kube_request request = {.method = x->method,
                                   .path = x->target,
                                   .deadline_ms = DEADLINE_MS,
                                   .raw = x->bytes[exchange_body(x)] != '{'};
    if (strcmp(x->method, "GET") != 0) {
        request.body = "{}";
        request.body_len = 2;
        request.content_type = "application/json";
    }
    run_call(c, &request, stream, ret);
}

static size_t place(size_t i, size_t len)
{
    return len * i / PLACES;
}

/* Neither a length nor chunks: the end of the connection is the end of the body. */
static bool ends_by_closing(const struct exchange *x)
{
    return !strcasestr(x->bytes, "Content-Length:") &&
           !strcasestr(x->bytes, "Transfer-Encoding: chunked");
}

static bool cut_call(struct kube_client *c, const struct exchange *x, bool stream,
                     const struct waited *whole, char *why, size_t size)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct waited w;
        server.cut = place(i, x->len);
        server.way = SERVER_TWO;
        ask(c, x, stream, &w);
        if (w.result.outcome != whole->result.outcome || w.sum != whole->sum ||
            strcmp(w.result.reason, whole->result.reason) != 0) {
            snprintf(why, size, "in two at %zu: %s", server.cut, w.result.message);
            return false;
        }
        server.way = i % 2 ? SERVER_TORN : SERVER_CLOSED;
        ask(c, x, stream, &w);
        bool by_closing = ends_by_closing(x) && server.cut >= exchange_body(x);
        if (!kube_is_unknown(w.result.outcome) && !by_closing) {
            snprintf(why, size, "cut at %zu of %zu: %s", server.cut, x->len,
                     kube_outcome_name(w.result.outcome));
            return false;
        }
    }
    return true;
}

/* Recordings of one group have the same two digits. */
static void check_answers(const char *file, bool stream)
{
    struct exchanges all;
    struct kube_client *c = client_to(&server);
    exchanges_load(&all, dir, file);
    for (size_t i = 0; i < all.n;) {
        const char *group = all.all[i].name;
        size_t n = 0, places = 0;
        bool good = true;
        char why[300] = "";
        for (; i < all.n && strncmp(all.all[i].name, group, 2) == 0; i++, n++) {
            const struct exchange *x = &all.all[i];
            struct waited whole;
            bool ends = !stream || strstr(x->bytes, "\r\n0\r\n\r\n");
            server.answer = x;
            server.way = ends ? SERVER_WHOLE : SERVER_TORN;
            server.cut = x->len;
            ask(c, x, stream, &whole);
            int code = exchange_code(x);
            if (ends && whole.result.http != code) {
                snprintf(why, sizeof(why), "%s: %d %s", x->name, whole.result.http,
                         whole.result.message);
                good = false;
            }
            if (ends && (whole.result.outcome == KUBE_DONE) != (code < 300))
                good = false;
            if (ends && good && !cut_call(c, x, stream, &whole, why, sizeof(why)))
                good = false;
            places += ends ? 2 * PLACES : 0;
            if (!good)
                printf("# %s: %s\n", x->name, why);
        }
        ok(good, "%s group %.2s: %zu answers, %zu cuts", file, group, n, places);
    }
    exchanges_done(&all);
    close_client(c);
}

/* --- execs */

struct exec_waited {
    bool done, open;
    struct kube_result refusal;
    struct kube_exit exit;
    size_t bytes;
    unsigned long sum;
};

static void on_exec_open(void *data)
{
    ((struct exec_waited *)data)->open = true;
}

static void on_exec_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct exec_waited *w = data;
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        w->sum += channel * p[i];
    w->bytes += len;
}

static void on_exec_end(void *data, const struct kube_result *refusal, const struct kube_exit *exit)
{
    struct exec_waited *w = data;
    w->done = true;
    w->refusal = *refusal;
    w->exit = *exit;
}

static const struct kube_exec_events exec_events = {
    .on_open = on_exec_open, .on_output = on_exec_output, .on_end = on_exec_end};

static void run_exec(struct kube_client *c, uint32_t open_ms, uint32_t silence_ms,
                     struct exec_waited *ret)
{
    static const char *const command[] = {"/bin/sh", "-c", "echo out; echo err >&2", NULL};
    struct kube_exec_options o = {.namespace_ = "t1",
                                  .pod = "p1",
                                  .container = "main",
                                  .command = command,
                                  .open_ms = open_ms,
                                  .ping_ms = silence_ms / 3,
                                  .silence_ms = silence_ms};
    *ret = (struct exec_waited){0};
    kube_exec_start(c, &o, &exec_events, ret);
    while (!ret->done)
        uv_run(&loop, UV_RUN_ONCE);
}

struct paused_exec {
    struct kube_exec *exec;
    bool paused, ended;
};

static void on_paused_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct paused_exec *p = data;
    (void)channel, (void)bytes, (void)len;
    if (!p->paused)
        kube_exec_pause(p->exec, true);
    p->paused = true;
}

static void on_paused_end(void *data, const struct kube_result *refusal,
                          const struct kube_exit *exit)
{
    struct paused_exec *p = data;
    (void)refusal, (void)exit;
    p->ended = true;
}

/* Whether there is a turn in which the loop has nothing to do. */
static bool loop_comes_to_rest(void)
{
    for (int i = 0; i < 2000; i++) {
        struct pollfd p = {.fd = uv_backend_fd(&loop), .events = POLLIN};
        uv_run(&loop, UV_RUN_NOWAIT);
        if (poll(&p, 1, 10) == 0)
            return true;
    }
    return false;
}

/* Where its first output ends: frames of less than 126 bytes, each with its channel first. */
static size_t first_output_end(const struct exchange *x)
{
    const unsigned char *p = (const unsigned char *)x->bytes;
    size_t at = 0;
    while (at + 2 < x->len && !((p[at + 1] & 0x7f) > 1 && (p[at + 2] == 1 || p[at + 2] == 2)))
        at += 2u + (p[at + 1] & 0x7f);
    return strlen(x->head) + at + 2u + (p[at + 1] & 0x7f);
}

static void check_paused_exec(struct kube_client *c, const struct exchange *x)
{
    static const char *const command[] = {"true", NULL};
    static const struct kube_exec_events paused_events = {.on_output = on_paused_output,
                                                          .on_end = on_paused_end};
    struct kube_exec_options o = {.namespace_ = "t1",
                                  .pod = "p",
                                  .container = "main",
                                  .command = command,
                                  .open_ms = DEADLINE_MS,
                                  .ping_ms = 600000,
                                  .silence_ms = 600000};
    struct paused_exec p = {0};
    server.answer = x;
    server.way = SERVER_TWO; /* after which it closes */
    server.cut = first_output_end(x);
    p.exec = kube_exec_start(c, &o, &paused_events, &p);
    while (!p.paused)
        uv_run(&loop, UV_RUN_ONCE);
    ok(loop_comes_to_rest() && !p.ended, "a server that left is nothing to do while one pauses");
    kube_exec_pause(p.exec, false);
    while (!p.ended)
        uv_run(&loop, UV_RUN_ONCE);
    ok(p.ended, "and is seen after the pause");
}

static void check_execs(void)
{
    struct exchanges all;
    struct kube_client *c = client_to(&server);
    exchanges_load(&all, dir, "execs.txt");
    for (size_t i = 0; i < all.n; i++) {
        const struct exchange *x = &all.all[i];
        struct exec_waited whole, w;
        bool good = true;
        server.answer = x;
        server.way = SERVER_WHOLE;
        run_exec(c, DEADLINE_MS, 30000, &whole);
        size_t places = x->len > 100000 ? 5 : PLACES;
        size_t len = strlen(x->head) + x->len;
        for (size_t p = 0; good && p < places; p++) {
            server.cut = len * p / places;
            server.way = SERVER_TWO;
            run_exec(c, DEADLINE_MS, 30000, &w);
            good = w.exit.kind == whole.exit.kind && w.exit.code == whole.exit.code &&
                   w.sum == whole.sum && w.bytes == whole.bytes && w.open == whole.open;
            server.way = p % 2 ? SERVER_TORN : SERVER_CLOSED;
            if (good) {
                run_exec(c, DEADLINE_MS, 30000, &w);
                good = (w.exit.kind == KUBE_EXIT_UNKNOWN || w.exit.kind == whole.exit.kind) &&
                       (w.open || w.refusal.outcome != KUBE_DONE);
            }
            if (!good)
                printf("# at %zu of %zu: open %d kind %d %s %s\n", server.cut, len, w.open,
                       w.exit.kind, w.refusal.message, w.exit.why.message);
        }
        ok(good, "%s: %s, kind %d code %d, %zu bytes, %zu cuts", x->name,
           whole.open ? "open" : "refused", whole.exit.kind, whole.exit.code, whole.bytes,
           2 * places);
        if (strcmp(x->name, "30-exec-v5-stdout-stderr") == 0)
            ok(strstr(server.last_head, "command=%2Fbin%2Fsh&command=-c&command=echo%20out%3B%20"
                                        "echo%20err%20%3E%262 HTTP/1.1\r\n") &&
                   !strcasestr(server.last_head, "\r\nAccept:"),
               "the command is encoded, and no Accept is sent");
    }
    server.answer = exchange_find(&all, "70-kubelet-down-exec-v5");
    struct exec_waited w;
    server.way = SERVER_SILENT;
    server.cut = 1u << 20;
    run_exec(c, DEADLINE_MS, 300, &w);
    ok(w.open && w.exit.kind == KUBE_EXIT_UNKNOWN && strstr(w.exit.why.message, "silent"),
       "a frozen kubelet after the upgrade: %s", w.exit.why.message);
    server.cut = 0;
    run_exec(c, 200, 300, &w);
    ok(!w.open && w.refusal.outcome == KUBE_LATE, "and before it: %s", w.refusal.message);
    check_paused_exec(c, exchange_find(&all, "30-exec-v5-stdout-stderr"));
    exchanges_done(&all);
    close_client(c);
}

/* --- trust and time */

static void check_trust(void)
{
    struct exchanges all;
    exchanges_load(&all, dir, "answers.txt");
    server.answer = exchange_find(&all, "00-version");
    server.way = SERVER_WHOLE;
    const struct exchange *x = server.answer;
    struct waited w;
    struct kube_client *c = client_to(&server);
    ask(c, x, false, &w);
    ok(w.result.outcome == KUBE_DONE && w.object &&
           strstr(server.last_head, "\r\nAuthorization: Bearer the-token\r\n"),
       "our authority; the token is sent");
    close_client(c);

    _cleanup_kube_access_ struct kube_access a = access_to(&server);
    free(a.ca);
    a.ca = server_other_ca();
    int before = server.n_requests;
    c = kube_client_new(&loop, &a, NULL);
    ask(c, x, false, &w);
    ok(w.result.outcome == KUBE_UNTRUSTED && server.n_requests == before,
       "another authority, and no token sent: %s", w.result.message);
    close_client(c);

    _cleanup_free_ char *both = xasprintf("%s%s", a.ca, server.ca);
    free(a.ca);
    a.ca = xstrdup(both);
    c = kube_client_new(&loop, &a, NULL);
    ask(c, x, false, &w);
    ok(w.result.outcome == KUBE_DONE, "a bundle of both");
    close_client(c);

    free(a.server);
    a.server = xasprintf("https://localhost:%d", server.port);
    c = kube_client_new(&loop, &a, NULL);
    ask(c, x, false, &w);
    ok(w.result.outcome == KUBE_UNTRUSTED, "a name that the certificate does not have: %s",
       w.result.message);
    close_client(c);
    a.server_name = xstrdup("kube.example");
    c = kube_client_new(&loop, &a, NULL);
    ask(c, x, false, &w);
    ok(w.result.outcome == KUBE_DONE && strstr(server.last_head, "\r\nHost: localhost:"),
       "tls-server-name: %s", w.result.message);
    close_client(c);
    exchanges_done(&all);
}

static void check_client_certificate(void)
{
    struct exchanges all;
    struct server s = {.want_client_cert = true};
    struct waited w;
    exchanges_load(&all, dir, "answers.txt");
    server_start(&s);
    s.answer = exchange_find(&all, "00-version");
    _cleanup_kube_access_ struct kube_access a = access_to(&s);
    struct kube_client *c = kube_client_new(&loop, &a, NULL);
    ask(c, s.answer, false, &w);
    ok(w.result.outcome != KUBE_DONE && kube_is_unknown(w.result.outcome),
       "without a client certificate: %s", w.result.message);
    close_client(c);
    a.certificate = xstrdup(s.cert);
    a.key = xstrdup(s.key);
    c = kube_client_new(&loop, &a, NULL);
    ask(c, s.answer, false, &w);
    ok(w.result.outcome == KUBE_DONE, "with one: %s", w.result.message);
    close_client(c);
    server_stop(&s);
    exchanges_done(&all);
}

static void check_limits(void)
{
    struct exchanges all;
    struct waited w;
    exchanges_load(&all, dir, "answers.txt");
    const struct exchange *x = exchange_find(&all, "00-api-v1-resources");
    struct kube_client *c = client_to(&server);
    server.answer = x;
    server.way = SERVER_SILENT;
    server.cut = 200;
    struct kube_request request = {.method = "GET", .path = x->target, .deadline_ms = 150};
    run_call(c, &request, false, &w);
    ok(w.result.outcome == KUBE_LATE, "its own deadline: %s", w.result.message);
    server.way = SERVER_WHOLE;
    request.deadline_ms = DEADLINE_MS;
    request.answer_max = 1000;
    run_call(c, &request, false, &w);
    ok(w.result.outcome == KUBE_STRANGE, "an answer beyond its maximum: %s", w.result.message);
    request.answer_max = 0;
    run_call(c, &request, false, &w);
    ok(w.result.outcome == KUBE_DONE, "and the next one is fine");
    static const struct {
        const char *bytes, *what;
    } strange[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "no JSON"},
                   {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "nothing"},
                   {"SSH-2.0-x\r\n\r\n", "another protocol"},
                   {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]", "no object"}};
    for (size_t i = 0; i < ELEMENTS(strange); i++) {
        struct exchange odd = {.bytes = (char *)(uintptr_t)strange[i].bytes,
                               .len = strlen(strange[i].bytes)};
        server.answer = &odd;
        server.cut = odd.len;
        server.way = SERVER_CLOSED;
        run_call(c, &request, false, &w);
        ok(kube_is_unknown(w.result.outcome), "%s: %s, %s", strange[i].what,
           kube_outcome_name(w.result.outcome), w.result.message);
    }
    struct exchange moved = {.bytes = (char *)(uintptr_t) "HTTP/1.1 302 Found\r\nLocation: "
                                                          "https://127.0.0.1:1/\r\n"
                                                          "Content-Length: 0\r\n\r\n"};
    moved.len = strlen(moved.bytes);
    server.answer = &moved;
    server.way = SERVER_WHOLE;
    /* The connection of the answer before may be used again before its end has arrived. */
    for (int i = 0; i < 5 && (i == 0 || kube_is_unknown(w.result.outcome)); i++)
        run_call(c, &request, false, &w);
    ok(w.result.outcome == KUBE_FAILED && w.result.http == 302, "no redirection is followed");
    close_client(c);
    _cleanup_kube_access_ struct kube_access a = access_to(&server);
    free(a.server);
    a.server = xstrdup("https://127.0.0.1:1");
    c = kube_client_new(&loop, &a, NULL);
    run_call(c, &request, false, &w);
    ok(w.result.outcome == KUBE_UNREACHABLE, "nobody listens: %s", w.result.message);
    /* Cancelled at once, and with a call under way. */
    kube_call_cancel(kube_call_start(c, &request, &call_events, &w));
    kube_call_start(c, &request, &call_events, &w);
    close_client(c);
    ok(true, "closed with calls under way");
    exchanges_done(&all);
}

/* --- credentials */

struct tokens {
    const char *good;
    const struct exchange *yes, *no;
    int asked;
};

static char *serve_token(void *data, const char *head, size_t *ret_len)
{
    struct tokens *t = data;
    char line[100];
    snprintf(line, sizeof(line), "\r\nAuthorization: Bearer %s\r\n", t->good);
    const struct exchange *x = strstr(head, line) ? t->yes : t->no;
    t->asked++;
    char *copy = xcalloc(1, x->len + 1);
    memcpy(copy, x->bytes, x->len);
    *ret_len = x->len;
    return copy;
}

static void write_text(const char *path, const char *text)
{
    char next[300];
    snprintf(next, sizeof(next), "%s.new", path);
    FILE *f = fopen(next, "we");
    fputs(text, f);
    fclose(f);
    rename(next, path); /* as the kubelet does, at once */
}

static void check_tokens(void)
{
    struct exchanges all;
    struct waited w;
    char path[] = "/tmp/test-kube-token-XXXXXX";
    close(mkstemp(path));
    exchanges_load(&all, dir, "answers.txt");
    struct tokens t = {.good = "new",
                       .yes = exchange_find(&all, "00-version"),
                       .no = exchange_find(&all, "04-bad-token-401")};
    server.way = SERVER_SELF;
    server.serve = serve_token;
    server.data = &t;
    _cleanup_kube_access_ struct kube_access a = access_to(&server);
    a.token_file = xstrdup(path);
    write_text(path, "new\n");
    struct kube_client *c = kube_client_new(&loop, &a, NULL);
    ask(c, t.yes, false, &w);
    ok(w.result.outcome == KUBE_DONE && t.asked == 2, "401: the file is read again, once more");
    t.good = "another";
    t.asked = 0;
    ask(c, t.yes, false, &w);
    ok(w.result.outcome == KUBE_UNAUTHORIZED && t.asked == 2, "and only once");
    unlink(path);
    ask(c, t.yes, false, &w);
    ok(w.result.outcome == KUBE_UNAUTHORIZED, "a file that is gone");
    close_client(c);
    free(steal_ptr(a.token_file));
    c = kube_client_new(&loop, &a, NULL);
    t.asked = 0;
    ask(c, t.yes, false, &w);
    ok(w.result.outcome == KUBE_UNAUTHORIZED && t.asked == 1, "a fixed token is not tried again");
    close_client(c);
    server.way = SERVER_WHOLE;
    exchanges_done(&all);
}

/* --- a watch that goes on */

struct script {
    int step;
    char targets[16][400];
    int n_targets;
};

#define ANSWER(code, body)                                                                         \
    xasprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",    \
              code, strlen(body), body)

/* List in two pages; a stream with an event and a bookmark; then it is too old as an event; a list
 * in which one object is gone and another has been made again; then 410 as the answer. */
static char *serve_script(void *data, const char *head, size_t *ret_len)
{
    static const char *const steps[] = {
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"10\",\"continue\":\"more\"},"
        "\"items\":[{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"1\","
        "\"resourceVersion\":\"5\"}}]}",
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"10\"},"
        "\"items\":[{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",\"uid\":\"2\","
        "\"resourceVersion\":\"6\"}}]}",
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","
        "\"uid\":\"1\",\"resourceVersion\":\"11\"}}}\n"
        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"20\"}}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":\"Failure\","
        "\"reason\":\"Expired\",\"code\":410}}\n",
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"30\"},"
        "\"items\":[{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",\"uid\":\"9\","
        "\"resourceVersion\":\"25\"}}]}",
        "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}",
        "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"40\"},"
        "\"items\":[{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",\"uid\":\"9\","
        "\"resourceVersion\":\"25\"}}]}",
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\","
        "\"uid\":\"9\",\"resourceVersion\":\"41\"}}}\n",
    };
    struct script *s = data;
    int step = s->step++;
    if (step < (int)ELEMENTS(s->targets))
        snprintf(s->targets[step], sizeof(s->targets[step]), "%.*s", (int)strcspn(head, "\r"),
                 head);
    if (step >= (int)ELEMENTS(steps))
        return NULL;
    char *answer = ANSWER(step == 5 ? "410 Gone" : "200 OK", steps[step]);
    *ret_len = strlen(answer);
    return answer;
}

struct told {
    char log[400];
    int synced, trouble;
    bool over;
};

static void on_change(void *data, const struct kube_event *event)
{
    struct told *t = data;
    size_t at = strlen(t->log);
    snprintf(t->log + at, sizeof(t->log) - at, "%c%s%s%s ", "AMDB"[event->type], event -> name,
             event -> uid, event -> object ? "" : "!");
    t->over = event->type == KUBE_DELETED && event->object;
}

static void on_synced(void *data)
{
    ((struct told *)data)->synced++;
}

static void on_trouble(void *data, const struct kube_result *result)
{
    (void)result;
    ((struct told *)data)->trouble++;
}

static void check_watch(void)
{
    static const struct kube_watch_events events = {
        .on_change = on_change, .on_synced = on_synced, .on_trouble = on_trouble};
    struct script s = {0};
    struct told t = {0};
    struct kube_client *c = client_to(&server);
    server.way = SERVER_SELF;
    server.serve = serve_script;
    server.data = &s;
    struct kube_watch_options o = {.path = "/api/v1/pods",
                                   .label_selector = "a=b,c in (d)",
                                   .list_ms = DEADLINE_MS,
                                   .heartbeat_ms = DEADLINE_MS,
                                   .session_s = 300,
                                   .page = 1};
    struct kube_watch *w = kube_watch_new(c, &o, &events, &t);
    while (!t.over)
        uv_run(&loop, UV_RUN_ONCE);
    ok(strcmp(t.log, "Aa1 Ab2 Ma1 Db2! Ab9 Da1! Db9 ") == 0, "what was told: %s", t.log);
    ok(t.synced == 3, "three lists were told whole: %d", t.synced);
    ok(strstr(s.targets[0], "limit=1&labelSelector=a%3Db%2Cc%20in%20%28d%29"), "a page: %s",
       s.targets[0]);
    ok(strstr(s.targets[1], "continue=more"), "the next: %s", s.targets[1]);
    ok(strstr(s.targets[2], "allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds="),
       "a watch from the list: %s", s.targets[2]);
    ok(strstr(s.targets[3], "resourceVersion=20&"), "from the bookmark: %s", s.targets[3]);
    ok(strstr(s.targets[4], "pods?limit=1") && strstr(s.targets[6], "pods?limit=1"),
       "both kinds of 410 list again");
    kube_watch_close(w);
    close_client(c);
    server.way = SERVER_WHOLE;
}

int main(int argc, char **argv)
{
    dir = argc > 1 ? argv[1] : "tests/data/kube";
    uv_loop_init(&loop);
    server_start(&server);
    check_trust();
    check_client_certificate();
    check_limits();
    check_tokens();
    check_watch();
    check_answers("answers.txt", false);
    check_answers("watches.txt", true);
    check_execs();
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(uv_loop_close(&loop) == 0, "nothing is left in the loop");
    server_stop(&server);
    return tap_done();
}
