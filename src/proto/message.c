/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of the runner protocol.
 *
 * A message is its fields in the order of the FIELDS lists below, packed; data, where there is
 * some, is the rest of the payload. One list makes both directions, so they cannot disagree. SPAWN
 * and SPAWN_FAILED carry strings and are written out. */
#include "proto/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "proto/wire.h"

#define FIXED_MAX 128 /* bytes of the largest fixed part; checked by put_bytes() */

struct writer {
    uint8_t data[FIXED_MAX];
    size_t len;
};

struct reader {
    const uint8_t *p, *end;
    bool bad;
};

static uint8_t *put_bytes(struct writer *w, size_t n)
{
    if (n > sizeof(w->data) - w->len)
        abort();
    w->len += n;
    return w->data + w->len - n;
}

static const uint8_t *get_bytes(struct reader *r, size_t n)
{
    static const uint8_t zero[8];
    if (r->bad || (size_t)(r->end - r->p) < n) {
        r->bad = true;
        return zero;
    }
    r->p += n;
    return r->p - n;
}

static void put_u8(struct writer *w, uint8_t v)
{
    *put_bytes(w, 1) = v;
}
static uint8_t get_u8(struct reader *r)
{
    return *get_bytes(r, 1);
}
static void put_u16(struct writer *w, uint16_t v)
{
    wire_store_u16(put_bytes(w, 2), v);
}
static uint16_t get_u16(struct reader *r)
{
    return wire_load_u16(get_bytes(r, 2));
}
static void put_u32(struct writer *w, uint32_t v)
{
    wire_store_u32(put_bytes(w, 4), v);
}
static uint32_t get_u32(struct reader *r)
{
    return wire_load_u32(get_bytes(r, 4));
}
static void put_u64(struct writer *w, uint64_t v)
{
    wire_store_u64(put_bytes(w, 8), v);
}
static uint64_t get_u64(struct reader *r)
{
    return wire_load_u64(get_bytes(r, 8));
}
static void put_i32(struct writer *w, int32_t v)
{
    put_u32(w, (uint32_t)v);
}
static int32_t get_i32(struct reader *r)
{
    return (int32_t)get_u32(r);
}

/* 0 or 1. */
static void put_flag(struct writer *w, uint8_t v)
{
    put_u8(w, v != 0);
}
static uint8_t get_flag(struct reader *r)
{
    uint8_t v = get_u8(r);
    r->bad |= v > 1;
    return v;
}

/* enum output_stream */
static void put_which(struct writer *w, uint8_t v)
{
    put_u8(w, v);
}
static uint8_t get_which(struct reader *r)
{
    uint8_t v = get_u8(r);
    r->bad |= !output_is_stream(v);
    return v;
}

static const char *get_string(struct reader *r)
{
    const uint8_t *nul = r->bad ? NULL : memchr(r->p, 0, (size_t)(r->end - r->p));
    if (!nul) {
        r->bad = true;
        return "";
    }
    const char *s = (const char *)r->p;
    r->p = nul + 1;
    return s;
}

static int get_end(const struct reader *r)
{
    return r->bad || r->p != r->end ? -EPROTO : 0;
}

