/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "gateway/client-socket.h"

#define RUNNER_READ_BYTES (1024 * 1024)
#define RUNNER_OUT_MAX    (64 * 1024 * 1024)
#define RUNNER_STUCK      (RUNNER_OUT_MAX - 2 * PROTO_SPAWN_MAX) /* not read: it is broken */

struct runner {
    uv_poll_t poll;
    int fd;
    const struct runner_events *events;
    void *data;
    struct strbuf in; /* an unfinished frame; empty most of the time */
    struct strbuf out;
    size_t sent; /* of out */
    uint64_t generation;
    bool greeted, hello_done;
    uint32_t features;
    uint32_t n_states; /* STATE frames still to come */
    uint32_t stated;   /* the highest stream that came with one */
    bool broken, closing;
    bool polling_write;
    bool takes_sockets;
    int socket;                   /* came with what was read last; -1: none, or it was taken */
    size_t read_left, write_left; /* before it ends by itself: runner_arm_cuts() */
};

static size_t cut_after; /* bytes of the next connection; 0: connections are not cut */

/* All connections are read on one thread into one buffer, so that an idle one costs nothing. */
static uint8_t read_buffer[RUNNER_READ_BYTES + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX];

static void on_poll(uv_poll_t *poll, int status, int events);

/* Closed, broken or muted. A handler of one frame may bring that about, and what was read behind
 * that frame has nothing left that it could be handed to. */
static bool is_deaf(const struct runner *r)
{
    return r->broken || r->closing;
}

/* True for the first cause only: an event ends a sandbox, and must come once. */
static bool connection_ends(struct runner *r)
{
    if (is_deaf(r))
        return false;
    r->broken = true;
    uv_poll_stop(&r->poll);
    return true;
}

static void break_connection(struct runner *r, const char *why)
{
    if (connection_ends(r))
        r->events->on_broken(r->data, why);
}

static void lose_connection(struct runner *r, const char *why)
{
    if (connection_ends(r))
        r->events->on_lost(r->data, why);
}

static void on_closed(uv_handle_t *h)
{
    struct runner *r = h->data;
    fd_close(&r->fd);
    client_socket_close(&r->socket);
    strbuf_done(&r->in);
    strbuf_done(&r->out);
    free(r);
}

void runner_rebind(struct runner *r, void *data)
{
    r->data = data;
}

void runner_close(struct runner *r)
{
    if (!r || r->closing)
        return;
    r->closing = true;
    uv_close((uv_handle_t *)&r->poll, on_closed);
}

void runner_mute(struct runner *r)
{
    if (r)
        connection_ends(r);
}

struct strbuf *runner_out(struct runner *r)
{
    return &r->out;
}

uint32_t runner_features(const struct runner *r)
{
    return r->features;
}

bool runner_has_stated(const struct runner *r, uint32_t stream)
{
    return stream <= r->stated;
}

/* Bytes that the socket has not taken yet. */
static size_t runner_backlog(const struct runner *r)
{
    return r->out.len - r->sent;
}

static void poll_for(struct runner *r, bool write)
{
    if (r->polling_write == write)
        return;
    r->polling_write = write;
    uv_poll_start(&r->poll, UV_READABLE | (write ? UV_WRITABLE : 0), on_poll);
}

/* What was sent makes room, or a connection that is never quite empty would fill up; a runner that
 * does not read is cut off before frames have to be dropped. The loop sees the end. */
static void wait_writable(struct runner *r)
{
    if (r->sent > runner_backlog(r)) {
        strbuf_consume(&r->out, r->sent);
        r->sent = 0;
    }
    if (runner_backlog(r) > RUNNER_STUCK)
        shutdown(r->fd, SHUT_RDWR);
    poll_for(r, true);
}

void runner_flush(struct runner *r)
{
    /* A frame is queued by many callers and sent once, at the end of what they do. Nothing here
     * calls back: a connection that turns out to be gone is found by on_poll(), from the loop. */
    if (is_deaf(r))
        return;
    while (r->sent < r->out.len) {
        size_t len = r->out.len - r->sent;
        if (!r->write_left) {
            shutdown(r->fd, SHUT_RDWR); /* the loop sees the end */
            break;
        }
        ssize_t n = write(r->fd, r->out.data + r->sent, len < r->write_left ? len : r->write_left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            wait_writable(r);
            return;
        }
        if (n < 0) {
            /* The reading side says so, from the loop: callers of flush do not expect events. */
            r->sent = r->out.len;
            break;
        }
        r->sent += (size_t)n;
        r->write_left -= (size_t)n;
    }
    strbuf_reset(&r->out);
    r->sent = 0;
    poll_for(r, false);
}

/* The generation shows that the answer is to this HELLO, and not to that of a control plane before
 * this one whose bytes were still in the runner's buffer. */
