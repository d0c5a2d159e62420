/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of execs: pipes or a terminal on one side, frames on the other.
 *
 * Output is read into a ring as large as the window and stays there until acknowledged; a full ring
 * stops the reading, so a command whose reader is slow waits in write() like in any pipeline. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/output-stream.h"
#include "toolrunner/events.h"
#include "toolrunner/exec.h"
#include "toolrunner/runner.h"

#define SINK_BUFFER   65536
#define TERMINAL_EOF  "\004" /* VEOF of a fresh terminal */
#define READS_A_ROUND 4      /* then other execs get a turn */
#define WIDE_AFTER    (256 * 1024)
#define PIPE_BYTES    (512 * 1024)

/* Without a connection nothing is marked: exec_resume() marks every exec on the next one. */
void exec_mark_pending(struct exec *e)
{
    if (conn_ready(&e->runner->conn) && list_empty(&e->pending) && !e->forgotten)
        list_append(&e->runner->pending, &e->pending);
}

enum read_end { READ_SOME, READ_EMPTY, READ_FULL, READ_EOF };

/* One read. A terminal whose other side is closed reads as EIO. */
static enum read_end output_read_once(struct exec_output *o)
{
    ssize_t n = ring_read_fd(&o->ring, o->watch.fd);
    if (n > 0)
        return READ_SOME;
    return n == -EAGAIN ? READ_EMPTY : n == -ENOBUFS ? READ_FULL : READ_EOF;
}

/* A pipe that carries much is made wider, so that fewer switches carry it. Not allowed is fine. */
static void output_widen(struct exec_output *o)
{
    if (o->widened || o->ring.end < WIDE_AFTER)
        return;
    o->widened = true;
    (void)fcntl(o->watch.fd, F_SETPIPE_SZ, PIPE_BYTES);
}

/* A terminal is hung up when its session's first process ends, so that there is an end to read; but
 * not by gVisor's kernel, where what is empty then has ended, too. */
static bool output_has_ended(const struct exec_output *o, enum read_end end)
{
    const struct exec *e = o->exec;
    return end == READ_EOF ||
           (end == READ_EMPTY && e->state == EXEC_DRAINING && e->flags & SPAWN_PTY);
}

static enum read_end output_read(struct exec_output *o, int rounds)
{
    struct epoll_loop *l = &o->exec->runner->loop;
    enum read_end end = READ_SOME;
    output_widen(o);
    while (end == READ_SOME && rounds--)
        end = output_read_once(o);
    /* Before the end is looked at: with files, NAME.exit may appear only when all output is in
     * them. */
    events_write(o->exec);
    if (output_has_ended(o, end))
        epoll_watch_close(l, &o->watch);
    else if (end == READ_FULL)
        epoll_watch_set(l, &o->watch, 0);
    return end;
}

/* Its exit waits for room in the ring, which the peer may be keeping from it on purpose. */
void exec_io_tell_draining(struct exec *e)
{
    struct conn *c = &e->runner->conn;
    bool full = !ring_free(&e->out[0].ring) || !ring_free(&e->out[1].ring);
    if (e->state != EXEC_DRAINING || !full || e->told_draining || !conn_ready(c))
        return;
    conn_queued(c, frame_append(&c->out, MSG_DRAINING, e->stream, NULL, 0));
    e->told_draining = true;
}

/* A command that prints has certainly started, so STARTED is sent before its first output; the
 * control plane refuses output of an exec that it has not heard of. */
static void on_output_ready(struct epoll_watch *w, uint32_t ready)
{
    struct exec_output *o = container_of(w, struct exec_output, watch);
    (void)ready;
    exec_check_started(o->exec);
    output_read(o, READS_A_ROUND);
    exec_mark_pending(o->exec);
    exec_check_drained(o->exec);
    exec_io_tell_draining(o->exec);
}

void exec_io_watch(struct exec *e)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        if (ring_free(&e->out[i].ring))
            epoll_watch_set(&e->runner->loop, &e->out[i].watch, EPOLLIN);
    }
}

/* At the exit: reads what is there, and notes up to which offset the command itself can have
 * written (`owed`). Bytes behind that are of background processes and are not waited for. */
void exec_io_drain(struct exec *e)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        struct exec_output *o = &e->out[i];
        int left = 0;
        if (o->watch.fd < 0)
            continue;
        /* A background process may write as fast as we read: bounded by what one ring can hold. */
        enum read_end end = output_read(o, PROTO_WINDOW / 4096);
        if (end == READ_SOME || end == READ_FULL)
            ioctl(o->watch.fd, FIONREAD, &left);
        o->owed = o->ring.end + (left > 0 ? (uint64_t)left : 0);
    }
    exec_mark_pending(e);
}

