/* SPDX-License-Identifier: Apache-2.0 */
/* Connections opened from inside a sandbox. A runner on the same kernel passes the program's
 * socket, which the gateway gets. Otherwise a connection is a stream of the runner protocol on one
 * side and a socketpair whose other end the gateway holds on the other, and this file moves bytes
 * between the two. Who may be reached is the gateway's decision alone. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "gateway/client-socket.h"
#include "sandbox/internal.h"

#define LAST_READS   8
#define STREAMS_MAX  128 /* of one sandbox: twice as many as may have a report */
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
    bool leaving; /* the runner has closed it: it ends when the gateway has all */
    bool cut;     /* the gateway's side broke, or was broken */
    bool deaf;    /* the gateway reads no more; what it has said is still to be read */
};

static void on_poll(uv_poll_t *poll, int status, int events);

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

/* A server that has answered and sends no more has its end passed on while the connection is still
 * there; of one that is over the gateway closes its socket. */
static bool stream_is_closed(const struct gateway_stream *s)
{
    struct pollfd p = {.fd = s->fd};
    return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* Comes from the gateway, from the runner and from the end of the sandbox, in any order: the first
 * one takes it out of the map, and the memory goes when libuv is done with the handle. The sandbox
 * is not looked at after that, so a stream needs no reference to it. */
static void stream_end(struct gateway_stream *s, bool tell_runner)
{
    if (s->ended)
        return;
    s->ended = true;
    struct runner *runner = s->leaving || !tell_runner ? NULL : s->sandbox->runner;
    if (runner && stream_is_closed(s))
        gateway_report_settle(s->sandbox, s->id);
    map_remove(s->sandbox->gateway_streams, s->key);
    if (runner) {
        struct msg_close m = {.reset = s->cut && runner_features(runner) & RUNNER_RESETS};
        msg_close_format(runner_out(runner), s->id, &m);
        runner_flush(runner);
    }
    uv_close((uv_handle_t *)&s->poll, on_handle_closed);
}

static void update_poll(struct gateway_stream *s)
{
    int events = !s->leaving && s->sent - s->sent_acked < PROTO_WINDOW ? UV_READABLE : 0;
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
    if (s->leaving && !s->to_gateway.len) {
        stream_end(s, false);
        return;
    }
    struct msg_data_ack ack = {.offset = s->received - s->to_gateway.len};
    if (sb->runner && !s->leaving) {
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
    struct msg_data m = {.offset = s->sent, .data = buffer, .len = (size_t)n};
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
static int connect_gateway(struct sandbox *sb, uint32_t id, const struct exec *of)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    int r = gateway_report_open(sb, id, of, pair[1], false);
    fd_close(&pair[1]);
    if (r < 0)
        fd_close(&pair[0]);
    return r < 0 ? r : pair[0];
}

/* The limit on reports (gateway-report.c) does not hold streams: a report ends when the gateway is
 * done with its connection, and the stream stays until the runner has taken the last bytes. A
 * runner that takes none would otherwise fill this process with descriptors. */
static int stream_start(struct sandbox *sb, uint32_t id, const struct exec *of)
{
    if (map_count(sb->gateway_streams) >= STREAMS_MAX)
        return -EMFILE;
    int fd = connect_gateway(sb, id, of);
    if (fd < 0)
        return fd;
    struct gateway_stream *s = new0(struct gateway_stream);
    s->sandbox = sb;
    s->id = id;
    s->fd = fd;
    stream_key(id, s->key);
    strbuf_init(&s->to_gateway, PROTO_WINDOW);
    map_put(sb->gateway_streams, s->key, s);
    uv_poll_init(sb->manager->options.loop, &s->poll, fd);
    s->poll.data = s;
    update_poll(s);
    return 0;
}

/* The socket that came with the frame is the program's own connection: the gateway gets it, and
 * no byte of it passes here. A runner in a machine could pass it no further than to the
 * machine's own first process: the answer says so, and its connections come as frames from then
 * on. */
static int pass_socket(struct sandbox *sb, uint32_t id, const struct exec *of)
{
    if (!sandbox_shares_kernel(sb))
        return -EPERM;
    int fd = runner_take_socket(sb->runner);
    int r = fd < 0 ? -EMFILE : !sb->spec.network ? -EPERM : client_socket_check(fd);
    if (r == 0)
        r = gateway_report_open(sb, id, of, fd, true);
    client_socket_close(&fd);
    return r;
}

static int drop_socket(struct sandbox *sb)
{
    int fd = runner_take_socket(sb->runner);
    client_socket_close(&fd);
    return -ECONNREFUSED;
}

void gateway_stream_open(struct sandbox *sb, uint32_t stream, const struct msg_open *m)
{
    int r = -EPERM;
    const struct exec *of = m->exec ? exec_find_running(sb, m->exec) : NULL;
    if (!sb->gateway_streams)
        sb->gateway_streams = map_new();
    /* A command's own proxy whose command has ended must not pass for the proxy that all share. */
    if (m->exec && (!of || !of->hosts))
        r = m->kind == OPEN_SOCKET ? drop_socket(sb) : -ECONNREFUSED;
    else if ((stream & 1) || stream == 0 || find_stream(sb, stream) ||
             !(sb->spec.tool_net || sb->spec.network) || sb->manager->options.gateway_sock < 0)
        r = -EPERM;
    else if (m->kind == OPEN_GATEWAY)
        r = stream_start(sb, stream, of);
    else if (m->kind == OPEN_SOCKET)
        r = pass_socket(sb, stream, of);
    answer_open(sb, stream, -r);
}

int gateway_stream_data(struct sandbox *sb, uint32_t stream, const struct msg_data *m)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (!s || s->leaving)
        return 0; /* closed here, still on its way there */
    if (m->offset != s->received)
        return -EPROTO;
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

void gateway_stream_close(struct sandbox *sb, uint32_t stream, const struct msg_close *m)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (!s || s->leaving)
        return;
    if (m->reset)
        gateway_report_reset(sb, stream);
    s->leaving = true;
    write_to_gateway(s);
}

void gateway_stream_cut(struct sandbox *sb, uint32_t stream)
{
    struct gateway_stream *s = find_stream(sb, stream);
    if (s)
        s->cut = true;
}

void gateway_streams_free(struct sandbox *sb)
{
    gateway_reports_free(sb);
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
