/* SPDX-License-Identifier: Apache-2.0 */
/* What a real API server has said, cut at every byte in memory: answers, watches and channels mean
 * the same in two pieces, and a piece that is missing is never taken for success. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "kube/channel.h"
#include "kube/pod.h"
#include "kube/status.h"
#include "kube/watch-stream.h"
#include "tests/unit/kube-exchange.h"
#include "tests/unit/tap.h"

static const char *dir;

/* --- answers */

static const struct {
    const char *name;
    enum kube_outcome outcome;
    const char *reason;
} meanings[] = {
    {"01-pod-create-before-default-sa-403", KUBE_FORBIDDEN, "Forbidden"},
    {"02-ns-create-again-409", KUBE_EXISTS, "AlreadyExists"},
    {"03-pod-get-404", KUBE_NOT_FOUND, "NotFound"},
    {"03-unknown-group-404", KUBE_NO_API, ""},
    {"03-pod-create-in-missing-ns-404", KUBE_NOT_FOUND, "NotFound"},
    {"04-bad-token-401", KUBE_UNAUTHORIZED, "Unauthorized"},
    {"05-rbac-403", KUBE_FORBIDDEN, "Forbidden"},
    {"06-pod-invalid-422", KUBE_INVALID, "Invalid"},
    {"07-bad-json-400", KUBE_INVALID, "BadRequest"},
    {"07-unknown-field-strict-400", KUBE_INVALID, "BadRequest"},
    {"08-method-405", KUBE_INVALID, "MethodNotAllowed"},
    {"08-unsupported-media-415", KUBE_INVALID, "UnsupportedMediaType"},
    {"09-body-too-large-413", KUBE_TOO_LARGE, "RequestEntityTooLarge"},
    {"11-cm-put-stale-409", KUBE_CONFLICT, "Conflict"},
    {"11-cm-delete-precondition-409", KUBE_CONFLICT, "Conflict"},
    {"11-cm-ssa-conflict-409", KUBE_CONFLICT, "Conflict"},
    {"12-list-expired-continue-410", KUBE_EXPIRED, "Expired"},
    {"13-list-exact-compacted-410", KUBE_EXPIRED, "Expired"},
    {"13-list-future-rv-504", KUBE_FAILED, "Timeout"},
    {"14-quota-exceeded-403", KUBE_FORBIDDEN, "Forbidden"},
    {"16-pod-security-403", KUBE_FORBIDDEN, "Forbidden"},
    {"30-exec-v4-accept-json-406", KUBE_INVALID, ""},
    {"37-exec-unknown-subprotocol", KUBE_FORBIDDEN, ""},
    {"39-exec-missing-pod-404", KUBE_NOT_FOUND, "NotFound"},
    {"40-exec-into-terminated-pod-v4", KUBE_FAILED, ""},
    {"44-eviction-429", KUBE_BUSY, "TooManyRequests"},
    {"50-create-in-terminating-ns-403", KUBE_TERMINATING, "Forbidden"},
    {"60-token-expired-401", KUBE_UNAUTHORIZED, "Unauthorized"},
    {"74-unknown-runtimeclass-403", KUBE_FORBIDDEN, "Forbidden"},
};

static void check_meanings(const struct exchanges *all)
{
    for (size_t i = 0; i < ELEMENTS(meanings); i++) {
        const struct exchange *x = exchange_find(all, meanings[i].name);
        size_t len;
        struct kube_result r;
        _cleanup_free_ char *body = exchange_decode(x, &len);
        kube_result_parse(&r, exchange_code(x), body, len, 0);
        ok(r.outcome == meanings[i].outcome && strcmp(r.reason, meanings[i].reason) == 0,
           "%s is %s (%s, '%s')", x->name, kube_outcome_name(meanings[i].outcome),
           kube_outcome_name(r.outcome), r.reason);
        for (size_t cut = 0; cut < len; cut++) {
            kube_result_parse(&r, exchange_code(x), body, cut, 0);
            if (r.outcome == KUBE_DONE || strlen(r.message) >= sizeof(r.message))
                ok(false, "%s cut at %zu of %zu", x->name, cut, len);
        }
    }
}