static int emit_frame(struct strbuf *out, uint8_t type, uint32_t stream, const struct writer *w,
                      const void *data, size_t len)
{
    size_t total = w->len + len;
    if (total > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    int r = strbuf_reserve(out, FRAME_HEADER_SIZE + total);
    if (r < 0)
        return r;
    uint8_t header[FRAME_HEADER_SIZE] = {[8] = type};
    wire_store_u32(header, (uint32_t)total);
    wire_store_u32(header + 4, stream);
    strbuf_append(out, header, sizeof(header));
    strbuf_append(out, w->data, w->len);
    return strbuf_append(out, data, len);
}

#define HELLO_FIELDS(F)       F(u32, version) F(u64, generation)
#define STDIN_FIELDS(F)       F(u64, offset)
#define STDIN_CLOSE_FIELDS(F) F(u64, offset)
#define SIGNAL_FIELDS(F)      F(u64, request_id) F(i32, signo) F(u32, kill_grace_ms)
#define RESIZE_FIELDS(F)      F(u16, rows) F(u16, cols)
#define ACK_FIELDS(F)         F(which, which) F(u64, offset)
#define OPEN_RESULT_FIELDS(F) F(i32, error)
#define DATA_FIELDS(F)        F(u64, offset)
#define DATA_ACK_FIELDS(F)    F(u64, offset)
#define DATA_END_FIELDS(F)    F(u64, offset)
#define CONNECT_FIELDS(F)     F(u16, port)
#define CONNECTED_FIELDS(F)   F(i32, error)
#define HELLO_OK_FIELDS(F)    F(u32, version) F(u64, generation) F(u32, n_execs)
#define STATE_FIELDS(F)                                                                            \
    F(u64, request_id)                                                                             \
    F(u32, pid)                                                                                    \
    F(flag, started)                                                                               \
    F(flag, exited)                                                                                \
    F(u64, stdin_received) F(u64, acked[0]) F(u64, acked[1]) F(u64, end[0]) F(u64, end[1])
#define STARTED_FIELDS(F) F(u64, request_id) F(u32, pid)
#define OUTPUT_FIELDS(F)  F(which, which) F(u64, offset)
#define EXIT_FIELDS(F)                                                                             \
    F(i32, wait_status)                                                                            \
    F(u32, flags)                                                                                  \
    F(u64, user_us)                                                                                \
    F(u64, system_us) F(u64, max_rss_kb) F(u64, wall_us) F(u64, end[0]) F(u64, end[1])
#define STDIN_ACK_FIELDS(F) F(u64, offset) F(flag, closed)
#define OPEN_FIELDS(F)      F(u8, kind)

#define PUT(kind, field) put_##kind(&w, m->field);
#define GET(kind, field) m.field = get_##kind(&r);

#define DEFINE_FIXED(name, TYPE)                                                                   \
    int msg_##name##_format(struct strbuf *out, uint32_t stream, const struct msg_##name *m)       \
    {                                                                                              \
        struct writer w = {.len = 0};                                                              \
        TYPE##_FIELDS(PUT) return emit_frame(out, MSG_##TYPE, stream, &w, NULL, 0);                \
    }                                                                                              \
    int msg_##name##_parse(const uint8_t *payload, size_t len, struct msg_##name *ret)             \
    {                                                                                              \
        struct reader r = {payload, payload + len, false};                                         \
        struct msg_##name m;                                                                       \
        TYPE##_FIELDS(GET) if (get_end(&r) < 0) return -EPROTO;                                    \
        *ret = m;                                                                                  \
        return 0;                                                                                  \
    }

/* The same with data after the fields; offset + len must not wrap. */
#define DEFINE_BYTES(name, TYPE)                                                                   \
    int msg_##name##_format(struct strbuf *out, uint32_t stream, const struct msg_##name *m)       \
    {                                                                                              \
        struct writer w = {.len = 0};                                                              \
        TYPE##_FIELDS(PUT) return emit_frame(out, MSG_##TYPE, stream, &w, m->data, m->len);        \
    }                                                                                              \
    int msg_##name##_parse(const uint8_t *payload, size_t len, struct msg_##name *ret)             \
    {                                                                                              \
        struct reader r = {payload, payload + len, false};                                         \
        struct msg_##name m;                                                                       \
        TYPE##_FIELDS(GET) m.data = r.p;                                                           \
        m.len = (size_t)(r.end - r.p);                                                             \
        if (r.bad || m.offset > UINT64_MAX - m.len)                                                \
            return -EPROTO;                                                                        \
        *ret = m;                                                                                  \
        return 0;                                                                                  \
    }

DEFINE_BYTES(stdin, STDIN)
DEFINE_FIXED(stdin_close, STDIN_CLOSE)
DEFINE_FIXED(signal, SIGNAL)
DEFINE_FIXED(resize, RESIZE)
DEFINE_FIXED(ack, ACK)
DEFINE_FIXED(open_result, OPEN_RESULT)
DEFINE_BYTES(data, DATA)
DEFINE_FIXED(data_ack, DATA_ACK)
DEFINE_FIXED(data_end, DATA_END)
DEFINE_FIXED(connect, CONNECT)
DEFINE_FIXED(connected, CONNECTED)
DEFINE_FIXED(started, STARTED)
DEFINE_BYTES(output, OUTPUT)

void msg_output_head(uint8_t out[MSG_OUTPUT_HEAD], uint32_t stream, const struct msg_output *m)
{
    frame_header(out, MSG_OUTPUT, stream, MSG_OUTPUT_HEAD - FRAME_HEADER_SIZE + m->len);
    out[FRAME_HEADER_SIZE] = m->which;
    wire_store_u64(out + FRAME_HEADER_SIZE + 1, m->offset);
}
DEFINE_FIXED(exit, EXIT)
DEFINE_FIXED(stdin_ack, STDIN_ACK)

/* The exec is left out where there is none, as a runner from before own proxies does. */
int msg_open_format(struct strbuf *out, uint32_t stream, const struct msg_open *m)
{
    struct writer w = {.len = 0};
    OPEN_FIELDS(PUT)
    if (m->exec)
        put_u32(&w, m->exec);
    return emit_frame(out, MSG_OPEN, stream, &w, NULL, 0);
}

int msg_open_parse(const uint8_t *payload, size_t len, struct msg_open *ret)
{
    struct reader r = {payload, payload + len, false};
    struct msg_open m = {.exec = 0};
    OPEN_FIELDS(GET)
    if (r.p != r.end) {
        m.exec = get_u32(&r);
        r.bad |= !m.exec;
    }
    if (get_end(&r) < 0)
        return -EPROTO;
    *ret = m;
    return 0;
}

/* Features are left out where there are none, as a runner from before them does. */
int msg_hello_format(struct strbuf *out, uint32_t stream, const struct msg_hello *m)
{
    struct writer w = {.len = 0};
    HELLO_FIELDS(PUT)
    if (m->attempt)
        put_u32(&w, m->attempt);
    return emit_frame(out, MSG_HELLO, stream, &w, NULL, 0);
}

int msg_hello_parse(const uint8_t *payload, size_t len, struct msg_hello *ret)
{
    struct reader r = {payload, payload + len, false};
    struct msg_hello m = {.attempt = 0};
    HELLO_FIELDS(GET)
    if (r.p != r.end) {
        m.attempt = get_u32(&r);
        r.bad |= !m.attempt;
    }
    if (get_end(&r) < 0)
        return -EPROTO;
    *ret = m;
    return 0;
}

int msg_close_format(struct strbuf *out, uint32_t stream, const struct msg_close *m)
{
    struct writer w = {.len = 0};
    if (m->reset)
        put_flag(&w, true);
    return emit_frame(out, MSG_CLOSE, stream, &w, NULL, 0);
}

int msg_close_parse(const uint8_t *payload, size_t len, struct msg_close *ret)
{
    struct reader r = {.p = payload, .end = payload + len};
    bool reset = len && get_flag(&r);
    if (get_end(&r) < 0)
        return -EPROTO;
    *ret = (struct msg_close){.reset = reset};
    return 0;
}

int msg_hello_ok_format(struct strbuf *out, uint32_t stream, const struct msg_hello_ok *m)
{
    struct writer w = {.len = 0};
    HELLO_OK_FIELDS(PUT)
    if (m->features)
        put_u32(&w, m->features);
    return emit_frame(out, MSG_HELLO_OK, stream, &w, NULL, 0);
}

int msg_hello_ok_parse(const uint8_t *payload, size_t len, struct msg_hello_ok *ret)
{
    struct reader r = {payload, payload + len, false};
    struct msg_hello_ok m = {.features = 0};
    HELLO_OK_FIELDS(GET)
    if (r.p != r.end) {
        m.features = get_u32(&r);
        r.bad |= !m.features;
    }
    if (get_end(&r) < 0)
        return -EPROTO;
    *ret = m;
    return 0;
}

int msg_spawn_failed_format(struct strbuf *out, uint32_t stream, const struct msg_spawn_failed *m)
{
    struct writer w = {.len = 0};
    put_u64(&w, m->request_id);
    put_i32(&w, m->error);
    return emit_frame(out, MSG_SPAWN_FAILED, stream, &w, m->stage, strlen(m->stage) + 1);
}

int msg_spawn_failed_parse(const uint8_t *payload, size_t len, struct msg_spawn_failed *ret)
{
    struct reader r = {payload, payload + len, false};
    struct msg_spawn_failed m;
    m.request_id = get_u64(&r);
    m.error = get_i32(&r);
    m.stage = get_string(&r);
    if (get_end(&r) < 0)
        return -EPROTO;
    *ret = m;
    return 0;
}

int msg_state_format(struct strbuf *out, uint32_t stream, const struct msg_state *m)
{
    const char *tag = m->tag ? m->tag : "";
    struct writer w = {.len = 0};
    STATE_FIELDS(PUT)
    return emit_frame(out, MSG_STATE, stream, &w, tag, strlen(tag) + 1);
}

int msg_state_parse(const uint8_t *payload, size_t len, struct msg_state *ret)
{
    struct reader r = {payload, payload + len, false};
    struct msg_state m;
    STATE_FIELDS(GET)
    m.tag = get_string(&r);
    if (get_end(&r) < 0 || strlen(m.tag) >= PROTO_TAG_MAX)
        return -EPROTO;
    *ret = m;
    return 0;
}

#define SPAWN_FIELDS(F)                                                                            \
    F(u64, request_id)                                                                             \
    F(u32, flags)                                                                                  \
    F(u16, rows)                                                                                   \
    F(u16, cols)                                                                                   \
    F(u64, timeout_ms)                                                                             \
    F(u32, kill_grace_ms) F(u32, drain_grace_ms) F(u64, limit_as_bytes) F(u32, limit_cpu_s)

static int put_string(struct strbuf *out, const char *s)
{
    return strbuf_append(out, s, strlen(s) + 1);
}

static int spawn_put_strings(struct strbuf *out, const struct msg_spawn *m)
{
    int r = put_string(out, m->cwd ? m->cwd : "");
    if (r < 0)
        return r;
    r = put_string(out, m->tag ? m->tag : "");
    for (size_t i = 0; r >= 0 && m->argv[i]; i++)
        r = put_string(out, m->argv[i]);
    for (size_t i = 0; r >= 0 && m->env && m->env[i]; i++)
        r = put_string(out, m->env[i]);
    if (r < 0)
        return r;
    for (size_t i = 0; i < m->n_paths; i++) {
        r = strbuf_append(out, m->paths[i].writable ? "\1" : "\0", 1);
        if (r < 0)
            return r;
        r = put_string(out, m->paths[i].path);
        if (r < 0)
            return r;
    }
    r = m->flags & SPAWN_PINNED ? put_string(out, m->pins) : 0;
    return r >= 0 && m->flags & SPAWN_EVENTS ? put_string(out, m->events) : r;
}

int msg_spawn_format(struct strbuf *out, uint32_t stream, const struct msg_spawn *m)
{
    _cleanup_strbuf_ struct strbuf payload = STRBUF_INIT(PROTO_SPAWN_MAX);
    size_t argc = strv_length(m->argv), envc = strv_length(m->env);
    if (argc == 0 || argc + envc > SPAWN_STRINGS_MAX || m->n_paths > SPAWN_PATHS_MAX)
        return -E2BIG;
    struct writer w = {.len = 0};
    SPAWN_FIELDS(PUT)
    put_u32(&w, (uint32_t)argc);
    put_u32(&w, (uint32_t)envc);
    put_u32(&w, (uint32_t)m->n_paths);
    int r = strbuf_append(&payload, w.data, w.len);
    if (r < 0)
        return r == -EFBIG ? -E2BIG : r;
    r = spawn_put_strings(&payload, m);
    if (r < 0)
        return r == -EFBIG ? -E2BIG : r;
    return frame_append(out, MSG_SPAWN, stream, payload.data, payload.len);
}

/* A string takes at least its NUL, so a count can never ask for more memory than bytes came in. */
static char **get_strv(struct reader *r, size_t n)
{
    char **v = xcalloc(n + 1, sizeof(*v));
    for (size_t i = 0; i < n; i++)
        v[i] = (char *)get_string(r);
    return v;
}

static void spawn_get_strings(struct reader *r, struct msg_spawn *m)
{
    size_t argc = get_u32(r), envc = get_u32(r), n_paths = get_u32(r);
    r->bad |= argc == 0 || argc > SPAWN_STRINGS_MAX || envc > SPAWN_STRINGS_MAX - argc ||
              n_paths > SPAWN_PATHS_MAX || argc + envc + n_paths > (size_t)(r->end - r->p);
    if (r->bad)
        return;
    m->cwd = get_string(r);
    m->tag = get_string(r);
    r->bad |= strlen(m->tag) >= PROTO_TAG_MAX;
    m->argv = get_strv(r, argc);
    m->env = get_strv(r, envc);
    m->paths = xcalloc(n_paths, sizeof(*m->paths));
    m->n_paths = n_paths;
    for (size_t i = 0; i < n_paths; i++) {
        m->paths[i].writable = get_flag(r);
        m->paths[i].path = get_string(r);
    }
    m->pins = m->flags & SPAWN_PINNED ? get_string(r) : "";
    m->events = m->flags & SPAWN_EVENTS ? get_string(r) : "";
}

int msg_spawn_parse(const uint8_t *payload, size_t len, struct msg_spawn *ret)
{
    struct reader r = {payload, payload + len, len > PROTO_SPAWN_MAX};
    struct msg_spawn m = {.n_paths = 0};
    SPAWN_FIELDS(GET)
    r.bad |= (m.flags & ~(uint32_t)_SPAWN_FLAGS_ALL) != 0;
    spawn_get_strings(&r, &m);
    if (get_end(&r) < 0) {
        msg_spawn_done(&m);
        return -EPROTO;
    }
    *ret = m;
    return 0;
}

void msg_spawn_done(struct msg_spawn *m)
{
    free(m->argv);
    free(m->env);
    free(m->paths);
    m->argv = m->env = NULL;
    m->paths = NULL;
    m->n_paths = 0;
}
