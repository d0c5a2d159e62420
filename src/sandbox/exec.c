/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exec: what ends it, who hears of that, and what steers it. Only this file writes
 * its status after the one it is made with, or restored with (persist.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fault.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

#define FORGET_BATCH 16          /* FORGETs that wait to ride with another frame */
#define FORGET_BYTES (16 * 1024) /* an exec with more output than this is forgotten at once */

/* --- ending */

/* A waiter may cancel others or delete the sandbox from its callback, so the list is read anew each
 * time. */
static void exec_wake_waiters(struct exec *e)
{
    while (!list_empty(&e->waiters)) {
        struct exec_waiter *w = container_of(e->waiters.next, struct exec_waiter, node);
        list_remove(&w->node);
        w->on_done(w, e);
    }
}

/* The runner may forget an exec once its end outlives us. FORGET is not urgent: it rides with the
 * next frame, or goes when enough have gathered. */
void exec_send_forget(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    struct runner *r = sandbox_runner(sb);
    if (!e->forget_due || !r)
        return;
    e->forget_due = false;
    fault_point("forget.before");
    frame_append(runner_out(r), MSG_FORGET, e->stream, NULL, 0);
    if (++sb->n_unflushed >= FORGET_BATCH || e->received[0] + e->received[1] > FORGET_BYTES)
        sandbox_flush(sb);
    else if (list_empty(&sb->dirty_node))
        list_append(&sb->manager->dirty, &sb->dirty_node);
    fault_point("forget.sent");
}

/* The row is in the database, or could not be written. Only a written row lets the runner forget:
 * until then the runner is one of the two places that have the end, with the file of recent rows,
 * which a full disk may have refused as well. */
static void on_end_written(void *data, const struct error *err)
{
    struct exec *e = data;
    e->row_due = err && err->code != ERROR_TOO_LARGE; /* a full disk may have room again */
    e->sandbox->manager->rows_due |= e->row_due;
    if (!err) {
        exec_drop_kept(e, EXEC_KEPT_END);
        e->end_kept = true;
        exec_send_forget(e);
    }
    exec_unref(e);
}

void exec_retry_rows(struct manager *m)
{
    if (!m->rows_due)
        return;
    m->rows_due = false;
    list_for_each(e, &m->finished, struct exec, phase_node) {
        if (e->row_due)
            persist_exec(exec_ref(e), on_end_written, e);
        e->row_due = false;
    }
}

void exec_restore_row(struct exec *e, unsigned ticket)
{
    e->recent[exec_is_done(e) ? EXEC_KEPT_END : EXEC_KEPT_START] = ticket;
    persist_exec(exec_ref(e), exec_is_done(e) ? on_end_written : exec_on_start_written, e);
}

static bool is_ending(const struct sandbox *sb)
{
    return sb->state == SANDBOX_STOPPING || sb->state == SANDBOX_GONE || sandbox_is_retired(sb);
}

/* An end is in a file before any client learns of it, so that a client that has can ask again after
 * any process was killed. */
static void keep_end(struct exec *e, struct strbuf *row)
{
    if (!persist_wants_exec(e) || list_empty(&e->node) || is_ending(e->sandbox))
        return;
    if (persist_exec_format(e, row) < 0)
        strbuf_reset(row);
    else
        e->recent[EXEC_KEPT_END] =
            recent_append(e->sandbox->manager->recent, e->id, row->data, row->len);
}

/* An exec that is not kept (a one-shot's, a helper's) has no row to wait for: the runner may forget
 * it at once. */
static void settle_end(struct exec *e, const struct strbuf *row)
{
    if (persist_wants_exec(e) && !list_empty(&e->node)) {
        persist_exec_put(e, row, on_end_written, exec_ref(e));
        return;
    }
    e->end_kept = true;
    exec_send_forget(e);
}

void exec_tell(struct exec *e, enum exec_event event)
{
    const struct manager_options *o = &e->sandbox->manager->options;
    if (o->on_exec && *e->call)
        o->on_exec(o->on_exec_data, e, event);
}

/* The order is what makes an end durable before it is visible. The audit hears of it first, the
 * journal gets its last event, the row is appended to the file of recent ends (keep_end), and only
 * then do events, readers and waiters learn of it. The database follows, and FORGET after that: a
 * kill -9 at any of the fault points leaves either a running exec that the runner still knows, or
 * an end that is kept. */
static void exec_finish(struct exec *e)
{
    _cleanup_strbuf_ struct strbuf row = STRBUF_INIT(ROW_MAX);
    struct sandbox *sb = e->sandbox;
    struct manager *m = sb->manager;
    exec_ref(e);
    e->finished_ns = clock_real_ns();
    exec_tell(e, EXEC_EVENT_ENDED);
    fault_point("exit.told");
    e->stdin_open = false;
    list_remove(&e->phase_node);
    list_remove(&e->timed_node);
    m->counts.execs_running--;
    sb->n_running--;
    owner_exec_ended(sb);
    if (e->result.status == EXEC_FAILED)
        m->counts.execs_failed_total++;
    bool journal_ends = e->journal && !journal_ended(e->journal);
    if (journal_ends)
        journal_write_end(e->journal);
    fault_point("exit.journal-ended");
    keep_end(e, &row);
    fault_point("exit.kept");
    exec_announce_end(e);
    if (journal_ends)
        journal_tell_end(e->journal);
    exec_tell_drained(e);
    exec_settle_start(e);
    exec_wake_waiters(e);
    fault_point("exit.before-row");
    sandbox_release(sb);
    bool ending = is_ending(sb);
    if (!ending)
        settle_end(e, &row);
    if (e->hidden || sb->hidden || ending) {
        exec_forget(e);
    } else if (!list_empty(&e->node)) {
        e->forget_at_ms = clock_mono_ms() + (int64_t)m->options.config.retention_ms;
        list_append(&m->finished, &e->phase_node);
        exec_make_room(sb);
    }
    exec_unref(e);
}

void exec_fail(struct exec *e, const char *why)
{
    e->result.status = EXEC_FAILED;
    snprintf(e->result.error, sizeof(e->result.error), "%s", why);
    exec_finish(e);
}

/* Ends every exec of a sandbox that can no longer run any. Each end calls waiters, which may end
 * others or drop references, so the head of the list is read anew each time. */
void exec_fail_all(struct sandbox *sb, enum exec_status status, bool crashed, const char *why)
{
    while (!list_empty(&sb->running)) {
        struct exec *e = container_of(sb->running.next, struct exec, phase_node);
        e->result.status = status;
        e->result.crashed = crashed;
        snprintf(e->result.error, sizeof(e->result.error), "%s%s", crashed ? "sandbox_crash: " : "",
                 why);
        exec_finish(e);
    }
    if (sb->state != SANDBOX_STOPPING)
        return;
    while (!list_empty(&sb->execs))
        exec_forget(container_of(sb->execs.next, struct exec, node));
}

/* Several reasons can hold at once; the first that does is the cause: a command that timed out was
 * also killed by a signal. */
static void describe_end(struct exec *e)
{
    struct exec_result *r = &e->result;
    if (e->exit.flags & EXIT_TIMED_OUT) {
        r->status = EXEC_TIMED_OUT;
        snprintf(r->error, sizeof(r->error), "timed out after %llu ms",
                 (unsigned long long)e->timeout_ms);
    } else if (r->status == EXEC_CANCELING) {
        r->status = EXEC_CANCELED;
        snprintf(r->error, sizeof(r->error), "canceled");
    } else if (e->interrupted && r->signo) {
        r->status = EXEC_FAILED;
        snprintf(r->error, sizeof(r->error),
                 "interrupted: the daemon restarted before all of its input was sent");
    } else if (r->oom_killed) {
        r->status = EXEC_FAILED;
        snprintf(r->error, sizeof(r->error),
                 "out of memory: killed by the kernel at the sandbox's memory limit");
    } else if (r->signo) {
        r->status = EXEC_FAILED;
        snprintf(r->error, sizeof(r->error), "killed by signal %d (SIG%s)", r->signo,
                 sigabbrev_np(r->signo) ? sigabbrev_np(r->signo) : "?");
    } else {
        r->status = EXEC_COMPLETED;
    }
}

/* The counter is the sandbox's, not the command's: where two commands are killed at once, the first
 * answer that shows a higher number is charged to the exec that asked. The sandbox may have died
 * while the answer was under way, and then the exec has ended already. */
static void on_exit_stats(void *data, const struct runtime_stats *stats)
{
    struct exec *e = data;
    struct sandbox *sb = e->sandbox;
    if (stats && stats->oom_kills > sb->oom_kills_seen) {
        sb->oom_kills_seen = stats->oom_kills;
        sb->manager->counts.oom_kills_total++;
        e->result.oom_killed = true;
    }
    if (!exec_is_done(e)) {
        describe_end(e);
        exec_finish(e);
    }
    exec_unref(e);
}

/* --- what the runner says */

void exec_on_started(void *data, uint32_t stream, const struct msg_started *m)
{
    struct exec *e = exec_find_running(data, stream);
    if (!e)
        return;
    exec_drop_spawn(e);
    if (e->started)
        return; /* STARTED came on a connection before this one, too */
    e->started = true;
    e->pid = m->pid;
    exec_tell(e, EXEC_EVENT_STARTED);
    exec_announce_start(e);
    exec_settle_start(e);
}

/* What was in the way: the directory, or the limit with its name. */
static void describe_spawn_failure(const struct exec *e, const char *stage, int error, char *out,
                                   size_t size)
{
    const struct spec *s = &e->sandbox->spec;
    const char *why = strerror(error);
    if (strcmp(stage, "chdir") == 0)
        snprintf(out, size,
                 "cannot run '%.60s': its working directory '%.100s' cannot be entered: %s",
                 e->argv[0],
                 e->cwd            ? e->cwd
                 : spec_workdir(s) ? spec_workdir(s)
                                   : "(default)",
                 why);
    else if (strcmp(stage, "fork") == 0 && error == EAGAIN && s->limits.processes)
        snprintf(out, size,
                 "cannot run '%.60s': the sandbox has all the processes that it may have "
                 "(limits.max_processes is %u)",
                 e->argv[0], s->limits.processes);
    else if (strcmp(stage, "fork") == 0 && error == ENOMEM && s->limits.memory_bytes)
        snprintf(out, size,
                 "cannot run '%.60s': the sandbox has no memory left for a process "
                 "(limits.memory_mb is %llu)",
                 e->argv[0], (unsigned long long)(s->limits.memory_bytes >> 20));
    else if (strcmp(stage, "fork") == 0)
        snprintf(out, size, "cannot run '%.60s': the sandbox cannot start a process: %s",
                 e->argv[0], why);
    else
        snprintf(out, size, "cannot run '%.100s' (%.20s): %s", e->argv[0], stage, why);
}

void exec_on_spawn_failed(void *data, uint32_t stream, const struct msg_spawn_failed *m)
{
    struct sandbox *sb = data;
    struct exec *e = exec_find_running(sb, stream);
    if (!e)
        return;
    struct exec_result *r = &e->result;
    r->status = EXEC_FAILED;
    r->spawn_errno = m->error > 0 ? m->error : EIO;
    r->has_exit_code = true;
    r->exit_code = r->spawn_errno == ENOENT || r->spawn_errno == ENOTDIR ? 127 : 126;
    if (r->spawn_errno == EBADMSG)
        snprintf(r->error, sizeof(r->error),
                 "not run: one of its files has changed since it was approved");
    else
        describe_spawn_failure(e, m->stage, r->spawn_errno, r->error, sizeof(r->error));
    e->forget_due = true;
    exec_finish(e);
}

/* EXIT is the runner's last word about an exec. The runner keeps all of it until FORGET, which goes
 * out only when the end is on record (forget_due, then end_kept). */
void exec_on_exit(void *data, uint32_t stream, const struct msg_exit *m)
{
    struct sandbox *sb = data;
    struct exec *e = exec_find_running(sb, stream);
    if (!e)
        return;
    if (exec_is_streamed(e) && !exec_stream_is_whole(e, m))
        return;
    bool exact = m->end[0] == e->received[0] && m->end[1] == e->received[1];
    if (!exact && exec_is_streamed(e)) {
        e->forget_due = true;
        exec_fail(e, "its stream container brought more output than it wrote");
        return;
    }
    /* An answer with missing output would look complete: the sandbox is given up instead. */
    if (!exact) {
        sandbox_break(sb, "the runner lost output");
        return;
    }
    fault_point("exit.received");
    struct exec_result *r = &e->result;
    e->exit = *m;
    r->usage = (struct exec_usage){m->user_us, m->system_us, m->max_rss_kb, m->wall_us};
    r->pipe_held = m->flags & EXIT_PIPE_HELD;
    r->alone = m->flags & EXIT_ALONE;
    r->has_exit_code = true;
    r->signo = WIFSIGNALED(m->wait_status) ? WTERMSIG(m->wait_status) : 0;
    r->exit_code = r->signo ? 128 + r->signo : WEXITSTATUS(m->wait_status);
    e->forget_due = true;
    /* Only the cgroup knows whether a SIGKILL was the kernel's for want of memory; in a pod, the
     * runner has looked. */
    bool killed =
        r->exit_code == 128 + SIGKILL && !(m->flags & EXIT_TIMED_OUT) && r->status == EXEC_RUNNING;
    if (killed && m->flags & EXIT_OUT_OF_MEMORY) {
        sb->manager->counts.oom_kills_total++;
        r->oom_killed = true;
    } else if (killed) {
        e->awaiting_stats = true;
        exec_ref(e);
        sandbox_stats(sb, on_exit_stats, e);
        return;
    }
    describe_end(e);
    exec_finish(e);
}

/* --- steering */

/* While a connection is lost and may come back (lost_ms), the command runs on: what is asked of it
 * is kept and sent on the next connection. */
static int check_running(const struct exec *e, struct error *err)
{
    if (exec_is_done(e) || (!e->sandbox->runner && !e->sandbox->lost_ms))
        return error_set(err, ERROR_CONFLICT, 0, "exec %s has ended (%s)", e->id,
                         exec_status_name(e->result.status));
    return 0;
}

/* The request id lets the runner drop a signal that comes again over a second connection: a
 * repeated SIGINT would be a second one to the command. */
void exec_send_signal(struct exec *e, int signo, uint32_t kill_grace_ms)
{
    struct msg_signal m = {
        .request_id = e->sandbox->next_request++, .signo = signo, .kill_grace_ms = kill_grace_ms};
    struct runner *r = sandbox_runner(e->sandbox);
    exec_keep_signal(e, &m);
    if (!r)
        return;
    msg_signal_format(runner_out(r), e->stream, &m);
    sandbox_flush(e->sandbox);
}

int exec_signal(struct exec *e, int signo, struct error *err)
{
    int r = check_running(e, err);
    if (r < 0)
        return r;
    exec_send_signal(e, signo, 0);
    return r;
}

int exec_resize(struct exec *e, uint16_t rows, uint16_t cols, struct error *err)
{
    int r = check_running(e, err);
    if (r < 0)
        return r;
    if (!e->pty)
        return error_set(err, ERROR_CONFLICT, 0, "exec %s has no terminal", e->id);
    struct msg_resize m = {.rows = rows, .cols = cols};
    struct runner *runner = sandbox_runner(e->sandbox);
    exec_keep_size(e, &m);
    if (!runner)
        return 0;
    msg_resize_format(runner_out(runner), e->stream, &m);
    sandbox_flush(e->sandbox);
    return 0;
}

/* The status is CANCELING until the exit comes; whether the command obeys SIGTERM or is killed
 * after the grace is the runner's matter. */
int exec_cancel(struct exec *e, struct error *err)
{
    int r = check_running(e, err);
    if (r < 0)
        return r;
    if (e->result.status == EXEC_CANCELING)
        return error_set(err, ERROR_CONFLICT, 0, "exec %s is being canceled already", e->id);
    e->result.status = EXEC_CANCELING;
    uint32_t grace = e->sandbox->manager->options.config.kill_grace_ms;
    exec_send_signal(e, SIGTERM, grace ? grace : 1);
    return 0;
}

void exec_wait(struct exec *e, struct exec_waiter *w)
{
    list_init(&w->node);
    if (exec_is_done(e))
        w->on_done(w, e);
    else
        list_append(&e->waiters, &w->node);
}

void exec_waiter_cancel(struct exec_waiter *w)
{
    if (w->node.next)
        list_remove(&w->node);
}