static void check_details(const struct exchanges *all)
{
    struct kube_result r;
    size_t len;
    _cleanup_free_ char *invalid = exchange_decode(exchange_find(all, "06-pod-invalid-422"), &len);
    kube_result_parse(&r, 422, invalid, len, 0);
    ok(r.field[0] != 0, "422 names a field: %s", r.field);
    _cleanup_free_ char *late = exchange_decode(exchange_find(all, "13-list-future-rv-504"), &len);
    kube_result_parse(&r, 504, late, len, 0);
    ok(r.retry_after_s == 1, "504 has retryAfterSeconds 1: %u", r.retry_after_s);
    kube_result_parse(&r, 504, late, len, 7);
    ok(r.retry_after_s == 7, "the header counts before it");
    _cleanup_free_ char *evict = exchange_decode(exchange_find(all, "44-eviction-429"), &len);
    kube_result_parse(&r, 429, evict, len, 0);
    ok(r.retry_after_s == 0, "the 429 of an eviction has none");
    /* The same words under another code and reason mean something else. */
    static const char words[] =
        "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"namespaces \\\"t1\\\" already "
        "exists\",\"reason\":\"Conflict\",\"code\":409}";
    kube_result_parse(&r, 409, words, strlen(words), 0);
    ok(r.outcome == KUBE_CONFLICT, "a message decides nothing");
    static const char twice[] = "{\"kind\":\"Status\",\"kind\":\"Pod\",\"code\":409}";
    kube_result_parse(&r, 409, twice, strlen(twice), 0);
    ok(r.outcome == KUBE_CONFLICT && !r.is_status, "no Status, no reason");
    kube_result_parse(&r, 503, "no\x01\xff", 4, 0);
    ok(r.outcome == KUBE_FAILED && strstr(r.message, "no??"), "what is told is printable");
    ok(kube_parse_retry_after(" 12\r\n", 5) == 12 && kube_parse_retry_after("x", 1) == 0 &&
           kube_parse_retry_after("99999999", 8) == KUBE_RETRY_MAX_S,
       "Retry-After");
}

/* --- pods: where each kind of failure stands */

static const struct {
    const char *name;
    enum kube_phase phase;
    const char *reason;
} pods[] = {
    {"22-pod-get-pending", KUBE_POD_PENDING, ""},
    {"22-pod-get-running", KUBE_POD_RUNNING, ""},
    {"40-pod-failed-exit5", KUBE_POD_ENDED, "Error"},
    {"42-pod-bad-command", KUBE_POD_ENDED, "StartError"},
    {"42-pod-deadline-exceeded", KUBE_POD_ENDED, "DeadlineExceeded"},
    {"42-pod-errimageneverpull", KUBE_POD_PENDING, "ErrImageNeverPull"},
    {"42-pod-imagepull-fail", KUBE_POD_PENDING, "ErrImagePull"},
    {"42-pod-oomkilled", KUBE_POD_ENDED, "OOMKilled"},
    {"42-pod-unschedulable", KUBE_POD_PENDING, "Unschedulable"},
    {"45-pod-get-terminating", KUBE_POD_ENDING, ""},
    {"74-sandbox-create-fails-pod", KUBE_POD_PENDING, ""},
};

static void check_pods(const struct exchanges *all)
{
    for (size_t i = 0; i < ELEMENTS(pods); i++) {
        struct error err = {0};
        struct kube_reply r = {0};
        size_t len;
        _cleanup_free_ char *body = exchange_decode(exchange_find(all, pods[i].name), &len);
        _cleanup_json_ json_t *pod = json_parse_any(body, len, &err);
        kube_pod_read(pod, &r);
        ok(r.phase == pods[i].phase && strcmp(r.reason, pods[i].reason) == 0 && r.uid[0],
           "%s: phase %u, %s: %s", pods[i].name, r.phase, r.reason, r.message);
    }
}

/* --- watches */

struct seen {
    size_t n;
    unsigned long sum; /* of types, versions and uids */
    enum kube_event_type last;
    struct kube_result error;
};

static void add_text(struct seen *s, const char *text)
{
    for (; *text; text++)
        s->sum = s->sum * 31 + (unsigned char)*text;
}

static int on_event(void *data, const struct kube_event *event)
{
    struct seen *s = data;
    s->n++;
    s->last = event->type;
    s->sum = s->sum * 31 + (unsigned)event->type;
    add_text(s, event->version);
    add_text(s, event->uid);
    add_text(s, event->name);
    if (event->type == KUBE_ERROR)
        s->error = event->result;
    return 0;
}

static int feed_watch(struct seen *ret, const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct kube_watch_stream stream;
    *ret = (struct seen){0};
    kube_watch_stream_init(&stream, on_event, ret);
    int r = kube_watch_stream_feed(&stream, a, a_len);
    r = r < 0 ? r : kube_watch_stream_feed(&stream, b, b_len);
    kube_watch_stream_done(&stream);
    return r;
}

