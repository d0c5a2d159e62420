/* Connections opened from inside a sandbox: each is a stream of the runner protocol on one side and
 * a socketpair whose other end the gateway holds on the other. This file moves bytes between the
 * two; who may be reached is the gateway's decision alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/gateway-client.h"
#include "gateway/gateway-proto.h"
#include "sandbox/internal.h"

#define STREAMS_MAX  64
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
    /* The first line of each side, for the record. */
    char asked[GATEWAY_LINE_MAX], told[GATEWAY_LINE_MAX];
    size_t asked_len, told_len;
    bool asked_whole, recorded;
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* Keeps a first line up to its newline; true when it is whole, or longer than any. */
static bool keep_line(char line[GATEWAY_LINE_MAX], size_t *len, const void *data, size_t n)
{
    const char *bytes = data;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || *len == GATEWAY_LINE_MAX - 1)
            return true;
        line[(*len)++] = bytes[i] ? bytes[i] : ' ';
    }
    return false;
}

static void record(struct gateway_stream *s, const void *data, size_t len)
{
    struct sandbox *sb = s->sandbox;
    const struct manager_options *o = &sb->manager->options;
    if (s->recorded || !o->on_connection || !keep_line(s->told, &s->told_len, data, len))
        return;
    s->recorded = true;
    const char *call = list_empty(&sb->running)
                           ? ""
                           : container_of(sb->running.next, struct exec, phase_node)->call;
    o->on_connection(o->on_record_data, sb, call, s->asked, s->told);
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
            stream_end(s, true);
            return;
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
    record(s, buffer, (size_t)n);
    struct msg_data m = {.offset = s->sent, .data = buffer, .len = (size_t)n};
    s->sent += (uint64_t)n;
    msg_data_format(runner_out(s->sandbox->runner), s->id, &m);
    runner_flush(s->sandbox->runner);
    update_poll(s);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct gateway_stream *s = poll->data;
    if (status < 0 || !s->sandbox->runner) {
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
    struct gateway_rules rules = {.hosts = sb->spec.hosts, .label = sb->id, .tag = id};
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
    if (bad || !sb->spec.tool_net || sb->manager->options.gateway_sock < 0) {
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
    if (!s->asked_whole)
        s->asked_whole = keep_line(s->asked, &s->asked_len, m->data, m->len);
    if (strbuf_append(&s->to_gateway, m->data, m->len) < 0)
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
}
