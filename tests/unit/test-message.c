/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: what is formatted is parsed back; every truncation and trailing byte is refused. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "proto/message.h"
#include "tests/unit/tap.h"

/* Formats m, takes the frame apart, parses its payload back into got, and tries all truncations. */
#define ROUND_TRIP(name, TYPE, m, got)                                                             \
    ({                                                                                             \
        _cleanup_strbuf_ struct strbuf _b = STRBUF_INIT(1 << 20);                                  \
        struct frame _f = {0};                                                                     \
        struct msg_##name _scrap;                                                                  \
        bool _good = msg_##name##_format(&_b, 7, (m)) == 0 &&                                      \
                     frame_parse((uint8_t *)_b.data, _b.len, &_f) == (int)_b.len &&                \
                     _f.type == MSG_##TYPE && _f.stream == 7;                                      \
        for (size_t _n = 0; _good && _n + sizeof_tail < _f.length; _n++)                           \
            _good = msg_##name##_parse(_f.payload, _n, &_scrap) == -EPROTO;                        \
        _good = _good && msg_##name##_parse(_f.payload, _f.length, (got)) == 0;                    \
        _good;                                                                                     \
    })

static void test_fixed(void)
{
    const size_t sizeof_tail = 0;
    struct msg_hello h = {1, 0x1122334455667788, 0}, h2;
    ok(ROUND_TRIP(hello, HELLO, &h, &h2) && h2.version == 1 && h2.generation == h.generation &&
           h2.attempt == 0,
       "hello");
    struct msg_signal s = {9, SIGTERM, 1500}, s2;
    ok(ROUND_TRIP(signal, SIGNAL, &s, &s2) && s2.request_id == 9 && s2.signo == SIGTERM &&
           s2.kill_grace_ms == 1500,
       "signal");
    struct msg_resize z = {24, 80}, z2;
    ok(ROUND_TRIP(resize, RESIZE, &z, &z2) && z2.rows == 24 && z2.cols == 80, "resize");
    struct msg_ack a = {2, 1ull << 40}, a2;
    ok(ROUND_TRIP(ack, ACK, &a, &a2) && a2.which == 2 && a2.offset == 1ull << 40, "ack");
    struct msg_exit e = {-1, EXIT_TIMED_OUT, 1, 2, 3, 4, {5, 6}}, e2;
    ok(ROUND_TRIP(exit, EXIT, &e, &e2) && e2.wait_status == -1 && e2.flags == 1 &&
           e2.user_us == 1 && e2.system_us == 2 && e2.max_rss_kb == 3 && e2.wall_us == 4 &&
           e2.end[0] == 5 && e2.end[1] == 6,
       "exit");
    struct msg_state t = {1, 2, 1, 0, 3, {4, 5}, {6, 7}}, t2;
    ok(ROUND_TRIP(state, STATE, &t, &t2) && t2.request_id == 1 && t2.pid == 2 && t2.started == 1 &&
           t2.exited == 0 && t2.stdin_received == 3 && t2.acked[1] == 5 && t2.end[0] == 6,
       "state");
    struct msg_connect c = {8080}, c2;
    ok(ROUND_TRIP(connect, CONNECT, &c, &c2) && c2.port == 8080, "connect");
    struct msg_connected d = {ECONNREFUSED}, d2;
    ok(ROUND_TRIP(connected, CONNECTED, &d, &d2) && d2.error == ECONNREFUSED, "connected");
    struct msg_data_end n = {1ull << 33}, n2;
    ok(ROUND_TRIP(data_end, DATA_END, &n, &n2) && n2.offset == 1ull << 33, "data_end");
    struct msg_close l = {.reset = false}, l2;
    ok(ROUND_TRIP(close, CLOSE, &l, &l2) && !l2.reset, "close");
    ok(msg_close_parse((const uint8_t *)"\1", 1, &l2) == 0 && l2.reset, "close by a reset");
    ok(msg_close_parse((const uint8_t *)"\2", 1, &l2) == -EPROTO &&
           msg_close_parse((const uint8_t *)"\1\0", 2, &l2) == -EPROTO,
       "and nothing else");
    struct msg_spawn_failed f = {3, ENOENT, "exec"}, f2;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    struct frame frame;
    ok(msg_spawn_failed_format(&b, 1, &f) == 0 &&
           frame_parse((uint8_t *)b.data, b.len, &frame) == (int)b.len &&
           msg_spawn_failed_parse(frame.payload, frame.length, &f2) == 0 && f2.request_id == 3 &&
           f2.error == ENOENT && !strcmp(f2.stage, "exec"),
       "spawn_failed");
}