/* Each line in two pieces at every byte; without its end it is no event. */
static bool cut_lines(const char *body, size_t len)
{
    for (size_t start = 0; start < len;) {
        const char *line = body + start, *end = memchr(line, '\n', len - start);
        size_t n = end ? (size_t)(end - line) + 1 : len - start;
        struct seen whole, pieces;
        if (feed_watch(&whole, line, n, "", 0) < 0 || whole.n != 1)
            return false;
        for (size_t cut = 0; cut < n; cut++) {
            if (feed_watch(&pieces, line, cut, line + cut, n - cut) < 0 ||
                pieces.sum != whole.sum || pieces.n != 1)
                return false;
            if (feed_watch(&pieces, line, cut, "", 0) < 0 || pieces.n != 0)
                return false;
        }
        start += n;
    }
    return true;
}

static void check_watches(void)
{
    struct exchanges all;
    exchanges_load(&all, dir, "watches.txt");
    for (size_t i = 0; i < all.n; i++) {
        const struct exchange *x = &all.all[i];
        struct seen whole, bytes = {0};
        size_t len;
        _cleanup_free_ char *body = exchange_decode(x, &len);
        int r = feed_watch(&whole, body, len, "", 0);
        struct kube_watch_stream stream;
        kube_watch_stream_init(&stream, on_event, &bytes);
        for (size_t at = 0; at < len; at++)
            kube_watch_stream_feed(&stream, body + at, 1);
        kube_watch_stream_done(&stream);
        ok(r == 0 && bytes.n == whole.n && bytes.sum == whole.sum,
           "%s: %zu events, the same byte by byte", x->name, whole.n);
        ok(cut_lines(body, len), "%s: every line cut at every byte", x->name);
        if (strstr(x->name, "410"))
            ok(whole.last == KUBE_ERROR && whole.error.outcome == KUBE_EXPIRED,
               "%s: 410 as an event", x->name);
        if (strcmp(x->name, "51-watch-bookmarks") == 0)
            ok(whole.last == KUBE_BOOKMARK, "bookmarks");
    }
    exchanges_done(&all);
}

static void check_bad_watches(void)
{
    static const char *const bad[] = {
        "{}\n",
        "[]\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"NEWS\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n",
        "{\"type\":1,\"object\":{}}\n",
        "ok\n",
    };
    struct seen s;
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        ok(feed_watch(&s, bad[i], strlen(bad[i]), "", 0) == -EBADMSG && s.n == 0, "no event: %s",
           bad[i]);
    char *line = xcalloc(1, KUBE_EVENT_MAX + 2);
    memset(line, ' ', KUBE_EVENT_MAX + 1);
    ok(feed_watch(&s, line, KUBE_EVENT_MAX + 1, "", 0) == -EFBIG, "a line that never ends");
    free(line);
}

/* --- channels */

struct heard {
    bool open;
    size_t bytes[3];
    unsigned long sums[3];
};

static void on_open(void *data)
{
    ((struct heard *)data)->open = true;
}

static void on_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct heard *h = data;
    const unsigned char *p = bytes;
    h->bytes[channel] += len;
    for (size_t i = 0; i < len; i++)
        h->sums[channel] = h->sums[channel] * 31 + p[i];
}

static const struct kube_channel_events events = {.on_open = on_open, .on_output = on_output};
static const struct kube_channel_request request = {.host = "h:1", .target = "/x", .token = "t"};

static struct kube_channel *channel_begin(struct heard *h, char key[25])
{
    size_t len;
    *h = (struct heard){0};
    struct kube_channel *c = kube_channel_new(&request, &events, h);
    const char *at = strstr(kube_channel_output(c, &len), "Sec-WebSocket-Key: ");
    snprintf(key, 25, "%.24s", at + strlen("Sec-WebSocket-Key: "));
    kube_channel_sent(c, len);
    return c;
}

struct outcome {
    struct heard heard;
    struct kube_exit exit;
    struct kube_result refusal;
    enum kube_channel_state state;
    int version;
    int r;
};

/* The exchange in two pieces, of which the second may be left out. */
static void run_exec(struct outcome *ret, const struct exchange *x, size_t cut, bool rest,
                     size_t *ret_len)
{
    char key[25];
    size_t len;
    struct kube_channel *c = channel_begin(&ret->heard, key);
    _cleanup_free_ char *bytes = x->head ? exchange_upgrade(x, key, &len) : NULL;
    if (!x->head)
        len = x->len;
    const char *at = bytes ? bytes : x->bytes;
    cut = cut > len ? len : cut;
    ret->r = kube_channel_feed(c, at, cut);
    if (rest && ret->r == 0)
        ret->r = kube_channel_feed(c, at + cut, len - cut);
    kube_channel_end(c);
    ret->exit = *kube_channel_exit(c);
    ret->refusal = *kube_channel_refusal(c);
    ret->state = kube_channel_state(c);
    ret->version = kube_channel_version(c);
    kube_channel_free(c);
    *ret_len = len;
}

