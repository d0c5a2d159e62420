/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of the runner protocol, for tests: starts the real runner on a
 * socketpair, sends messages, and keeps what came back per exec. Acknowledges output as told. */
#pragma once

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "proto/message.h"

#define PEER_WAIT_MS 30000
#define PEER_EXECS   64
#define PEER_OUT_MAX (64 << 20)
#define PEER_TUNNELS 64

struct peer_exec {
    uint32_t stream;
    struct strbuf out[2];
    bool started, failed, exited, stdin_closed;
    unsigned n_started, n_exit, n_draining;
    uint32_t pid;
    int error;
    char stage[32];
    uint64_t stdin_acked;
    struct msg_exit exit;
    struct msg_state state;
    bool has_state;
};

struct peer_tunnel {
    uint32_t stream;
    struct strbuf in;
    bool closed, held; /* held: what comes is not acknowledged */
    bool reset;        /* CLOSE said so */
    uint64_t acked;
    /* of a connection to a port inside */
    bool answered, ended;
    int error;
};

struct peer {
    pid_t pid;
    int fd, channel;
    struct strbuf in, out;
    bool preface, hello_ok, eof, goodbye, no_acks;
    char goodbye_text[128];
    uint32_t n_states, attempt;
    uint64_t next_request;
    uint32_t next_stream;
    bool gap; /* an OUTPUT did not continue its stream */
    unsigned n_frames, n_reads;
    struct peer_exec execs[PEER_EXECS];
    size_t n_execs;
    struct peer_tunnel tunnels[PEER_TUNNELS];
    size_t n_tunnels;
};

static inline void peer_flush(struct peer *p)
{
    int r = fd_write_all(p->fd, p->out.data, p->out.len);
    if (r < 0)
        p->eof = true;
    strbuf_reset(&p->out);
}

static inline void peer_hello(struct peer *p, uint64_t generation)
{
    strbuf_append(&p->out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_hello_format(&p->out, 0, &(struct msg_hello){PROTO_VERSION, generation, p->attempt});
    peer_flush(p);
}

/* Starts the runner with fd 3 and 4 as its connection and channel. extra: further options. */
static inline void peer_start(struct peer *p, const char *binary, const char *const *extra)
{
    int conn[2], channel[2];
    *p = (struct peer){.next_stream = 1, .next_request = 1};
    strbuf_init(&p->in, 1 << 20);
    strbuf_init(&p->out, 8 << 20);
    signal(SIGPIPE, SIG_IGN);
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, conn));
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel));
    p->pid = fork();
    if (p->pid == 0) {
        const char *argv[32] = {binary, "--fd", "3", "--channel", "4"};
        for (size_t i = 0; extra && extra[i]; i++)
            argv[5 + i] = extra[i];
        int a = fcntl(conn[1], F_DUPFD, 10), b = fcntl(channel[1], F_DUPFD, 10);
        dup2(a, 3);
        dup2(b, 4);
        close_range(5, ~0u, 0);
        execv(binary, (char *const *)argv);
        _exit(127);
    }
    close(conn[1]);
    close(channel[1]);
    p->fd = conn[0];
    p->channel = channel[0];
    peer_hello(p, 1);
}

static inline struct peer_exec *peer_find(struct peer *p, uint32_t stream)
{
    for (size_t i = 0; i < p->n_execs; i++) {
        if (p->execs[i].stream == stream)
            return &p->execs[i];
    }
    assert(p->n_execs < PEER_EXECS);
    struct peer_exec *e = &p->execs[p->n_execs++];
    *e = (struct peer_exec){.stream = stream};
    strbuf_init(&e->out[0], PEER_OUT_MAX);
    strbuf_init(&e->out[1], PEER_OUT_MAX);
    return e;
}

static inline struct peer_tunnel *peer_tunnel(struct peer *p, uint32_t stream)
{
    for (size_t i = 0; i < p->n_tunnels; i++) {
        if (p->tunnels[i].stream == stream)
            return &p->tunnels[i];
    }
    return NULL;
}

static inline void peer_ack(struct peer *p, struct peer_exec *e, uint8_t which)
{
    msg_ack_format(&p->out, e->stream, &(struct msg_ack){which, e->out[which - 1].len});
    peer_flush(p);
}

static inline void peer_on_output(struct peer *p, struct peer_exec *e, const struct msg_output *m)
{
    struct strbuf *b = &e->out[m->which - 1];
    if (m->offset > b->len) {
        p->gap = true;
        return;
    }
    size_t known = b->len - m->offset;
    if (known < m->len)
        strbuf_append(b, m->data + known, m->len - known);
    if (!p->no_acks)
        peer_ack(p, e, m->which);
}