static int handle_hello(struct runner *r, const struct frame *f)
{
    struct msg_hello_ok m;
    if (r->hello_done || msg_hello_ok_parse(f->payload, f->length, &m) < 0 ||
        m.version != PROTO_VERSION || m.generation != r->generation || m.n_execs > PROTO_EXECS_MAX)
        return -EPROTO;
    r->hello_done = true;
    r->n_states = m.n_execs;
    r->features = m.features;
    if (!r->n_states)
        r->events->on_resumed(r->data);
    return 0;
}

static int handle_state(struct runner *r, const struct frame *f)
{
    struct msg_state m;
    if (!r->n_states || msg_state_parse(f->payload, f->length, &m) < 0)
        return -EPROTO;
    r->stated = f->stream > r->stated ? f->stream : r->stated;
    r->events->on_state(r->data, f->stream, &m);
    if (--r->n_states == 0 && !is_deaf(r))
        r->events->on_resumed(r->data);
    return 0;
}

#define HANDLE(name, call)                                                                         \
    {                                                                                              \
        struct msg_##name m;                                                                       \
        if (msg_##name##_parse(f->payload, f->length, &m) < 0)                                     \
            return -EPROTO;                                                                        \
        call;                                                                                      \
        return 0;                                                                                  \
    }

/* Every message of the protocol. A runner is not trusted: what is not exactly as it must be ends
 * the connection, and with it the sandbox. */
static int handle_frame(struct runner *r, const struct frame *f)
{
    const struct runner_events *e = r->events;
    if (f->flags)
        return -EPROTO;
    if (!r->hello_done)
        return f->type == MSG_HELLO_OK ? handle_hello(r, f) : -EPROTO;
    switch (f->type) {
    case MSG_STARTED:
        HANDLE(started, e->on_started(r->data, f->stream, &m))
    case MSG_SPAWN_FAILED:
        HANDLE(spawn_failed, e->on_spawn_failed(r->data, f->stream, &m))
    case MSG_OUTPUT:
        HANDLE(output, return e->on_output(r->data, f->stream, &m))
    case MSG_EXIT:
        HANDLE(exit, e->on_exit(r->data, f->stream, &m))
    case MSG_STDIN_ACK:
        HANDLE(stdin_ack, e->on_stdin_ack(r->data, f->stream, &m))
    case MSG_OPEN:
        HANDLE(open, e->on_open(r->data, f->stream, &m))
    case MSG_DATA:
        HANDLE(data, return e->on_data(r->data, f->stream, &m))
    case MSG_DATA_ACK:
        HANDLE(data_ack, return e->on_data_ack(r->data, f->stream, &m))
    case MSG_DATA_END:
        HANDLE(data_end, return e->on_data_end(r->data, f->stream, &m))
    case MSG_CONNECTED:
        HANDLE(connected, return e->on_connected(r->data, f->stream, &m))
    case MSG_STATE:
        return handle_state(r, f);
    case MSG_DRAINING:
        e->on_draining(r->data, f->stream);
        return 0;
    case MSG_CLOSE:
        HANDLE(close, e->on_close(r->data, f->stream, &m))
    default:
        return -EPROTO;
    }
}

/* Output frames of one stream that came together, moved together: one event is cheaper than many.
 */
struct gathered {
    uint32_t stream; /* 0: nothing */
    struct msg_output output;
    uint8_t *end;
};

static int deliver_gathered(struct runner *r, struct gathered *g)
{
    uint32_t stream = g->stream;
    g->stream = 0;
    return stream && !is_deaf(r) ? r->events->on_output(r->data, stream, &g->output) : 0;
}

/* 1: it has joined those before it, or is the first; 0: it is no output; negative: malformed. */
static int gather_frame(struct runner *r, struct gathered *g, const struct frame *f)
{
    struct msg_output m;
    if (f->type != MSG_OUTPUT || !f->stream || f->flags || !r->hello_done)
        return 0;
    if (msg_output_parse(f->payload, f->length, &m) < 0)
        return -EPROTO;
    /* The bytes are moved over the head between the two frames. The buffer is ours and is not
     * looked at again, so that this costs a move where two events would cost two records in a
     * journal. */
    if (g->stream == f->stream && g->output.which == m.which &&
        g->output.offset + g->output.len == m.offset) {
        memmove(g->end, m.data, m.len);
        g->output.len += m.len;
        g->end += m.len;
        return 1;
    }
    if (deliver_gathered(r, g) < 0)
        return -EPROTO;
    *g = (struct gathered){f->stream, m, (uint8_t *)(uintptr_t)m.data + m.len};
    return 1;
}

/* The log line is what an operator has to find out what the runner did wrong. */
static ssize_t refuse_frame(const struct frame *f)
{
    if (f)
        log_warn("a runner's frame is refused, or the output before it type=%u stream=%u bytes=%u",
                 f->type, f->stream, f->length);
    else
        log_warn("a runner's frame is refused: its head is malformed");
    return -EPROTO;
}

/* Handles every whole frame; returns how many bytes are used up, or negative. */
static ssize_t handle_bytes(struct runner *r, uint8_t *data, size_t len)
{
    struct gathered g = {0};
    size_t used = 0;
    if (!r->greeted) {
        if (len < FRAME_PREFACE_SIZE)
            return 0;
        if (memcmp(data, FRAME_PREFACE, FRAME_PREFACE_SIZE) != 0)
            return -EPROTO;
        r->greeted = true;
        used = FRAME_PREFACE_SIZE;
    }
    while (!is_deaf(r)) {
        struct frame f;
        int n = frame_parse(data + used, len - used, &f);
        if (n == 0)
            break;
        int joined = n < 0 ? n : gather_frame(r, &g, &f);
        if (joined < 0 || (joined == 0 && (deliver_gathered(r, &g) < 0 ||
                                           (!is_deaf(r) && handle_frame(r, &f) < 0))))
            return refuse_frame(n < 0 ? NULL : &f);
        used += (size_t)n;
    }
    if (deliver_gathered(r, &g) < 0)
        return -EPROTO;
    return (ssize_t)used;
}

/* Handles what is in the buffer and keeps the start of an unfinished frame for the next time. */
static void take_bytes(struct runner *r, size_t len)
{
    ssize_t used = handle_bytes(r, read_buffer, len);
    if (used < 0) {
        break_connection(r, "the runner broke the protocol");
        return;
    }
    /* A descriptor that no frame of this read has taken is not what the protocol says. Keeping it
     * would let a runner fill this process with descriptors. */
    if (r->socket >= 0) {
        client_socket_close(&r->socket);
        break_connection(r, "the runner passed a descriptor without a use");
        return;
    }
    if (is_deaf(r))
        return;
    strbuf_reset(&r->in);
    if ((size_t)used < len)
        strbuf_append(&r->in, read_buffer + used, len - (size_t)used);
    /* The usual case: no unfinished frame. Thousands of idle connections then hold no buffer at
     * all. */
    else
        strbuf_done(&r->in);
}

void runner_accept_sockets(struct runner *r)
{
    r->takes_sockets = true;
}

int runner_take_socket(struct runner *r)
{
    return fd_steal(&r->socket);
}

/* Room for one descriptor: the kernel closes what comes beside it, and what this process has no
 * room for. The kernel does not read on past the message that a descriptor came with, so it belongs
 * to one of the frames that are read now. */
static ssize_t read_with_socket(struct runner *r, void *buffer, size_t size)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {buffer, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = recvmsg(r->fd, &msg, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&r->socket, CMSG_DATA(c), sizeof(int));
    return n;
}

/* One read per turn, so that a loud sandbox does not keep the loop from the others. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct runner *r = poll->data;
    if (status < 0) {
        lose_connection(r, uv_strerror(status));
        return;
    }
    if (events & UV_WRITABLE)
        runner_flush(r);
    if (!(events & UV_READABLE) || is_deaf(r))
        return;
    /* The start of a frame that came in the turn before is put in front of what is read now. */
    size_t kept = r->in.len;
    if (kept)
        memcpy(read_buffer, r->in.data, kept);
    size_t most = r->read_left < RUNNER_READ_BYTES ? r->read_left : RUNNER_READ_BYTES;
    ssize_t n = r->takes_sockets ? read_with_socket(r, read_buffer + kept, most)
                                 : read(r->fd, read_buffer + kept, most);
    if (n > 0) {
        r->read_left -= (size_t)n;
        take_bytes(r, kept + (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        lose_connection(r, n == 0 ? "the runner closed its connection" : strerror(errno));
    }
}

void runner_arm_cuts(const char *text)
{
    cut_after = text ? strtoul(text, NULL, 10) : 0;
}

bool runner_cuts_are_armed(void)
{
    return cut_after > 0;
}

static void set_cut(struct runner *r)
{
    r->read_left = r->write_left = SIZE_MAX;
    if (!cut_after)
        return;
    /* For tests: each connection is cut one byte later than the one before, in turns while reading
     * and while writing, so that a run of them covers every place where a connection can break. */
    *(cut_after & 1 ? &r->read_left : &r->write_left) = cut_after / 2 + 1;
    cut_after++;
}

struct runner *runner_new(uv_loop_t *loop, int fd, uint64_t generation, uint32_t attempt,
                          const struct runner_events *events, void *data)
{
    struct runner *r = new0(struct runner);
    r->fd = fd;
    r->socket = -1;
    r->events = events;
    r->data = data;
    r->generation = generation;
    set_cut(r);
    strbuf_init(&r->in, FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
    strbuf_init(&r->out, RUNNER_OUT_MAX);
    fd_set_nonblock(fd, true);
    uv_poll_init(loop, &r->poll, fd);
    r->poll.data = r;
    uv_poll_start(&r->poll, UV_READABLE, on_poll);
    strbuf_append(&r->out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    struct msg_hello hello = {
        .version = PROTO_VERSION, .generation = generation, .attempt = attempt};
    msg_hello_format(&r->out, 0, &hello);
    return r;
}