static bool same_heard(const struct heard *a, const struct heard *b)
{
    return a->open == b->open && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0 &&
           memcmp(a->sums, b->sums, sizeof(a->sums)) == 0;
}

static bool cut_exec(const struct exchange *x, const struct outcome *whole, size_t len)
{
    size_t step = len > 20000 ? len / 200 : 1;
    bool known = whole->exit.kind != KUBE_EXIT_UNKNOWN;
    bool before = false;
    for (size_t cut = 0; cut < len; cut += cut < 400 ? 1 : step) {
        struct outcome two, half;
        size_t n;
        run_exec(&two, x, cut, true, &n);
        if (two.exit.kind != whole->exit.kind || two.exit.code != whole->exit.code ||
            two.refusal.outcome != whole->refusal.outcome || !same_heard(&two.heard, &whole->heard))
            return false;
        run_exec(&half, x, cut, false, &n);
        bool half_known = half.exit.kind != KUBE_EXIT_UNKNOWN;
        /* Once the status was there it stays, and before that nothing is known. */
        if ((half_known && (!known || half.exit.code != whole->exit.code)) ||
            (before && !half_known))
            return false;
        if (!half.heard.open && half.refusal.outcome == KUBE_DONE)
            return false;
        before = half_known;
    }
    return true;
}

static const struct {
    const char *name;
    enum kube_exit_kind kind;
    int code;
    int version;
    size_t out;
} exits[] = {
    {"30-exec-v4-stdout-stderr", KUBE_EXIT_CODE, 0, 4, 4},
    {"30-exec-v5-stdout-stderr", KUBE_EXIT_CODE, 0, 5, 4},
    {"31-exec-v4-exit3", KUBE_EXIT_CODE, 3, 4, 0},
    {"31-exec-v5-exit3", KUBE_EXIT_CODE, 3, 5, 0},
    {"32-exec-v5-nocmd", KUBE_EXIT_FAILED, 0, 5, 0},
    {"34-exec-v5-killed-signal", KUBE_EXIT_CODE, 137, 5, 0},
    {"37-exec-offer-both", KUBE_EXIT_CODE, 0, 5, 0},
    {"38-exec-v5-1MiB-out", KUBE_EXIT_CODE, 0, 5, 1048576},
    {"40-exec-into-terminated-pod", KUBE_EXIT_FAILED, 0, 5, 0},
    {"70-kubelet-down-exec-v5", KUBE_EXIT_UNKNOWN, 0, 5, 0},
    {"73-exec-apiserver-SIGTERM", KUBE_EXIT_UNKNOWN, 0, 5, 0},
};

static void check_execs(void)
{
    struct exchanges all;
    exchanges_load(&all, dir, "execs.txt");
    for (size_t i = 0; i < ELEMENTS(exits); i++) {
        struct outcome o;
        size_t len;
        run_exec(&o, exchange_find(&all, exits[i].name), 0, true, &len);
        ok(o.exit.kind == exits[i].kind && o.exit.code == exits[i].code &&
               o.version == exits[i].version && (!exits[i].out || o.heard.bytes[1] == exits[i].out),
           "%s: kind %d code %d v%d out %zu", exits[i].name, o.exit.kind, o.exit.code, o.version,
           o.heard.bytes[1]);
    }
    for (size_t i = 0; i < all.n; i++) {
        const struct exchange *x = &all.all[i];
        struct outcome whole;
        size_t len;
        run_exec(&whole, x, 0, true, &len);
        bool no_protocol = strcmp(x->name, "37-exec-no-subprotocol") == 0;
        ok(no_protocol ? whole.refusal.outcome == KUBE_STRANGE : whole.heard.open, "%s: %s",
           x->name, no_protocol ? "refused" : "open");
        ok(cut_exec(x, &whole, len), "%s: cut at every byte of %zu", x->name, len);
    }
    exchanges_done(&all);
}