bool exec_io_settled(const struct exec *e, bool *ret_all_ended)
{
    bool settled = true;
    *ret_all_ended = true;
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        bool ended = e->out[i].watch.fd < 0;
        *ret_all_ended &= ended;
        settled &= ended || e->out[i].ring.end >= e->out[i].owed;
    }
    return settled;
}

/* Pipes of an exec that has ended are read to nothing rather than closed: a background process that
 * still writes would die of SIGPIPE, although a shell would have let it live. */
struct sink {
    struct runner *runner;
    struct list link;
    struct epoll_watch watch;
};

static void sink_free(struct sink *s)
{
    epoll_watch_close(&s->runner->loop, &s->watch);
    list_remove(&s->link);
    s->runner->n_sinks--;
    free(s);
}

static void on_sink_ready(struct epoll_watch *w, uint32_t ready)
{
    static char scrap[SINK_BUFFER];
    (void)ready;
    ssize_t n = read(w->fd, scrap, sizeof(scrap));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        sink_free(container_of(w, struct sink, watch));
}

static void sink_new(struct runner *r, int fd)
{
    if (r->n_sinks >= EXEC_SINKS_MAX) /* descriptors are limited: the oldest one gives way */
        sink_free(container_of(r->sinks.next, struct sink, link));
    struct sink *s = new0(struct sink);
    s->runner = r;
    list_append(&r->sinks, &s->link);
    r->n_sinks++;
    epoll_watch_init(&s->watch, fd, on_sink_ready);
    epoll_watch_set(&r->loop, &s->watch, EPOLLIN);
}

void exec_io_sink(struct exec *e)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        struct exec_output *o = &e->out[i];
        epoll_watch_set(&e->runner->loop, &o->watch, 0);
        if (o->watch.fd >= 0)
            sink_new(e->runner, fd_steal(&o->watch.fd));
    }
}

void exec_free_sinks(struct runner *r)
{
    list_for_each_safe(s, &r->sinks, struct sink, link)
        sink_free(s);
}

/* Acknowledged bytes are in the control plane's journal. Only then may the ring let go of them,
 * because a new control plane asks for everything behind its journal's end. */
int exec_ack(struct exec *e, const struct msg_ack *m)
{
    struct exec_output *o = &e->out[output_index(m->which)];
    /* The control plane has its word for what was filed from a container that is not trusted. */
    uint64_t offset = e->events && m->offset > o->ring.end ? o->ring.end : m->offset;
    if (offset > o->ring.end)
        return -EPROTO;
    if (offset > o->ring.start)
        ring_discard(&o->ring, offset);
    events_release(o);
    if (o->sent < o->ring.start)
        o->sent = o->ring.start;
    o->hold = false;
    if (o->watch.fd >= 0 && !o->watch.events && !epoll_timer_is_set(&e->young))
        epoll_watch_set(&e->runner->loop, &o->watch, EPOLLIN);
    exec_mark_pending(e);
    return 0;
}

/* Sends at most a chunk, so that one loud exec does not delay the others. A single one with much to
 * send writes from the ring to the socket, without a copy. True when there is more to send. */
static bool output_send(struct exec_output *o)
{
    struct conn *c = &o->exec->runner->conn;
    size_t budget = EXEC_CHUNK;
    /* Writing from the ring fills the socket in one go. That is right when no other exec waits for
     * a turn, and unfair when one does. */
    bool alone = list_empty(&o->exec->runner->pending);
    if (alone && !o->hold && o->ring.end - o->sent >= EXEC_DIRECT_MIN) {
        size_t n = conn_send_output(c, o->exec->stream, o->which, &o->ring, o->sent);
        o->sent += n;
        budget = n ? 0 : budget;
    }
    while (!o->hold && budget && o->sent < o->ring.end) {
        const char *data;
        size_t n = ring_peek(&o->ring, o->sent, budget, &data);
        conn_send(c, output, o->exec->stream, .which = o->which, .offset = o->sent,
                  .data = (const uint8_t *)data, .len = n);
        o->sent += n;
        budget -= n;
    }
    return !o->hold && o->sent < o->ring.end;
}

/* EXIT is the last message of an exec: the control plane compares its offsets with what it
 * received, and takes a difference for lost output. */