static void test_bytes(void)
{
    const size_t sizeof_tail = 3;
    struct msg_output o = {1, 10, (const uint8_t *)"abc", 3}, o2;
    ok(ROUND_TRIP(output, OUTPUT, &o, &o2) && o2.which == 1 && o2.offset == 10 && o2.len == 3,
       "output");
    static uint8_t big[FRAME_PAYLOAD_MAX];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    struct msg_stdin in = {0, big, sizeof(big)};
    ok(msg_stdin_format(&b, 1, &in) == -EMSGSIZE && b.len == 0, "data over a frame is refused");
    uint8_t raw[16] = {0};
    struct msg_stdin got;
    memset(raw, 0xff, 8);
    ok(msg_stdin_parse(raw, 8, &got) == 0 && got.offset == UINT64_MAX, "the last offset");
    ok(msg_stdin_parse(raw, 9, &got) == -EPROTO, "an offset that would wrap is refused");
}

static void test_refused(void)
{
    struct msg_ack a;
    uint8_t raw[10] = {3};
    ok(msg_ack_parse(raw, 9, &a) == -EPROTO, "output stream 3");
    raw[0] = 0;
    ok(msg_ack_parse(raw, 9, &a) == -EPROTO, "output stream 0");
    raw[0] = 1;
    ok(msg_ack_parse(raw, 9, &a) == 0, "output stream 1");
    ok(msg_ack_parse(raw, 10, &a) == -EPROTO, "trailing byte");
    struct msg_stdin_ack s;
    uint8_t flag[9] = {[8] = 2};
    ok(msg_stdin_ack_parse(flag, 9, &s) == -EPROTO, "flag that is not 0 or 1");
    struct msg_spawn_failed f;
    uint8_t text[16] = {[12] = 'x', [13] = 'y', [14] = 'z', [15] = 'z'};
    ok(msg_spawn_failed_parse(text, 16, &f) == -EPROTO, "unterminated string");
    text[14] = 0;
    ok(msg_spawn_failed_parse(text, 16, &f) == -EPROTO, "bytes after the string");
    ok(msg_spawn_failed_parse(text, 15, &f) == 0 && !strcmp(f.stage, "xy"), "string");
}

/* A runner from before connections were counted knows no number. */
static void test_attempts(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    struct msg_hello m = {PROTO_VERSION, 7, 0}, got;
    struct frame f;
    ok(msg_hello_format(&b, 0, &m) == 0 &&
           frame_parse((uint8_t *)b.data, b.len, &f) == (int)b.len && f.length == 12,
       "the first hello of a generation is as it always was");
    strbuf_reset(&b);
    m.attempt = 3;
    ok(msg_hello_format(&b, 0, &m) == 0 &&
           frame_parse((uint8_t *)b.data, b.len, &f) == (int)b.len && f.length == MSG_HELLO_MAX &&
           msg_hello_parse(f.payload, f.length, &got) == 0 && got.attempt == 3 &&
           got.generation == 7,
       "a later one has its number");
    uint8_t zero[MSG_HELLO_MAX] = {0};
    ok(msg_hello_parse(zero, MSG_HELLO_MAX, &got) == -EPROTO, "which is not 0");
    ok(msg_hello_parse(zero, MSG_HELLO_MAX - 2, &got) == -EPROTO, "half of it is refused");
}

/* A runner from before there were features says none. */
static void test_features(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    struct msg_hello_ok m = {PROTO_VERSION, 7, 2, 0}, got;
    struct frame f;
    ok(msg_hello_ok_format(&b, 0, &m) == 0 &&
           frame_parse((uint8_t *)b.data, b.len, &f) == (int)b.len && f.length == 16 &&
           msg_hello_ok_parse(f.payload, f.length, &got) == 0 && got.features == 0,
       "hello_ok without features is as it always was");
    strbuf_reset(&b);
    m.features = RUNNER_CONNECTS;
    ok(msg_hello_ok_format(&b, 0, &m) == 0 &&
           frame_parse((uint8_t *)b.data, b.len, &f) == (int)b.len &&
           msg_hello_ok_parse(f.payload, f.length, &got) == 0 && got.features == RUNNER_CONNECTS &&
           got.n_execs == 2,
       "and with them");
    uint8_t zero[20] = {0};
    ok(msg_hello_ok_parse(zero, 20, &got) == -EPROTO, "features that are none are not sent");
    ok(msg_hello_ok_parse(zero, 18, &got) == -EPROTO, "half of them is refused");
}

