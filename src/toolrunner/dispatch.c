/* SPDX-License-Identifier: Apache-2.0 */
/* What each frame of the control plane does. A frame for a stream that is gone is ignored: the peer
 * may have sent it before it knew. */
#include <errno.h>
#include <signal.h>

#include "base/alloc.h"
#include "base/landlock.h"
#include "toolrunner/conn.h"
#include "toolrunner/exec.h"
#include "toolrunner/runner.h"

static uint32_t features_of(const struct runner *r)
{
    bool own_proxy = r->gateway.proxy && r->identity.landlock_abi >= LANDLOCK_ABI_NET;
    return RUNNER_CONNECTS | RUNNER_PINS_NAMED | RUNNER_RESETS | (own_proxy ? RUNNER_OWN_PROXY : 0);
}

/* An older control plane, or an earlier connection of the same one, may still have a socket to us.
 * Once a newer one has spoken, the older must not start commands or acknowledge output any more. */
bool runner_accepts(const struct runner *r, const struct msg_hello *m)
{
    bool newer = m->generation > r->generation;
    bool same = m->generation == r->generation && m->attempt >= r->attempt;
    return m->version == PROTO_VERSION && (newer || same);
}

static int on_hello(struct runner *r, const struct frame *f)
{
    struct msg_hello m;
    if (msg_hello_parse(f->payload, f->length, &m) < 0 || r->conn.hello_seen)
        return -EPROTO;
    if (!runner_accepts(r, &m))
        return -EPROTO;
    r->generation = m.generation;
    r->attempt = m.attempt;
    r->conn.hello_seen = true;
    runner_set_orphan(r, false);
    uint32_t known = exec_count_known(r);
    conn_send(&r->conn, hello_ok, 0, .version = PROTO_VERSION, .generation = m.generation,
              .n_execs = known, .features = features_of(r));
    r->conn.greeting = !known;
    exec_resume(r);
    gateway_on_connect(&r->gateway);
    return 0;
}

static int spawn_whole(struct runner *r, uint32_t stream, const uint8_t *payload, size_t len)
{
    struct msg_spawn m;
    if (msg_spawn_parse(payload, len, &m) < 0)
        return -EPROTO;
    int n = exec_spawn(r, stream, &m);
    msg_spawn_done(&m);
    return n;
}

/* Several frames make one SPAWN; nothing may come between them. */
static int on_spawn(struct runner *r, const struct frame *f)
{
    struct strbuf *parts = &r->conn.spawn;
    /* Nearly every SPAWN is one frame, and is parsed where it lies, without a copy. */
    if (parts->len == 0 && !(f->flags & FRAME_MORE))
        return spawn_whole(r, f->stream, f->payload, f->length);
    if (f->length == 0 || (parts->len && f->stream != r->conn.spawn_stream))
        return -EPROTO;
    r->conn.spawn_stream = f->stream;
    if (strbuf_append(parts, f->payload, f->length) < 0)
        return -EPROTO;
    if (f->flags & FRAME_MORE)
        return 0;
    int n = spawn_whole(r, f->stream, (const uint8_t *)parts->data, parts->len);
    strbuf_done(parts);
    return n;
}

/* The handlers of messages about one exec: parse, find, act. */
#define EXEC_HANDLER(name)                                                                         \
    static int on_##name(struct runner *r, const struct frame *f)                                  \
    {                                                                                              \
        struct msg_##name m;                                                                       \
        if (msg_##name##_parse(f->payload, f->length, &m) < 0)                                     \
            return -EPROTO;                                                                        \
        struct exec *e = exec_find(r, f->stream);                                                  \
        return e ? exec_##name(e, &m) : 0;                                                         \
    }
EXEC_HANDLER(stdin)
EXEC_HANDLER(stdin_close)
EXEC_HANDLER(signal)
EXEC_HANDLER(resize)
EXEC_HANDLER(ack)

static int on_forget(struct runner *r, const struct frame *f)
{
    struct exec *e = exec_find(r, f->stream);
    if (f->length)
        return -EPROTO;
    if (e)
        exec_forget(e);
    return 0;
}

/* Streams of connections: those from the inside have even numbers, those to it odd ones. */
#define STREAM_HANDLER(name, to_inside, from_inside)                                               \
    static int on_##name(struct runner *r, const struct frame *f)                                  \
    {                                                                                              \
        struct msg_##name m;                                                                       \
        if (msg_##name##_parse(f->payload, f->length, &m) < 0)                                     \
            return -EPROTO;                                                                        \
        return f->stream & 1 ? to_inside : from_inside;                                            \
    }
STREAM_HANDLER(open_result, -EPROTO, gateway_on_open_result(&r->gateway, f->stream, &m))
STREAM_HANDLER(connect, ports_on_connect(&r->ports, f->stream, &m), -EPROTO)
STREAM_HANDLER(data, ports_on_data(&r->ports, f->stream, &m),
               gateway_on_data(&r->gateway, f->stream, &m))
STREAM_HANDLER(data_ack, ports_on_data_ack(&r->ports, f->stream, &m),
               gateway_on_data_ack(&r->gateway, f->stream, &m))
STREAM_HANDLER(data_end, ports_on_data_end(&r->ports, f->stream, &m), -EPROTO)

static int on_close(struct runner *r, const struct frame *f)
{
    struct msg_close m;
    if (msg_close_parse(f->payload, f->length, &m) < 0)
        return -EPROTO;
    if (f->stream & 1)
        ports_on_close(&r->ports, f->stream);
    else
        gateway_on_close(&r->gateway, f->stream, &m);
    return 0;
}

static const struct handler {
    uint8_t type;
    int (*handle)(struct runner *r, const struct frame *f);
    const char *why; /* it was refused */
} handlers[] = {
    {MSG_HELLO, on_hello, "HELLO out of place, of another version or of an older connection"},
    {MSG_SPAWN, on_spawn, "malformed SPAWN"},
    {MSG_STDIN, on_stdin, "STDIN malformed, with a gap or past its window"},
    {MSG_STDIN_CLOSE, on_stdin_close, "malformed STDIN_CLOSE"},
    {MSG_SIGNAL, on_signal, "malformed SIGNAL"},
    {MSG_RESIZE, on_resize, "malformed RESIZE"},
    {MSG_ACK, on_ack, "ACK malformed or past the end"},
    {MSG_FORGET, on_forget, "malformed FORGET"},
    {MSG_OPEN_RESULT, on_open_result, "malformed OPEN_RESULT"},
    {MSG_CONNECT, on_connect, "CONNECT malformed, or with a number that is taken"},
    {MSG_DATA, on_data, "DATA malformed, with a gap or past its window"},
    {MSG_DATA_ACK, on_data_ack, "DATA_ACK malformed or past the end"},
    {MSG_CLOSE, on_close, "malformed CLOSE"},
    {MSG_DATA_END, on_data_end, "DATA_END malformed, or not at the end"},
};

int dispatch_frame(struct runner *r, const struct frame *f, const char **ret_why)
{
    *ret_why = "frame before HELLO, or between the parts of a SPAWN";
    if (f->type != MSG_HELLO && !r->conn.hello_seen)
        return -EPROTO;
    if (r->conn.spawn.len && f->type != MSG_SPAWN)
        return -EPROTO;
    *ret_why = "a frame that only the runner sends";
    for (size_t i = 0; i < ELEMENTS(handlers); i++) {
        if (handlers[i].type == f->type) {
            *ret_why = handlers[i].why;
            return handlers[i].handle(r, f);
        }
    }
    return -EPROTO;
}
