/* SPDX-License-Identifier: Apache-2.0 */
/* The exec table and the life of an exec, on the runner's side.
 *
 * RUNNING until wait() has its status, DRAINING while its output is read to the end, DONE when EXIT
 * can be sent; then it is kept until the control plane says FORGET, because a control plane that
 * dies in between asks again. So the exit status of a command exists in this process from wait() on
 * and nowhere else until it has been acknowledged. */
#include "toolrunner/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/output-stream.h"
#include "toolrunner/descendants.h"
#include "toolrunner/events.h"
#include "toolrunner/oom-count.h"
#include "toolrunner/pty.h"
#include "toolrunner/runner.h"

struct exec *exec_find(struct runner *r, uint32_t stream)
{
    list_for_each(e, &r->execs, struct exec, link) {
        if (e->stream == stream && !e->forgotten)
            return e;
    }
    return NULL;
}

struct exec *exec_find_request(struct runner *r, uint64_t request_id)
{
    list_for_each(e, &r->execs, struct exec, link) {
        if (e->request_id == request_id && !e->forgotten)
            return e;
    }
    return NULL;
}

uint32_t exec_count_known(const struct runner *r)
{
    uint32_t n = 0;
    list_for_each(e, &r->execs, const struct exec, link)
        n += !e->forgotten;
    return n;
}

void exec_free(struct exec *e)
{
    gateway_close_own(&e->runner->gateway, e->stream);
    list_remove(&e->link);
    list_remove(&e->pending);
    epoll_timer_clear(&e->young);
    epoll_timer_clear(&e->timeout);
    epoll_timer_clear(&e->kill);
    epoll_timer_clear(&e->drain);
    epoll_timer_clear(&e->resume);
    events_done(e);
    start_forget(&e->start);
    exec_io_done(e);
    if (--e->runner->n_execs == 0)
        start_trim(); /* memory goes back only when no exec is left: a command may follow at once */
    free(e->tag);
    free(e);
}

void exec_free_all(struct runner *r)
{
    list_for_each_safe(e, &r->execs, struct exec, link)
        exec_free(e);
}

/* The group's id stays taken while a process is in it, so this reaches no other process; once it is
 * empty the number could at worst come back as another group of this same sandbox. */
static void exec_kill_group(struct exec *e, int signo)
{
    if (!exec_wait_started(e)) /* it hangs, and may not lead a group yet */
        kill(e->pid, signo);
    kill(-e->pid, signo);
}

/* The end. Processes that left the group are found by the mark that each child of the exec carries.
 * A traced process stays a zombie of its tracer, so wait() would never return it to us: the tracers
 * are killed, too, and again until the command is seen dead: another one may have attached
 * meanwhile. */
static void exec_kill_all(struct exec *e)
{
    exec_kill_group(e, SIGKILL);
    descendants_kill_marked(e->stream);
    if (e->state != EXEC_RUNNING)
        return;
    descendants_kill_tracers(e->pid);
    epoll_timer_set_us(&e->runner->loop, &e->kill, EXEC_KILL_AGAIN_US);
}

/* From here on the exit of the command takes everything with it that it started (`ending`). */
static void exec_terminate(struct exec *e, uint32_t grace_ms)
{
    e->ending = true;
    if (!grace_ms) {
        exec_kill_all(e);
        return;
    }
    exec_kill_group(e, SIGTERM);
    epoll_timer_set_us(&e->runner->loop, &e->kill, (uint64_t)grace_ms * 1000);
}

/* A young exec's pipes are not watched: most commands end before this timer, and their output is
 * then read once, at the exit, without two epoll_ctl() calls per pipe. */
static void on_young_over(struct epoll_timer *t)
{
    struct exec *e = container_of(t, struct exec, young);
    struct runner *r = e->runner;
    r->conn.urgent = true;
    exec_io_watch(e);
    if (!exec_check_started(e)) { /* a slow file system: look again, and ever more seldom */
        uint64_t age_us = (uint64_t)(clock_mono_ns() - e->started_ns) / 1000;
        epoll_timer_set_us(&r->loop, &e->young,
                           age_us < EXEC_START_LOOK_US ? age_us : EXEC_START_LOOK_US);
    }
}

/* The runner keeps the time and not the control plane, so that a limit holds while the control
 * plane is down or being replaced. */
static void on_timeout(struct epoll_timer *t)
{
    struct exec *e = container_of(t, struct exec, timeout);
    e->exit.flags |= EXIT_TIMED_OUT;
    exec_terminate(e, e->kill_grace_ms);
}

