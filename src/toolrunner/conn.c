/* SPDX-License-Identifier: Apache-2.0 */
/* The byte stream to the control plane. Frames go to dispatch.c; what is to be sent is collected in
 * one buffer and leaves in one write per round, because waking the peer costs more than anything
 * done here. */
#include "toolrunner/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "toolrunner/exec.h"
#include "toolrunner/ring.h"
#include "toolrunner/runner.h"

#define CONN_BUFFER_KEEP 65536 /* a larger buffer is given back after a write that was small */
#define CONN_OUTPUT_MAX  (FRAME_PAYLOAD_MAX - 1024) /* bytes of one frame of a batch */
#define CONN_BATCH       10                         /* frames: a window's worth */
#define CONN_REST_MAX    (8 * 1024 * 1024)          /* bytes taken from a peer that is replaced */

static void on_conn_ready(struct epoll_watch *w, uint32_t ready);

void conn_init(struct conn *c)
{
    *c = (struct conn){.hello_seen = false};
    epoll_watch_init(&c->watch, -1, on_conn_ready);
    strbuf_init(&c->in, CONN_IN_MAX);
    strbuf_init(&c->out, CONN_OUT_MAX);
    strbuf_init(&c->spawn, PROTO_SPAWN_MAX);
}

void conn_drop(struct runner *r)
{
    struct conn *c = &r->conn;
    epoll_watch_close(&r->loop, &c->watch);
    strbuf_done(&c->in);
    strbuf_done(&c->out);
    strbuf_done(&c->spawn);
    conn_init(c);
    /* The buffers are empty from here on, so that what the calls below queue cannot reach the next
     * peer by accident: each part of the runner begins anew with its own state when that peer has
     * said HELLO. */
    runner_set_orphan(r, true);
    exec_on_disconnect(r);
    gateway_on_disconnect(&r->gateway);
    ports_on_disconnect(&r->ports);
}

void conn_queued(struct conn *c, int result)
{
    if (result < 0)
        c->broken = true;
    c->urgent = true;
    c->greeting = false;
}

/* Returns false when the peer takes no more for now. */
static bool conn_write(struct conn *c)
{
    while (c->out_sent < c->out.len) {
        ssize_t n = send(c->watch.fd, c->out.data + c->out_sent, c->out.len - c->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            c->broken |= errno != EAGAIN;
            c->clogged = true;
            return false;
        }
        c->out_sent += (size_t)n;
    }
    c->clogged = false;
    c->out_sent = 0;
    /* One large burst would otherwise hold its buffer for the life of the sandbox, and the
     * sandbox's memory limit counts it. */
    if (c->out.alloc > CONN_BUFFER_KEEP && c->out.len < CONN_BUFFER_KEEP / 4)
        strbuf_done(&c->out);
    else
        strbuf_reset(&c->out);
    c->urgent = c->greeting = false;
    return true;
}

int conn_send_socket(struct conn *c, const void *frame, size_t len, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)frame, len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    /* What was queued before must leave first, or this frame would land in the middle of another
     * one. */
    if (!conn_ready(c) || c->clogged || c->broken || (c->out.len && !conn_write(c)))
        return -EAGAIN;
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    *head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
    /* The kernel passes the descriptor with the first byte. Where less than the frame was taken,
     * the rest follows as plain bytes. */
    ssize_t n = sendmsg(c->watch.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    if ((size_t)n < len)
        conn_queued(c, strbuf_append(&c->out, (const char *)frame + n, len - (size_t)n));
    return 0;
}

/* The frames of one sendmsg(): each a head and one or two stretches of the ring. */
struct batch {
    uint8_t heads[CONN_BATCH][MSG_OUTPUT_HEAD];
    struct iovec iov[2 * CONN_BATCH];
    size_t bytes[CONN_BATCH]; /* of the stream, per frame */
    size_t n;
};

static void batch_fill(struct batch *b, uint32_t stream, uint8_t which, const struct ring *ring,
                       uint64_t from)
{
    for (b->n = 0; b->n < CONN_BATCH && from < ring->end; b->n++) {
        const char *data;
        size_t len = ring_peek(ring, from, CONN_OUTPUT_MAX, &data);
        struct msg_output m = {.which = which, .offset = from, .len = len};
        msg_output_head(b->heads[b->n], stream, &m);
        b->iov[2 * b->n] = (struct iovec){b->heads[b->n], MSG_OUTPUT_HEAD};
        b->iov[2 * b->n + 1] = (struct iovec){(char *)(uintptr_t)data, len};
        b->bytes[b->n] = len;
        from += len;
    }
}

