/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/port-stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sandbox/internal.h"

#define STREAM_CHUNK (FRAME_PAYLOAD_MAX - 64)

struct port_stream {
    struct sandbox *sandbox; /* referenced */
    struct list node;        /* sandbox->port_streams */
    uint32_t id;
    uint16_t port;
    const struct port_stream_events *events;
    void *data;
    struct loop_timer timer;           /* until it is connected */
    struct strbuf waiting;             /* for the window */
    uint64_t sent, acked;              /* to the runner */
    uint64_t received, consumed, told; /* from it; told is what the runner knows to be consumed */
    bool asked;                        /* CONNECT is sent */
    bool connected, want_drain;
    bool end_wanted, end_sent, end_received;
};

static struct port_stream *find_stream(struct sandbox *sb, uint32_t id)
{
    list_for_each(s, &sb->port_streams, struct port_stream, node) {
        if (s->id == id)
            return s;
    }
    return NULL;
}

bool port_stream_is_taken(const struct sandbox *sb, uint32_t id)
{
    return find_stream((struct sandbox *)sb, id);
}

/* --- the end */

static void on_timer_closed(void *data)
{
    struct port_stream *s = data;
    struct sandbox *sb = s->sandbox;
    strbuf_done(&s->waiting);
    free(s);
    sandbox_unref(sb);
}

/* Out of the tables; the memory goes when libuv is done with the timer. */
static void stream_drop(struct port_stream *s)
{
    list_remove(&s->node);
    s->sandbox->n_port_streams--;
    sandbox_release(s->sandbox);
    loop_timer_close(&s->timer, on_timer_closed, s);
}

static void stream_tell_runner(struct port_stream *s)
{
    struct runner *r = s->sandbox->runner;
    if (!r || !s->asked)
        return;
    frame_append(runner_out(r), MSG_CLOSE, s->id, NULL, 0);
    runner_flush(r);
}

/* It is out of the tables before its owner hears of it: the owner may open another one, or delete
 * the sandbox, and must not meet this one again. */
static void stream_fail(struct port_stream *s, const struct error *err)
{
    const struct port_stream_events *events = s->events;
    void *data = s->data;
    stream_drop(s);
    events->on_closed(data, err);
}

void port_stream_close(struct port_stream *s)
{
    if (!s)
        return;
    stream_tell_runner(s);
    stream_drop(s);
}

static void on_connect_late(void *data)
{
    struct port_stream *s = data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, 0,
              "nothing in sandbox %s took the connection to port %u in time", s->sandbox->id,
              s->port);
    stream_tell_runner(s);
    stream_fail(s, &err);
}

void port_streams_free(struct sandbox *sb, const char *why)
{
    struct error err = {0};
    error_set(&err, ERROR_CONFLICT, 0, "sandbox %s: %s", sb->id, why);
    while (!list_empty(&sb->port_streams))
        stream_fail(container_of(sb->port_streams.next, struct port_stream, node), &err);
}

/* --- writing */

static void stream_send_end(struct port_stream *s)
{
    if (!s->end_wanted || s->end_sent || s->waiting.len || !s->connected || !s->sandbox->runner)
        return;
    struct msg_data_end m = {.offset = s->sent};
    msg_data_end_format(runner_out(s->sandbox->runner), s->id, &m);
    runner_flush(s->sandbox->runner);
    s->end_sent = true;
}

static size_t send_bytes(struct port_stream *s, const char *bytes, size_t len)
{
    size_t done = 0;
    while (s->sandbox->runner && done < len && s->sent - s->acked < PROTO_WINDOW) {
        size_t n = len - done, room = (size_t)(PROTO_WINDOW - (s->sent - s->acked));
        n = n < room ? n : room;
        n = n < STREAM_CHUNK ? n : STREAM_CHUNK;
        struct msg_data m = {.offset = s->sent, .data = (const uint8_t *)bytes + done, .len = n};
        msg_data_format(runner_out(s->sandbox->runner), s->id, &m);
        s->sent += n;
        done += n;
    }
    if (done)
        runner_flush(s->sandbox->runner);
    return done;
}