static void on_kill_due(struct epoll_timer *t)
{
    exec_kill_all(container_of(t, struct exec, kill));
}

/* A background process has the pipes open. What the command itself wrote is still waited for; what
 * the background process writes from now on is not. */
static void on_drain_over(struct epoll_timer *t)
{
    struct exec *e = container_of(t, struct exec, drain);
    e->drain_over = true;
    exec_check_drained(e);
}

/* A new control plane has not said where to go on: it has no journal of this exec. It gets all that
 * is kept. */
static void on_resume_over(struct epoll_timer *t)
{
    struct exec *e = container_of(t, struct exec, resume);
    e->out[0].hold = e->out[1].hold = false;
    exec_mark_pending(e);
}

struct exec *exec_new(struct runner *r, uint32_t stream, const struct msg_spawn *m)
{
    struct exec *e = new0(struct exec);
    e->runner = r;
    e->stream = stream;
    e->request_id = m->request_id;
    e->tag = xstrdup(m->tag ? m->tag : "");
    e->flags = m->flags;
    e->kill_grace_ms = m->kill_grace_ms;
    e->drain_grace_ms = m->drain_grace_ms;
    list_init(&e->pending);
    epoll_timer_init(&e->young, on_young_over);
    epoll_timer_init(&e->timeout, on_timeout);
    epoll_timer_init(&e->kill, on_kill_due);
    epoll_timer_init(&e->drain, on_drain_over);
    epoll_timer_init(&e->resume, on_resume_over);
    events_init(e);
    exec_io_init(e, (const int[]){-1, -1}, -1);
    list_append(&r->execs, &e->link);
    r->n_execs++;
    return e;
}

/* A control plane that was restarted may send a signal again that arrived already. The ids of the
 * last few are known, so that each signal is delivered once. */
int exec_signal(struct exec *e, const struct msg_signal *m)
{
    if (m->signo < 1 || m->signo > SIGRTMAX)
        return -EPROTO;
    for (unsigned i = 0; i < EXEC_SIGNALS_KNOWN && i < e->n_signals; i++) {
        if (e->signal_ids[i] == m->request_id)
            return 0;
    }
    e->signal_ids[e->n_signals++ % EXEC_SIGNALS_KNOWN] = m->request_id;
    if (e->state == EXEC_DONE)
        return 0;
    if (e->state == EXEC_RUNNING)
        e->exit.flags |= EXIT_SIGNALED;
    if (m->signo == SIGKILL) {
        exec_terminate(e, 0);
    } else if (m->signo == SIGTERM && m->kill_grace_ms) {
        exec_terminate(e, m->kill_grace_ms);
    } else {
        exec_kill_group(e, m->signo);
    }
    return 0;
}

int exec_resize(struct exec *e, const struct msg_resize *m)
{
    if (e->flags & SPAWN_PTY && e->out[0].watch.fd >= 0)
        pty_resize(e->out[0].watch.fd, m->rows, m->cols);
    return 0;
}

void exec_forget(struct exec *e)
{
    if (e->state != EXEC_RUNNING) {
        exec_io_sink(
            e); /* before exec_free() closes the pipes: a background process may still write */
        exec_free(e);
        return;
    }
    /* No request can reach it any more. The record stays until wait() returns its pid, because a
     * pid that was not waited for cannot be given to another process. */
    exec_kill_all(e);
    e->forgotten = true;
    list_remove(&e->pending);
    epoll_timer_clear(&e->young);
    exec_io_done(e);
}