static inline void peer_on_tunnel(struct peer *p, const struct frame *f)
{
    struct peer_tunnel *t = peer_tunnel(p, f->stream);
    struct msg_data d;
    struct msg_data_ack a;
    struct msg_data_end end;
    struct msg_connected c;
    struct msg_close close;
    if (f->type == MSG_OPEN) {
        assert(p->n_tunnels < PEER_TUNNELS);
        t = &p->tunnels[p->n_tunnels++];
        *t = (struct peer_tunnel){.stream = f->stream};
        strbuf_init(&t->in, PEER_OUT_MAX);
    } else if (f->type == MSG_DATA && t && !msg_data_parse(f->payload, f->length, &d)) {
        if (d.offset != t->in.len)
            p->gap = true;
        strbuf_append(&t->in, d.data, d.len);
        if (t->held)
            return;
        msg_data_ack_format(&p->out, t->stream, &(struct msg_data_ack){t->in.len});
        peer_flush(p);
    } else if (f->type == MSG_DATA_ACK && t && !msg_data_ack_parse(f->payload, f->length, &a)) {
        t->acked = a.offset;
    } else if (f->type == MSG_CLOSE && t && !msg_close_parse(f->payload, f->length, &close)) {
        t->closed = true;
        t->reset = close.reset;
    } else if (f->type == MSG_CONNECTED && t && !msg_connected_parse(f->payload, f->length, &c)) {
        t->answered = true;
        t->error = c.error;
    } else if (f->type == MSG_DATA_END && t && !msg_data_end_parse(f->payload, f->length, &end)) {
        t->ended = true;
        p->gap |= end.offset != t->in.len;
    }
}

static inline void peer_on_exec(struct peer *p, const struct frame *f)
{
    struct peer_exec *e = peer_find(p, f->stream);
    struct msg_started s;
    struct msg_spawn_failed x;
    struct msg_output o;
    struct msg_stdin_ack a;
    if (f->type == MSG_STARTED && !msg_started_parse(f->payload, f->length, &s)) {
        e->started = true;
        e->n_started++;
        e->pid = s.pid;
    } else if (f->type == MSG_SPAWN_FAILED && !msg_spawn_failed_parse(f->payload, f->length, &x)) {
        e->failed = true;
        e->error = x.error;
        snprintf(e->stage, sizeof(e->stage), "%s", x.stage);
    } else if (f->type == MSG_OUTPUT && !msg_output_parse(f->payload, f->length, &o)) {
        peer_on_output(p, e, &o);
    } else if (f->type == MSG_EXIT && !msg_exit_parse(f->payload, f->length, &e->exit)) {
        e->exited = true;
        e->n_exit++;
    } else if (f->type == MSG_STDIN_ACK && !msg_stdin_ack_parse(f->payload, f->length, &a)) {
        e->stdin_acked = a.offset;
        e->stdin_closed = a.closed;
    } else if (f->type == MSG_STATE && !msg_state_parse(f->payload, f->length, &e->state)) {
        e->has_state = true;
        p->n_states++;
    } else if (f->type == MSG_DRAINING && f->length == 0) {
        e->n_draining++;
    } else {
        p->gap = true;
    }
}

static inline void peer_on_frame(struct peer *p, const struct frame *f)
{
    p->n_frames++;
    if (f->type == MSG_HELLO_OK) {
        p->hello_ok = true;
    } else if (f->type == MSG_GOODBYE) {
        p->goodbye = true;
        snprintf(p->goodbye_text, sizeof(p->goodbye_text), "%.*s", (int)f->length, f->payload);
    } else if (f->type == MSG_OPEN || f->type == MSG_DATA || f->type == MSG_DATA_ACK ||
               f->type == MSG_CLOSE || f->type == MSG_CONNECTED || f->type == MSG_DATA_END) {
        peer_on_tunnel(p, f);
    } else {
        peer_on_exec(p, f);
    }
}

/* Takes what is there, waiting at most timeout_ms for the first byte. False at the end or timeout.
 */
static inline bool peer_step(struct peer *p, int timeout_ms)
{
    struct pollfd poll_fd = {p->fd, POLLIN, 0};
    if (p->eof || poll(&poll_fd, 1, timeout_ms) <= 0)
        return false;
    strbuf_reserve(&p->in, 131072);
    ssize_t n = read(p->fd, p->in.data + p->in.len, 131072);
    if (n <= 0) {
        p->eof = true;
        return false;
    }
    p->n_reads++;
    strbuf_commit(&p->in, (size_t)n);
    size_t used = 0;
    if (!p->preface && p->in.len >= FRAME_PREFACE_SIZE) {
        p->preface = !memcmp(p->in.data, FRAME_PREFACE, FRAME_PREFACE_SIZE);
        used = FRAME_PREFACE_SIZE;
    }
    struct frame f;
    int r;
    while ((r = frame_parse((uint8_t *)p->in.data + used, p->in.len - used, &f)) > 0) {
        used += (size_t)r;
        peer_on_frame(p, &f);
    }
    strbuf_consume(&p->in, used);
    return r == 0;
}

#define peer_wait(p, condition)                                                                    \
    ({                                                                                             \
        int64_t _end = clock_mono_ms() + PEER_WAIT_MS;                                             \
        while (!(condition) && clock_mono_ms() < _end && !(p)->eof)                                \
            peer_step((p), (int)(_end - clock_mono_ms()));                                         \
        (condition);                                                                               \
    })