static void stream_pump(struct port_stream *s)
{
    if (!s->connected)
        return;
    if (s->waiting.len)
        strbuf_consume(&s->waiting, send_bytes(s, s->waiting.data, s->waiting.len));
    stream_send_end(s);
}

static void on_overrun(void *data)
{
    struct port_stream *s = data;
    struct error err = {0};
    error_set(&err, ERROR_BAD_GATEWAY, 0, "more was written to port %u than can wait", s->port);
    stream_tell_runner(s);
    stream_fail(s, &err);
}

bool port_stream_write(struct port_stream *s, const char *bytes, size_t len)
{
    /* The runner takes DATA behind DATA_END for a broken protocol, which ends the sandbox. What a
     * caller writes must not be able to bring that about. */
    if (s->end_wanted)
        return true;
    /* Bytes that wait must go first. So nothing is sent past a queue that is not empty, even when
     * the window has room again. */
    size_t done = s->connected && !s->waiting.len ? send_bytes(s, bytes, len) : 0;
    if (strbuf_append(&s->waiting, bytes + done, len - done) < 0) {
        /* Later, because events never come from inside a call. */
        s->timer.cb = on_overrun;
        loop_timer_start(&s->timer, 0);
    }
    s->want_drain = s->waiting.len > 0;
    return !s->want_drain;
}

static void on_both_ended(void *data)
{
    stream_fail(data, NULL);
}

void port_stream_end(struct port_stream *s)
{
    s->end_wanted = true;
    stream_send_end(s);
    /* Both sides have ended: the last event comes later, not from inside this call. */
    if (s->end_sent && s->end_received) {
        s->timer.cb = on_both_ended;
        loop_timer_start(&s->timer, 0);
    }
}

/* --- reading */

/* An acknowledgement per quarter of the window is enough to keep the server going. */
void port_stream_consumed(struct port_stream *s, size_t len)
{
    struct runner *r = s->sandbox->runner;
    s->consumed += len;
    /* After the runner's end there is nothing left that it would send, and so nothing to make room
     * for. */
    if (!r || s->end_received || s->consumed - s->told < PROTO_WINDOW / 4)
        return;
    struct msg_data_ack m = {.offset = s->told = s->consumed};
    msg_data_ack_format(runner_out(r), s->id, &m);
    runner_flush(r);
}

int port_stream_on_data(struct sandbox *sb, uint32_t stream, const struct msg_data *m)
{
    struct port_stream *s = find_stream(sb, stream);
    if (!s)
        return 0; /* closed here, still on its way there */
    /* The runner is not trusted. One that sends past its window, out of order or before it was let
     * in breaks the protocol, and loses the whole connection and not just this stream. */
    if (!s->connected || s->end_received || m->offset != s->received ||
        m->len > PROTO_WINDOW - (s->received - s->told))
        return -EPROTO;
    s->received += m->len;
    s->events->on_data(s->data, (const char *)m->data, m->len);
    return 0;
}

int port_stream_on_ack(struct sandbox *sb, uint32_t stream, const struct msg_data_ack *m)
{
    struct port_stream *s = find_stream(sb, stream);
    if (!s)
        return 0;
    if (m->offset < s->acked || m->offset > s->sent)
        return -EPROTO;
    s->acked = m->offset;
    stream_pump(s);
    if (s->want_drain && !s->waiting.len) {
        s->want_drain = false;
        s->events->on_drain(s->data);
    }
    return 0;
}

int port_stream_on_end(struct sandbox *sb, uint32_t stream, const struct msg_data_end *m)
{
    struct port_stream *s = find_stream(sb, stream);
    if (!s)
        return 0;
    if (!s->connected || s->end_received || m->offset != s->received)
        return -EPROTO;
    s->end_received = true;
    s->events->on_end(s->data);
    /* on_end may have closed it, or ended the other side. */
    s = find_stream(sb, stream);
    if (s && s->end_sent)
        stream_fail(s, NULL);
    return 0;
}

void port_stream_on_close(struct sandbox *sb, uint32_t stream)
{
    struct port_stream *s = find_stream(sb, stream);
    struct error err = {0};
    if (!s)
        return;
    error_set(&err, ERROR_BAD_GATEWAY, 0, "the server at port %u broke the connection", s->port);
    stream_fail(s, &err);
}