static struct msg_spawn spawn_example(void)
{
    static const char *argv[] = {"echo", "", "a b", NULL}, *env[] = {"PATH=/bin", "X=", NULL};
    static struct spawn_path paths[] = {{true, "/workspace"}, {false, "/data"}};
    return (struct msg_spawn){.request_id = 77,
                              .flags = SPAWN_STDIN | SPAWN_NARROW,
                              .rows = 3,
                              .cols = 4,
                              .timeout_ms = 5,
                              .kill_grace_ms = 6,
                              .drain_grace_ms = 7,
                              .limit_as_bytes = 8,
                              .limit_cpu_s = 9,
                              .argv = (char **)argv,
                              .env = (char **)env,
                              .cwd = "/tmp",
                              .paths = paths,
                              .n_paths = 2};
}

static void test_spawn(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    struct msg_spawn m = spawn_example(), got;
    ok(msg_spawn_format(&b, 1, &m) == 0, "spawn formatted");
    const uint8_t *p = (uint8_t *)b.data + FRAME_HEADER_SIZE;
    size_t len = b.len - FRAME_HEADER_SIZE;
    bool refused = true;
    for (size_t n = 0; n < len; n++)
        refused &= msg_spawn_parse(p, n, &got) == -EPROTO;
    ok(refused, "every truncation is refused");
    ok(msg_spawn_parse(p, len, &got) == 0, "spawn parsed");
    ok(got.request_id == 77 && got.flags == m.flags && got.rows == 3 && got.cols == 4 &&
           got.timeout_ms == 5 && got.kill_grace_ms == 6 && got.drain_grace_ms == 7 &&
           got.limit_as_bytes == 8 && got.limit_cpu_s == 9 && !strcmp(got.cwd, "/tmp"),
       "scalars");
    ok(strv_length(got.argv) == 3 && !strcmp(got.argv[2], "a b") && !*got.argv[1], "argv");
    ok(strv_length(got.env) == 2 && !strcmp(got.env[1], "X="), "env");
    ok(got.n_paths == 2 && got.paths[0].writable && !got.paths[1].writable &&
           !strcmp(got.paths[1].path, "/data"),
       "paths");
    msg_spawn_done(&got);
    _cleanup_free_ uint8_t *bad = xcalloc(1, len + 1);
    memcpy(bad, p, len);
    ok(msg_spawn_parse(bad, len + 1, &got) == -EPROTO, "trailing byte");
    bad[9] = 0x80;
    ok(msg_spawn_parse(bad, len, &got) == -EPROTO, "unknown flag");
    bad[9] = 0;
    memset(bad + 44, 0xff, 4);
    ok(msg_spawn_parse(bad, len, &got) == -EPROTO, "count beyond the bytes");
}

static void test_spawn_limits(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(8 << 20);
    struct msg_spawn m = spawn_example();
    char *none[] = {NULL};
    m.argv = none;
    ok(msg_spawn_format(&b, 1, &m) == -E2BIG && b.len == 0, "no argv");
    _cleanup_free_ char *huge = xcalloc(1, PROTO_SPAWN_MAX + 1);
    memset(huge, 'x', PROTO_SPAWN_MAX);
    const char *argv[] = {"echo", huge, NULL};
    m.argv = (char **)argv;
    ok(msg_spawn_format(&b, 1, &m) == -E2BIG && b.len == 0, "over PROTO_SPAWN_MAX");
    huge[200000] = 0;
    ok(msg_spawn_format(&b, 1, &m) == 0 && b.len > 200000, "a long argument spans frames");
}

int main(void)
{
    test_fixed();
    test_bytes();
    test_refused();
    test_attempts();
    test_features();
    test_spawn();
    test_spawn_limits();
    return tap_done();
}