/* Answers to an upgrade that are none. */
static void check_refused_execs(const struct exchanges *answers)
{
    for (size_t i = 0; i < answers->n; i++) {
        const struct exchange *x = &answers->all[i];
        struct outcome whole;
        size_t len;
        if (!strstr(x->name, "exec") || exchange_code(x) == 101)
            continue;
        run_exec(&whole, x, 0, true, &len);
        ok(whole.refusal.http == exchange_code(x) && whole.refusal.outcome != KUBE_DONE &&
               whole.exit.kind == KUBE_EXIT_UNKNOWN,
           "%s: %s", x->name, kube_outcome_name(whole.refusal.outcome));
        ok(cut_exec(x, &whole, len), "%s: cut at every byte of %zu", x->name, len);
    }
}

static int feed_open(const char *frames, size_t len, struct kube_exit *ret, struct heard *h)
{
    struct exchange x = {.head = (char *)(uintptr_t) "HTTP/1.1 101 Switching Protocols\r\n"
                                                     "Upgrade: websocket\r\n"
                                                     "Sec-WebSocket-Accept: "
                                                     "0000000000000000000000000000\r\n"
                                                     "Sec-WebSocket-Protocol: "
                                                     "v5.channel.k8s.io\r\n\r\n",
                         .bytes = (char *)(uintptr_t)frames,
                         .len = len};
    struct outcome o;
    size_t n;
    run_exec(&o, &x, 0, true, &n);
    *ret = o.exit;
    *h = o.heard;
    return o.r;
}

static void check_frames(void)
{
    struct kube_exit e;
    struct heard h;
    ok(feed_open("\x81\x02\x01x", 4, &e, &h) == -EPROTO, "a text frame is a violation");
    ok(feed_open("\x82\x02\x07x", 4, &e, &h) == -EPROTO, "data on a channel that is not the "
                                                         "server's");
    ok(feed_open("\x82\x01\x07", 3, &e, &h) == 0, "an empty message on it is none");
    ok(feed_open("\x82\x82\x01x", 4, &e, &h) == -EPROTO || h.bytes[1] == 0, "a masked frame");
    ok(feed_open("\xc2\x02\x01x", 4, &e, &h) == -EPROTO, "a reserved bit");
    ok(feed_open("\x02\x02\x01x\x89\x00\x80\x01y", 9, &e, &h) == 0 && h.bytes[1] == 2,
       "a message in two frames with a ping between them");
    ok(feed_open("\x82\x06\x03null!", 8, &e, &h) == 0 && e.kind == KUBE_EXIT_UNKNOWN,
       "a status that is none");
    ok(feed_open("\x88\x02\x03\xe8", 4, &e, &h) == 0 && e.kind == KUBE_EXIT_UNKNOWN,
       "an orderly close without a status is no success");
}

static void check_sending(void)
{
    struct heard h;
    char key[25], big[1024] = {0};
    size_t len, sent = 0;
    struct kube_channel *c = channel_begin(&h, key);
    ok(kube_channel_send(c, KUBE_STDIN, "x", 1) == -ENOTCONN, "nothing is sent before it is open");
    struct exchanges all;
    exchanges_load(&all, dir, "execs.txt");
    struct exchange x = *exchange_find(&all, "30-exec-v5-stdout-stderr");
    x.len = 0;
    char *bytes = exchange_upgrade(&x, key, &len);
    kube_channel_feed(c, bytes, len);
    free(bytes);
    ok(kube_channel_state(c) == KUBE_CHANNEL_OPEN, "open");
    ok(kube_channel_send(c, KUBE_STDIN, "x", 1) == 0, "a byte for a channel");
    const unsigned char *out = kube_channel_output(c, &len);
    ok(len == 8 && out[0] == 0x82 && out[1] == 0x82 && (out[6] ^ out[2]) == KUBE_STDIN &&
           (out[7] ^ out[3]) == 'x',
       "its number and the byte, masked");
    while (kube_channel_send(c, KUBE_STDIN, big, sizeof(big)) == 0)
        sent++;
    kube_channel_output(c, &len);
    ok(len <= KUBE_CHANNEL_OUTPUT_MAX && sent > 900, "what waits is bounded: %zu", len);
    kube_channel_sent(c, len);
    ok(kube_channel_send(c, KUBE_STDIN, big, sizeof(big)) == 0, "and goes on");
    kube_channel_free(c);
    exchanges_done(&all);
}

int main(int argc, char **argv)
{
    struct exchanges answers;
    dir = argc > 1 ? argv[1] : "tests/data/kube";
    exchanges_load(&answers, dir, "answers.txt");
    check_meanings(&answers);
    check_details(&answers);
    check_pods(&answers);
    check_watches();
    check_bad_watches();
    check_execs();
    check_refused_execs(&answers);
    check_frames();
    check_sending();
    exchanges_done(&answers);
    return tap_done();
}