/* --- the start */

static void refuse_connect(struct port_stream *s, int error)
{
    struct error err = {0};
    if (error == EACCES)
        error_set(&err, ERROR_FORBIDDEN, 0, PORT_IS_OURS, s->port, s->sandbox->id);
    else if (error == ECONNREFUSED)
        error_set(&err, ERROR_BAD_GATEWAY, 0, "nothing listens on port %u in sandbox %s", s->port,
                  s->sandbox->id);
    else
        error_set(&err, ERROR_BAD_GATEWAY, error > 0 ? error : EPROTO,
                  "connect to port %u in sandbox %s", s->port, s->sandbox->id);
    stream_fail(s, &err);
}

int port_stream_on_connected(struct sandbox *sb, uint32_t stream, const struct msg_connected *m)
{
    struct port_stream *s = find_stream(sb, stream);
    if (!s)
        return 0;
    if (!s->asked || s->connected)
        return -EPROTO;
    if (m->error) {
        refuse_connect(s, m->error);
        return 0;
    }
    s->connected = true;
    loop_timer_stop(&s->timer);
    stream_pump(s);
    s->events->on_connected(s->data);
    return 0;
}

/* Once the runner has said what it can do. */
static void stream_ask(struct port_stream *s)
{
    struct runner *r = s->sandbox->runner;
    struct msg_connect m = {.port = s->port};
    s->asked = true;
    msg_connect_format(runner_out(r), s->id, &m);
    runner_flush(r);
}

void port_streams_resume(struct sandbox *sb)
{
    struct error err = {0};
    bool can = runner_features(sb->runner) & RUNNER_CONNECTS;
    error_set(&err, ERROR_UNSUPPORTED, 0,
              "sandbox %s was made by an older release, whose runner does not connect to ports",
              sb->id);
    list_for_each_safe(s, &sb->port_streams, struct port_stream, node) {
        if (can && !s->asked)
            stream_ask(s);
        else if (!can)
            stream_fail(s, &err);
    }
}

static int check_sandbox(struct sandbox *sb, uint16_t port, struct error *err)
{
    int r = sandbox_check_ready(sb, err);
    if (r < 0)
        return r;
    if (sb->ops->isolation < ISOLATION_NAMESPACES)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the %s runtime shares the host's loopback: its ports cannot be "
                         "distinguished from the host's own",
                         sb->ops->name);
    if (sb->spec.network && port == atoi(PLAN_PROXY_PORT))
        return error_set(err, ERROR_FORBIDDEN, 0, PORT_IS_OURS, port, sb->id);
    if (sb->paused || sb->pausing || (!sb->runner && !sb->lost_ms))
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is paused", sb->id);
    if (sb->n_port_streams >= PORT_STREAMS_MAX)
        return error_set(err, ERROR_LIMIT, 0, "sandbox %s has %d connections to its ports already",
                         sb->id, PORT_STREAMS_MAX);
    return 0;
}

struct port_stream *port_stream_open(struct sandbox *sb, uint16_t port,
                                     const struct port_stream_events *events, void *data,
                                     struct error *err)
{
    if (!port) {
        error_set(err, ERROR_INVALID, 0, "a port is a number from 1 to 65535");
        return NULL;
    }
    if (check_sandbox(sb, port, err) < 0)
        return NULL;
    struct port_stream *s = new0(struct port_stream);
    s->sandbox = sandbox_ref(sb);
    s->port = port;
    s->events = events;
    s->data = data;
    s->id = sandbox_take_stream(sb);
    strbuf_init(&s->waiting, PORT_WRITE_MAX);
    list_append(&sb->port_streams, &s->node);
    sb->n_port_streams++;
    sandbox_hold(sb);
    loop_timer_init(&s->timer, sb->manager->options.loop, on_connect_late, s);
    loop_timer_start(&s->timer, PORT_CONNECT_TIMEOUT_MS);
    struct runner *r = sandbox_runner(sb);
    if (r && runner_features(r) & RUNNER_CONNECTS)
        stream_ask(s);
    return s;
}
