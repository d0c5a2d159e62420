/* SPDX-License-Identifier: Apache-2.0 */
/* Connections opened from inside a sandbox: each is a stream of the runner protocol on one side and
 * a socketpair whose other end the gateway holds on the other. This file moves bytes between the
 * two; who may be reached is the gateway's decision alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/gateway-client.h"
#include "gateway/gateway-proto.h"
#include "sandbox/internal.h"

#define STREAMS_MAX  64
#define LAST_READS   8
#define STREAM_CHUNK (FRAME_PAYLOAD_MAX - 64)

struct gateway_stream {
    struct sandbox *sandbox;
    uint32_t id;
    char key[16];
    int fd;
    uv_poll_t poll;
    struct strbuf to_gateway;
    uint64_t received;         /* from the runner */
    uint64_t sent, sent_acked; /* to the runner */
    bool ended;
    bool deaf; /* the gateway reads no more; what it has said is still to be read */
    bool http; /* of a sandbox with a network: the gateway's first two lines are for us */
    /* The first line of each side, for the record. */
    char asked[GATEWAY_LINE_MAX], told[GATEWAY_LINE_MAX];
    size_t asked_len, told_len;
    bool asked_whole, recorded;
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* Keeps a first line up to its newline; true when it is whole, or longer than any. *ret_used may be
 * NULL, and counts the newline. */
static bool keep_line(char line[GATEWAY_LINE_MAX], size_t *len, const void *data, size_t n,
                      size_t *ret_used)
{
    const char *bytes = data;
    bool whole = false;
    size_t i = 0;
    for (; i < n && !whole; i++) {
        whole = bytes[i] == '\n' || *len == GATEWAY_LINE_MAX - 1;
        if (!whole)
            line[(*len)++] = bytes[i] ? bytes[i] : ' ';
    }
    if (ret_used)
        *ret_used = i;
    return whole;
}

/* The connections that were only counted. Those of a minute are told with the first of a later one,
 * or when the sandbox's connections end. */
static void record_cut(struct sandbox *sb)
{
    const struct manager_options *o = &sb->manager->options;
    if (o->on_connections_cut && (sb->n_cut_connected || sb->n_cut_refused))
        o->on_connections_cut(o->on_record_data, sb, sb->n_cut_connected, sb->n_cut_refused);
    sb->n_cut_connected = sb->n_cut_refused = 0;
}

/* A loop of connects must not fill the audit: true while the minute has room for one more record.
 */
static bool has_record_room(struct gateway_stream *s)
{
    struct sandbox *sb = s->sandbox;
    int64_t now = clock_mono_ms();
    if (!sb->records_from_ms || now - sb->records_from_ms >= 60000) {
        record_cut(sb);
        sb->records_from_ms = now;
        sb->n_records = 0;
    }
    if (sb->n_records < sb->manager->options.config.network_records_per_minute) {
        sb->n_records++;
        return true;
    }
    if (strncmp(s->told, "OK ", 3) == 0)
        sb->n_cut_connected++;
    else
        sb->n_cut_refused++;
    return false;
}

static void record_decision(struct gateway_stream *s)
{
    struct sandbox *sb = s->sandbox;
    const struct manager_options *o = &sb->manager->options;
    s->recorded = true;
    if (!o->on_connection || (s->http && !has_record_room(s)))
        return;
    const char *call = list_empty(&sb->running)
                           ? ""
                           : container_of(sb->running.next, struct exec, phase_node)->call;
    o->on_connection(o->on_record_data, sb, call, s->asked, s->told);
}

static void record(struct gateway_stream *s, const void *data, size_t len)
{
    if (!s->recorded && keep_line(s->told, &s->told_len, data, len, NULL))
        record_decision(s);
}

/* What the gateway says of an HTTP client, before the client's own answer: the bytes taken. */
static size_t take_report(struct gateway_stream *s, const uint8_t *data, size_t len)
{
    size_t used = 0, more = 0;
    if (!s->asked_whole)
        s->asked_whole = keep_line(s->asked, &s->asked_len, data, len, &used);
    if (!s->asked_whole || s->recorded)
        return used;
    if (keep_line(s->told, &s->told_len, data + used, len - used, &more))
        record_decision(s);
    return used + more;
}

static void stream_key(uint32_t id, char out[16])
{
    snprintf(out, 16, "%u", id);
}

static struct gateway_stream *find_stream(struct sandbox *sb, uint32_t id)
{
    char key[16];
    stream_key(id, key);
    return sb->gateway_streams ? map_find(sb->gateway_streams, key) : NULL;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct gateway_stream *s = h->data;
    fd_close(&s->fd);
    strbuf_done(&s->to_gateway);
    free(s);
}

static void stream_end(struct gateway_stream *s, bool tell_runner)
{
    if (s->ended)
        return;
    s->ended = true;
    map_remove(s->sandbox->gateway_streams, s->key);
    if (tell_runner && s->sandbox->runner) {
        frame_append(runner_out(s->sandbox->runner), MSG_CLOSE, s->id, NULL, 0);
        runner_flush(s->sandbox->runner);
    }
    uv_close((uv_handle_t *)&s->poll, on_handle_closed);
}

static void update_poll(struct gateway_stream *s)
{
    int events = s->sent - s->sent_acked < PROTO_WINDOW ? UV_READABLE : 0;
    if (s->to_gateway.len)
        events |= UV_WRITABLE;
    if (events)
        uv_poll_start(&s->poll, events, on_poll);
    else
        uv_poll_stop(&s->poll);
}