/* What was sent counts by whole frames: the rest of one that was sent in part is queued. */
static size_t batch_settle(const struct batch *b, struct conn *c, size_t sent)
{
    size_t taken = 0;
    for (size_t i = 0; i < b->n && sent; i++) {
        const struct iovec *head = &b->iov[2 * i], *body = head + 1;
        size_t whole = head->iov_len + body->iov_len;
        taken += b->bytes[i];
        if (sent >= whole) {
            sent -= whole;
            continue;
        }
        size_t in_head = sent < head->iov_len ? sent : head->iov_len, in_body = sent - in_head;
        int r = strbuf_append(&c->out, b->heads[i] + in_head, head->iov_len - in_head);
        if (r >= 0)
            r = strbuf_append(&c->out, (char *)body->iov_base + in_body, body->iov_len - in_body);
        conn_queued(c, r);
        c->clogged = true;
        break;
    }
    return taken;
}

size_t conn_send_output(struct conn *c, uint32_t stream, uint8_t which, const struct ring *ring,
                        uint64_t from)
{
    /* Static, because it is several kilobytes and there is one thread. Nothing of it is used after
     * this call has returned. */
    static struct batch b;
    if (!conn_ready(c) || c->clogged || c->broken || (c->out.len && !conn_write(c)))
        return 0;
    /* Only a connection that carries output gets a larger buffer: most commands print less than the
     * default holds, and the buffer is kernel memory of the sandbox. */
    if (!c->widened) { /* not allowed is fine */
        int size = PROTO_WINDOW;
        setsockopt(c->watch.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        c->widened = true;
    }
    batch_fill(&b, stream, which, ring, from);
    struct msghdr msg = {.msg_iov = b.iov, .msg_iovlen = 2 * b.n};
    ssize_t n;
    do
        n = sendmsg(c->watch.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        c->clogged = true;
        c->broken |= errno != EAGAIN;
        return 0;
    }
    return batch_settle(&b, c, (size_t)n);
}

static void conn_update_watch(struct runner *r)
{
    struct conn *c = &r->conn;
    size_t waiting = c->out.len - c->out_sent;
    /* A peer that sends requests and does not read the answers is not read from either, so that our
     * queue stays bounded. */
    uint32_t events = waiting < CONN_OUT_HIGH ? EPOLLIN : 0;
    if (waiting && c->urgent)
        events |= EPOLLOUT;
    epoll_watch_set(&r->loop, &c->watch, events);
}

static int conn_take_frames(struct runner *r, const char **ret_why);

/* The peer is dead or replaced: what it sent before, and has reported as sent, still counts.
 */
static void conn_take_rest(struct runner *r)
{
    struct conn *c = &r->conn;
    const char *why;
    for (size_t taken = 0; c->watch.fd >= 0 && c->hello_seen && taken < CONN_REST_MAX;) {
        char buffer[4096];
        ssize_t n = recv(c->watch.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || strbuf_append(&c->in, buffer, (size_t)n) < 0 || conn_take_frames(r, &why) < 0)
            return;
        taken += (size_t)n;
    }
}

void conn_pump(struct runner *r)
{
    struct conn *c = &r->conn;
    if (c->watch.fd < 0)
        return;
    bool more = true, open = true;
    /* Each of the three may queue more than one write takes. They take turns until none has more or
     * the peer is full, so that no kind of stream starves the others. */
    while (more && open && !c->broken) {
        bool execs = conn_ready(c) && exec_pump(r);
        bool tunnels = conn_ready(c) && gateway_pump(&r->gateway);
        bool links = conn_ready(c) && ports_pump(&r->ports);
        more = execs || tunnels || links;
        open = !c->urgent || conn_write(c);
    }
    if (c->broken) {
        /* Before the connection is dropped: the peer's last frames may be in the socket still, and
         * it will not send them again. */
        conn_take_rest(r);
        conn_drop(r);
        /* A runner that dials may have its next connection after this, and may have read HELLO from
         * it already. The peer says nothing more before it is answered, so the answer must not wait
         * for a word of the peer's: the watch below waits for room, which there is. */
        runner_on_disconnect(r);
    } else if (c->out_sent > CONN_OUT_LOW) {
        strbuf_consume(&c->out, c->out_sent);
        c->out_sent = 0;
    }
    conn_update_watch(r);
}

/* GOODBYE with the reason, then drop. */
static void conn_fail(struct runner *r, const char *why)
{
    struct conn *c = &r->conn;
    log_warn("connection ended reason=\"%s\"", why);
    /* Sent once and without waiting: it is for the peer's log, and a peer that breaks the protocol
     * may not read at all. */
    frame_append(&c->out, MSG_GOODBYE, 0, why, strlen(why));
    conn_write(c);
    conn_drop(r);
    runner_on_disconnect(r);
}

static int conn_take_preface(struct conn *c, size_t *used)
{
    size_t have = c->in.len < FRAME_PREFACE_SIZE ? c->in.len : FRAME_PREFACE_SIZE;
    if (memcmp(c->in.data, FRAME_PREFACE, have))
        return -EPROTO;
    if (have < FRAME_PREFACE_SIZE)
        return 0;
    c->preface_seen = true;
    *used = FRAME_PREFACE_SIZE;
    return 1;
}

/* Handles all whole frames in the buffer. -EPROTO ends the connection. */
static int conn_take_frames(struct runner *r, const char **ret_why)
{
    struct conn *c = &r->conn;
    size_t used = 0;
    int n = 1;
    if (!c->preface_seen) {
        *ret_why = "not the runner protocol";
        n = conn_take_preface(c, &used);
        if (n <= 0)
            return n;
    }
    for (;;) {
        struct frame f;
        *ret_why = "malformed frame";
        n = frame_parse((const uint8_t *)c->in.data + used, c->in.len - used, &f);
        if (n <= 0)
            break;
        used += (size_t)n;
        n = dispatch_frame(r, &f, ret_why);
        if (n < 0)
            break;
    }
    if (n < 0)
        return n;
    if (used == c->in.len && c->in.alloc > CONN_BUFFER_KEEP)
        strbuf_done(&c->in);
    else
        strbuf_consume(&c->in, used);
    return 0;
}

static void conn_parse(struct runner *r)
{
    const char *why = "";
    if (conn_take_frames(r, &why) < 0)
        conn_fail(r, why);
}

static void on_conn_ready(struct epoll_watch *w, uint32_t ready)
{
    struct runner *r = container_of(w, struct runner, conn.watch);
    struct conn *c = &r->conn;
    /* EPOLLHUP and EPOLLERR come whether they were asked for or not. While reading is off because
     * our queue is full, they alone end the connection; else the read below finds the bytes that
     * came before the end. */
    if (!(ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) || !(w->events & EPOLLIN)) {
        if (ready & (EPOLLHUP | EPOLLERR))
            c->broken = true;
        return;
    }
    size_t room = c->in.max - c->in.len;
    size_t want = room < CONN_READ_SIZE ? room : CONN_READ_SIZE;
    /* Most reads are one small frame: a buffer is grown only when the last read filled it. */
    size_t spare = c->in.alloc > c->in.len + 1 ? c->in.alloc - c->in.len - 1 : 0;
    if (spare < 1024) {
        strbuf_reserve(&c->in, spare || c->in.len ? want : 4095);
        spare = c->in.alloc - c->in.len - 1;
    }
    ssize_t n = recv(w->fd, c->in.data + c->in.len, spare < want ? spare : want, MSG_DONTWAIT);
    if (n > 0) {
        strbuf_commit(&c->in, (size_t)n);
        conn_parse(r);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        c->broken = true;
    }
}

void conn_adopt(struct runner *r, int fd, const void *data, size_t len)
{
    conn_take_rest(r);
    conn_drop(r);
    struct conn *c = &r->conn;
    epoll_watch_init(&c->watch, fd, on_conn_ready);
    /* With data, newcomer.c has read the peer's HELLO already, and has sent our preface. */
    if (!len)
        strbuf_append(&c->out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    c->urgent = true;
    epoll_watch_set(&r->loop, &c->watch, EPOLLIN);
    if (!len) { /* nothing is appended, either: a buffer that is there is taken for a full one */
        on_conn_ready(&c->watch, EPOLLIN);
        return;
    }
    strbuf_append(&c->in, data, len);
    conn_parse(r);
}