static uint64_t timeval_us(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

/* A shell whose command was killed says so by its own exit. */
static bool was_killed(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 128 + SIGKILL;
}

/* The order matters. What the command itself wrote is in the pipes by now and is read first
 * (exec_io_drain), so that a background process which holds them open cannot keep it back. Most
 * pipes end with that, and exec_check_drained() makes the exec DONE in the same turn. Where a full
 * ring stops the reading, the control plane is asked for room (exec_io_tell_draining). Only what is
 * left of it is watched, for drain_grace_ms. */
void exec_on_exit(struct runner *r, pid_t pid, int status, const struct rusage *usage)
{
    struct exec *e = NULL;
    list_for_each(each, &r->execs, struct exec, link) {
        if (each->pid == pid && each->state == EXEC_RUNNING) {
            e = each;
            break;
        }
    }
    if (!e)
        return;
    if (exec_start_failed(e) || e->forgotten) {
        exec_free(e);
        return;
    }
    e->state = EXEC_DRAINING;
    gateway_close_own(&r->gateway, e->stream);
    e->exit.wait_status = status;
    e->exit.user_us = timeval_us(usage->ru_utime);
    e->exit.system_us = timeval_us(usage->ru_stime);
    e->exit.max_rss_kb = (uint64_t)usage->ru_maxrss;
    e->exit.wall_us = (uint64_t)(clock_mono_ns() - e->started_ns) / 1000;
    if (r->config.channel_path && was_killed(status)) {
        /* The counter is the whole pod's: where two are killed at once, it is charged to the first.
         */
        uint64_t kills = oom_count();
        if (kills > e->runner->oom_kills)
            e->exit.flags |= EXIT_OUT_OF_MEMORY;
        e->runner->oom_kills = kills;
    }
    epoll_timer_clear(&e->timeout);
    epoll_timer_clear(&e->young);
    if (e->ending)
        exec_kill_all(e); /* its children would hold the pipes open after its death */
    exec_io_drain(e);
    exec_check_drained(e);
    exec_io_tell_draining(e);
    if (e->state == EXEC_DRAINING) {
        exec_io_watch(e);
        epoll_timer_set_us(&r->loop, &e->drain, (uint64_t)e->drain_grace_ms * 1000);
    }
}

/* The runner is PID 1 or a subreaper: processes that a command leaves behind become its children.
 * Without a child there is no process left in the sandbox. */
static bool no_process_left(const struct runner *r)
{
    return r->childless ||
           (waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD);
}

/* DRAINING ends when the pipes do, or when the grace is over and all that the command itself wrote
 * was read. */
void exec_check_drained(struct exec *e)
{
    bool all_ended;
    if (e->state != EXEC_DRAINING)
        return;
    bool settled = exec_io_settled(e, &all_ended);
    if (!all_ended && !(settled && e->drain_over))
        return;
    if (!all_ended)
        e->exit.flags |= EXIT_PIPE_HELD;
    else if (no_process_left(e->runner))
        e->exit.flags |= EXIT_ALONE;
    e->state = EXEC_DONE;
    epoll_timer_clear(&e->drain);
    exec_io_sink(e);
    exec_io_close_input(e);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        e->exit.end[i] = e->out[i].ring.end;
    events_write(e);
    exec_mark_pending(e);
}

static void exec_send_state(struct exec *e)
{
    struct conn *c = &e->runner->conn;
    conn_send(c, state, e->stream, .request_id = e->request_id, .pid = (uint32_t)e->pid,
              .started = exec_look_started(e), .exited = e->state == EXEC_DONE,
              .stdin_received = e->in.ring.end,
              .acked = {e->out[0].ring.start, e->out[1].ring.start},
              .end = {e->out[0].ring.end, e->out[1].ring.end}, .tag = e->tag);
}

/* Sends again from where the peer says it is; one that does not say gets all that is kept. */
static void exec_rewind(struct exec *e)
{
    struct conn *c = &e->runner->conn;
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        e->out[i].sent = e->out[i].ring.start;
        e->out[i].hold = ring_used(&e->out[i].ring) > 0;
    }
    e->exit_sent = e->told_draining = false;
    if (e->out[0].hold || e->out[1].hold)
        epoll_timer_set_us(&e->runner->loop, &e->resume, EXEC_RESUME_GRACE_MS * 1000);
    if (e->flags & SPAWN_STDIN || e->flags & SPAWN_PTY)
        conn_send(c, stdin_ack, e->stream, .offset = e->in.ring.start,
                  .closed = e->in.watch.fd < 0);
    exec_mark_pending(e);
}

/* All states come before any output: the control plane learns from them which execs exist, and
 * refuses output of an exec that it does not know. */
void exec_resume(struct runner *r)
{
    list_for_each(e, &r->execs, struct exec, link) {
        if (!e->forgotten)
            exec_send_state(e);
    }
    list_for_each(e, &r->execs, struct exec, link) {
        if (!e->forgotten)
            exec_rewind(e);
    }
}

void exec_on_disconnect(struct runner *r)
{
    while (!list_empty(&r->pending))
        list_remove(r->pending.next);
}

bool exec_any_running(const struct runner *r)
{
    list_for_each(e, &r->execs, const struct exec, link) {
        if (e->state == EXEC_RUNNING)
            return true;
    }
    return false;
}

void exec_signal_all(struct runner *r, int signo)
{
    list_for_each(e, &r->execs, struct exec, link) {
        if (e->state == EXEC_RUNNING)
            exec_kill_group(e, signo);
    }
}