static void write_to_gateway(struct gateway_stream *s)
{
    struct sandbox *sb = s->sandbox;
    while (s->to_gateway.len) {
        ssize_t n = send(s->fd, s->to_gateway.data, s->to_gateway.len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n < 0) {
            s->deaf = true;
            strbuf_reset(&s->to_gateway);
            break;
        }
        strbuf_consume(&s->to_gateway, (size_t)n);
    }
    struct msg_data_ack ack = {.offset = s->received - s->to_gateway.len};
    if (sb->runner) {
        msg_data_ack_format(runner_out(sb->runner), s->id, &ack);
        runner_flush(sb->runner);
    }
    update_poll(s);
}

static void read_from_gateway(struct gateway_stream *s)
{
    static uint8_t buffer[STREAM_CHUNK];
    uint64_t room = PROTO_WINDOW - (s->sent - s->sent_acked);
    ssize_t n = read(s->fd, buffer, room < sizeof(buffer) ? room : sizeof(buffer));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        stream_end(s, true);
        return;
    }
    size_t skip = s->http ? take_report(s, buffer, (size_t)n) : 0;
    if (!s->http)
        record(s, buffer, (size_t)n);
    if (skip == (size_t)n)
        return;
    struct msg_data m = {.offset = s->sent, .data = buffer + skip, .len = (size_t)n - skip};
    s->sent += m.len;
    msg_data_format(runner_out(s->sandbox->runner), s->id, &m);
    runner_flush(s->sandbox->runner);
    update_poll(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct gateway_stream *s = poll->data;
    if (status < 0 || !s->sandbox->runner) {
        /* An error of the socket comes before what was sent ahead of it is read. */
        for (int i = 0; i < LAST_READS && !s->ended && s->sandbox->runner; i++)
            read_from_gateway(s);
        stream_end(s, true);
        return;
    }
    if (events & UV_WRITABLE)
        write_to_gateway(s);
    if (!s->ended && (events & UV_READABLE))
        read_from_gateway(s);
}

static void answer_open(struct sandbox *sb, uint32_t id, int error)
{
    struct msg_open_result m = {.error = error};
    msg_open_result_format(runner_out(sb->runner), id, &m);
    runner_flush(sb->runner);
}

/* The end that stays here, or -errno. */
static int connect_gateway(struct sandbox *sb, uint32_t id)
{
    int pair[2];
    struct error err = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    struct gateway_rules rules = {.hosts = sb->spec.hosts,
                                  .denied = sb->spec.denied_hosts,
                                  .http = sb->spec.network,
                                  .label = sb->id,
                                  .tag = id};
    int r = gateway_open(sb->manager->options.gateway_sock, &rules, pair[1], &err);
    fd_close(&pair[1]);
    if (r < 0) {
        log_warn("gateway refused a stream id=%s: %s", sb->id, err.message);
        fd_close(&pair[0]);
        return r;
    }
    return pair[0];
}

void gateway_stream_open(struct sandbox *sb, uint32_t stream, const struct msg_open *m)
{
    bool bad = m->kind != OPEN_GATEWAY || (stream & 1) || stream == 0 || find_stream(sb, stream);
    if (!sb->gateway_streams)
        sb->gateway_streams = map_new();
    if (bad || !(sb->spec.tool_net || sb->spec.network) || sb->manager->options.gateway_sock < 0) {
        answer_open(sb, stream, EPERM);
        return;
    }
    int fd = map_count(sb->gateway_streams) < STREAMS_MAX ? connect_gateway(sb, stream) : -EMFILE;
    if (fd < 0) {
        answer_open(sb, stream, -fd);
        return;
    }
    struct gateway_stream *s = new0(struct gateway_stream);
    s->sandbox = sb;
    s->id = stream;
    s->fd = fd;
    s->http = sb->spec.network;
    stream_key(stream, s->key);
    strbuf_init(&s->to_gateway, PROTO_WINDOW);
    map_put(sb->gateway_streams, s->key, s);
    uv_poll_init(sb->manager->options.loop, &s->poll, fd);
    s->poll.data = s;
    answer_open(sb, stream, 0);
    update_poll(s);
}

int gateway_stream_data(struct sandbox *sb, uint32_t stream, const struct msg_data *m)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (!s)
        return 0; /* closed here, still on its way there */
    if (m->offset != s->received)
        return -EPROTO;
    if (!s->asked_whole && !s->http)
        s->asked_whole = keep_line(s->asked, &s->asked_len, m->data, m->len, NULL);
    if (!s->deaf && strbuf_append(&s->to_gateway, m->data, m->len) < 0)
        return -EPROTO; /* over the window */
    s->received += m->len;
    write_to_gateway(s);
    return 0;
}

void gateway_stream_ack(struct sandbox *sb, uint32_t stream, const struct msg_data_ack *m)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (!s)
        return;
    if (m->offset < s->sent_acked || m->offset > s->sent) {
        sandbox_break(sb, "the runner acknowledged data it was not sent");
        return;
    }
    s->sent_acked = m->offset;
    update_poll(s);
}

void gateway_stream_close(struct sandbox *sb, uint32_t stream)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (s)
        stream_end(s, false);
}

void gateway_streams_free(struct sandbox *sb)
{
    if (!sb->gateway_streams)
        return;
    for (;;) {
        size_t cursor = 0;
        struct gateway_stream *s = map_next(sb->gateway_streams, &cursor);
        if (!s)
            break;
        stream_end(s, false);
    }
    map_free(steal_ptr(sb->gateway_streams));
    record_cut(sb);
}