/* Lets time pass while serving the connection. */
static inline void peer_idle(struct peer *p, int ms)
{
    int64_t end = clock_mono_ms() + ms;
    for (int64_t left; (left = end - clock_mono_ms()) > 0;)
        peer_step(p, (int)left);
}

static const char *peer_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "HOME=/tmp", NULL};

static inline struct msg_spawn peer_spawn_message(struct peer *p, const char *const *argv)
{
    return (struct msg_spawn){.request_id = p->next_request++,
                              .kill_grace_ms = 500,
                              .drain_grace_ms = 100,
                              .argv = (char **)argv,
                              .env = (char **)peer_env,
                              .cwd = ""};
}

static inline struct peer_exec *peer_spawn(struct peer *p, const struct msg_spawn *m)
{
    uint32_t stream = p->next_stream;
    p->next_stream += 2;
    msg_spawn_format(&p->out, stream, m);
    peer_flush(p);
    return peer_find(p, stream);
}

/* Runs it to its end. */
static inline struct peer_exec *peer_run(struct peer *p, const struct msg_spawn *m)
{
    struct peer_exec *e = peer_spawn(p, m);
    (void)!peer_wait(p, e->exited || e->failed);
    return e;
}

static inline struct peer_exec *peer_run_argv(struct peer *p, const char *const *argv)
{
    struct msg_spawn m = peer_spawn_message(p, argv);
    return peer_run(p, &m);
}

static inline struct peer_exec *peer_shell(struct peer *p, const char *script)
{
    return peer_run_argv(p, (const char *[]){"sh", "-c", script, NULL});
}

static inline void peer_stdin(struct peer *p, struct peer_exec *e, uint64_t offset,
                              const char *data, size_t len)
{
    msg_stdin_format(&p->out, e->stream, &(struct msg_stdin){offset, (const uint8_t *)data, len});
    peer_flush(p);
}

static inline void peer_stdin_close(struct peer *p, struct peer_exec *e, uint64_t offset)
{
    msg_stdin_close_format(&p->out, e->stream, &(struct msg_stdin_close){offset});
    peer_flush(p);
}

/* Sends data as the window allows, then closes. */
static inline void peer_stdin_all(struct peer *p, struct peer_exec *e, const char *data, size_t len)
{
    for (uint64_t at = 0; at < len && !p->eof;) {
        size_t part = len - at < 32768 ? len - at : 32768;
        if (!peer_wait(p, at + part - e->stdin_acked <= PROTO_WINDOW || e->stdin_closed))
            return;
        peer_stdin(p, e, at, data + at, part);
        at += part;
    }
    peer_stdin_close(p, e, len);
}

static inline void peer_signal(struct peer *p, struct peer_exec *e, uint64_t id, int signo,
                               uint32_t grace_ms)
{
    msg_signal_format(&p->out, e->stream, &(struct msg_signal){id, signo, grace_ms});
    peer_flush(p);
}

static inline void peer_forget(struct peer *p, struct peer_exec *e)
{
    frame_append(&p->out, MSG_FORGET, e->stream, NULL, 0);
    peer_flush(p);
}

static inline bool peer_out_is(const struct peer_exec *e, int which, const char *text)
{
    const struct strbuf *b = &e->out[which - 1];
    return b->len == strlen(text) && !memcmp(b->data ? b->data : "", text, b->len);
}

static inline bool peer_exited_with(const struct peer_exec *e, int code)
{
    return e->exited && WIFEXITED(e->exit.wait_status) && WEXITSTATUS(e->exit.wait_status) == code;
}

/* A fresh connection over the channel, on which nothing was said; what is known of execs stays. */
static inline void peer_dial(struct peer *p)
{
    int conn[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, conn));
    assert(fd_send_msg(p->channel, "c", 1, &conn[1], 1) == 1);
    close(conn[1]);
    close(p->fd);
    p->fd = conn[0];
    p->eof = p->preface = p->hello_ok = p->goodbye = false;
    p->n_states = 0;
    strbuf_reset(&p->in);
    strbuf_reset(&p->out);
}

static inline void peer_reconnect(struct peer *p, uint64_t generation)
{
    peer_dial(p);
    peer_hello(p, generation);
}

static inline void peer_drop_tunnels(struct peer *p)
{
    for (size_t i = 0; i < p->n_tunnels; i++)
        strbuf_done(&p->tunnels[i].in);
    p->n_tunnels = 0;
}

/* Ends the runner; its wait status. */
static inline int peer_stop(struct peer *p)
{
    int status = -1;
    close(p->fd);
    close(p->channel);
    waitpid(p->pid, &status, 0);
    for (size_t i = 0; i < p->n_execs; i++) {
        strbuf_done(&p->execs[i].out[0]);
        strbuf_done(&p->execs[i].out[1]);
    }
    peer_drop_tunnels(p);
    strbuf_done(&p->in);
    strbuf_done(&p->out);
    return status;
}