static bool exec_send(struct exec *e)
{
    bool more_out = !e->events && output_send(&e->out[0]);
    bool more_err = !e->events && output_send(&e->out[1]);
    bool more = more_out || more_err;
    bool held = e->events ? !events_are_filed(e) : e->out[0].hold || e->out[1].hold;
    if (!more && !held && e->state == EXEC_DONE && !e->exit_sent) {
        conn_queued(&e->runner->conn, msg_exit_format(&e->runner->conn.out, e->stream, &e->exit));
        e->exit_sent = true;
    }
    return more;
}

/* In turns: an exec with more to send goes to the end of the list. The buffer of the connection is
 * bounded, so one that is full ends the round, and the next one begins where it ended. */
bool exec_pump(struct runner *r)
{
    while (!list_empty(&r->pending) && conn_has_room(&r->conn)) {
        struct exec *e = container_of(r->pending.next, struct exec, pending);
        list_remove(&e->pending);
        if (exec_send(e))
            list_append(&r->pending, &e->pending);
    }
    return !list_empty(&r->pending);
}

static void input_send_ack(struct exec *e)
{
    struct exec_input *in = &e->in;
    conn_send(&e->runner->conn, stdin_ack, e->stream, .offset = in->ring.start,
              .closed = in->watch.fd < 0);
    in->acked = in->ring.start;
}

void exec_io_close_input(struct exec *e)
{
    epoll_watch_close(&e->runner->loop, &e->in.watch);
    ring_done(&e->in.ring);
}

/* Writes what the pipe takes; closes it at the end of the stream, or when the command has closed
 * its end. */
static void input_write(struct exec *e)
{
    struct exec_input *in = &e->in;
    ssize_t n = 1;
    while (in->watch.fd >= 0 && n > 0 && ring_used(&in->ring))
        n = ring_write_fd(&in->ring, in->watch.fd);
    /* A terminal has no end that could be closed: its reader sees one when VEOF is typed. */
    bool at_end = in->close_asked && in->close_at == in->ring.start;
    if (at_end && e->flags & SPAWN_PTY && in->watch.fd >= 0)
        n = write(in->watch.fd, TERMINAL_EOF, 1) < 0 ? -errno : 1;
    if (at_end || (n < 0 && n != -EAGAIN))
        exec_io_close_input(e);
    epoll_watch_set(&e->runner->loop, &in->watch, ring_used(&in->ring) ? EPOLLOUT : 0);
    if (in->watch.fd < 0 || !ring_used(&in->ring) ||
        in->ring.start - in->acked >= EXEC_STDIN_ACK_EVERY)
        input_send_ack(e);
}

static void on_input_ready(struct epoll_watch *w, uint32_t ready)
{
    (void)ready;
    input_write(container_of(w, struct exec, in.watch));
}

/* Input carries its offset, so that bytes which a restarted control plane sends again are written
 * to the command once. With the pipe closed the bytes are counted and dropped: the acknowledgement
 * lets the sender end. */
int exec_stdin(struct exec *e, const struct msg_stdin *m)
{
    struct exec_input *in = &e->in;
    if (m->offset > in->ring.end || (in->close_asked && m->offset + m->len > in->close_at))
        return -EPROTO;
    /* What was received before, by this runner or by an earlier connection, is skipped and not
     * refused: the sender cannot know how much arrived. */
    uint64_t known = in->ring.end - m->offset;
    if (known < m->len && in->watch.fd < 0)
        in->ring.start = in->ring.end = m->offset + m->len;
    else if (known < m->len && ring_put(&in->ring, m->data + known, m->len - known) < 0)
        return -EPROTO;
    input_write(e);
    return 0;
}

int exec_stdin_close(struct exec *e, const struct msg_stdin_close *m)
{
    struct exec_input *in = &e->in;
    if (m->offset < in->ring.end || (in->close_asked && m->offset != in->close_at))
        return -EPROTO;
    in->close_asked = true;
    in->close_at = m->offset;
    input_write(e);
    return 0;
}

void exec_io_init(struct exec *e, const int out_fds[OUTPUT_STREAMS], int in_fd)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        e->out[i].exec = e;
        e->out[i].which = (uint8_t)(OUTPUT_STDOUT + i);
        epoll_watch_init(&e->out[i].watch, out_fds[i], on_output_ready);
    }
    epoll_watch_init(&e->in.watch, in_fd, on_input_ready);
}

void exec_io_done(struct exec *e)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        epoll_watch_close(&e->runner->loop, &e->out[i].watch);
        ring_done(&e->out[i].ring);
    }
    exec_io_close_input(e);
}
