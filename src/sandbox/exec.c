#include "sandbox/exec.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "sandbox/environment.h"
#include "sandbox/internal.h"

#define ACK_BYTES    (PROTO_WINDOW / 4) /* output unacknowledged before an ACK goes out */
#define STDIN_CHUNK  (FRAME_PAYLOAD_MAX - 64)
#define FORGET_BATCH 16          /* FORGETs that wait to ride with another frame */
#define FORGET_BYTES (16 * 1024) /* an exec with more output than this is forgotten at once */

static const char *const status_names[] = {"running", "canceling", "completed",
                                           "failed",  "canceled",  "timed_out"};
static_assert(ELEMENTS(status_names) == _EXEC_STATUS_MAX, "a name per status");

/* --- references */

struct exec *exec_ref(struct exec *e)
{
    e->refs++;
    return e;
}

void exec_unref(struct exec *e)
{
    if (!e || --e->refs)
        return;
    journal_free(e->journal);
    strbuf_done(&e->stdin_queue);
    strv_free(e->argv);
    sandbox_unref(e->sandbox);
    free(e);
}

/* Takes a finished exec out of its sandbox's tables; once is enough. */
void exec_forget(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    if (list_empty(&e->node))
        return;
    list_remove(&e->phase_node);
    list_remove(&e->node);
    map_remove(sb->execs_by_id, e->id);
    sb->n_execs--;
    persist_exec_remove(e);
    exec_unref(e);
}

/* --- ending */

static void flush(struct sandbox *sb)
{
    sb->n_unflushed = 0;
    list_remove(&sb->dirty_node);
    runner_flush(sb->runner);
}

static void wake(struct exec *e)
{
    while (!list_empty(&e->waiters)) {
        struct exec_waiter *w = container_of(e->waiters.next, struct exec_waiter, node);
        list_remove(&w->node);
        w->on_done(w, e);
    }
}

static void tell_drained(struct exec *e)
{
    list_for_each(w, &e->drains, struct exec_drain, node) w->on_drain(w);
}

static void make_room(struct sandbox *sb)
{
    if (sb->n_execs <= sb->manager->options.max_execs_per_sandbox)
        return;
    list_for_each(e, &sb->execs, struct exec, node)
    {
        if (!exec_is_done(e))
            continue;
        exec_forget(e);
        return;
    }
}

/* The runner may forget an exec once its end outlives us. FORGET is not urgent: it rides with the
 * next frame, or goes when enough have gathered. */
static void send_forget(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    if (!e->forget_due || !sb->runner)
        return;
    e->forget_due = false;
    fault_point("forget.before");
    frame_append(runner_out(sb->runner), MSG_FORGET, e->stream, NULL, 0);
    if (++sb->n_unflushed >= FORGET_BATCH || e->received[0] + e->received[1] > FORGET_BYTES)
        flush(sb);
    else if (list_empty(&sb->dirty_node))
        list_append(&sb->manager->dirty, &sb->dirty_node);
    fault_point("forget.sent");
}

static void on_end_written(void *data, const struct error *err)
{
    struct exec *e = data;
    if (!err)
        send_forget(e);
    exec_unref(e);
}

static void settle_end(struct exec *e)
{
    if (persist_wants_exec(e) && !list_empty(&e->node))
        persist_exec(exec_ref(e), on_end_written, e);
    else
        send_forget(e);
}

static void finish(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    struct manager *m = sb->manager;
    exec_ref(e);
    e->finished_ns = clock_real_ns();
    e->stdin_open = false;
    list_remove(&e->phase_node);
    m->counts.execs_running--;
    sb->n_running--;
    if (e->result.status == EXEC_FAILED)
        m->counts.execs_failed_total++;
    if (e->journal && !journal_ended(e->journal))
        journal_end(e->journal);
    fault_point("exit.journal-ended");
    tell_drained(e);
    wake(e);
    fault_point("exit.before-row");
    sandbox_release(sb);
    bool ending = sb->state == SANDBOX_STOPPING || sb->state == SANDBOX_GONE;
    if (!ending)
        settle_end(e);
    if (e->hidden || sb->hidden || ending) {
        exec_forget(e);
    } else if (!list_empty(&e->node)) {
        e->forget_at_ms = clock_mono_ms() + (int64_t)m->options.retention_ms;
        list_append(&m->finished, &e->phase_node);
        make_room(sb);
    }
    exec_unref(e);
}

/* Ends every exec of a sandbox that can no longer run any. */
void exec_fail_all(struct sandbox *sb, enum exec_status status, bool crashed, const char *why)
{
    while (!list_empty(&sb->running)) {
        struct exec *e = container_of(sb->running.next, struct exec, phase_node);
        e->result.status = status;
        e->result.crashed = crashed;
        snprintf(e->result.error, sizeof(e->result.error), "%s%s", crashed ? "sandbox_crash: " : "",
                 why);
        finish(e);
    }
    if (sb->state != SANDBOX_STOPPING)
        return;
    while (!list_empty(&sb->execs))
        exec_forget(container_of(sb->execs.next, struct exec, node));
}

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
        finish(e);
    }
    exec_unref(e);
}

/* --- what the runner says */

static struct exec *find_running(struct sandbox *sb, uint32_t stream)
{
    list_for_each(e, &sb->running, struct exec, phase_node)
    {
        if (e->stream == stream && !e->awaiting_stats)
            return e;
    }
    return NULL;
}

static void on_started(void *data, uint32_t stream, const struct msg_started *m)
{
    struct exec *e = find_running(data, stream);
    if (!e)
        return;
    e->started = true;
    e->pid = m->pid;
}

static void on_spawn_failed(void *data, uint32_t stream, const struct msg_spawn_failed *m)
{
    struct sandbox *sb = data;
    struct exec *e = find_running(sb, stream);
    if (!e)
        return;
    struct exec_result *r = &e->result;
    r->status = EXEC_FAILED;
    r->spawn_errno = m->error > 0 ? m->error : EIO;
    r->has_exit_code = true;
    r->exit_code = r->spawn_errno == ENOENT || r->spawn_errno == ENOTDIR ? 127 : 126;
    snprintf(r->error, sizeof(r->error), "cannot run '%.100s' (%.20s): %s", e->argv[0], m->stage,
             strerror(r->spawn_errno));
    e->forget_due = true;
    finish(e);
}

static void acknowledge(struct exec *e, uint8_t which, uint64_t offset)
{
    if (offset < e->acked[which - 1] + ACK_BYTES || !e->sandbox->runner)
        return;
    struct msg_ack ack = {.which = which, .offset = offset};
    e->acked[which - 1] = offset;
    fault_point("ack.before");
    msg_ack_format(runner_out(e->sandbox->runner), e->stream, &ack);
    flush(e->sandbox);
    fault_point("ack.sent");
}

static int on_output(void *data, uint32_t stream, const struct msg_output *m)
{
    struct sandbox *sb = data;
    struct exec *e = find_running(sb, stream);
    struct msg_output fresh;
    if (!e || (m->which != 1 && m->which != 2))
        return -EPROTO;
    uint64_t have = e->received[m->which - 1];
    if (e->restored && m->offset < have) { /* sent again: the journal has it */
        if (m->offset + m->len <= have)
            return 0;
        size_t known = have - m->offset;
        fresh = (struct msg_output){m->which, have, m->data + known, m->len - known};
        m = &fresh;
    }
    if (m->offset != have)
        return -EPROTO;
    if (m->offset + m->len - e->acked[m->which - 1] > PROTO_WINDOW)
        return -EPROTO;
    e->received[m->which - 1] += m->len;
    sb->manager->counts.output_bytes_total += m->len;
    if (e->has_sink) {
        if (e->sink.on_output)
            e->sink.on_output(e->sink.data, m->which, (const char *)m->data, m->len);
        else
            exec_sink_done(e, m->which, m->len);
        return 0;
    }
    fault_point("output.before-append");
    journal_append(e->journal, m->which, (const char *)m->data, m->len);
    fault_point("output.appended");
    if (!journal_blocked(e->journal))
        acknowledge(e, m->which, journal_durable_end(e->journal, m->which));
    return 0;
}

/* The journal was full and is not any more. */
static void on_journal_room(void *data)
{
    struct exec *e = data;
    for (uint8_t s = 1; s <= 2 && !exec_is_done(e); s++)
        acknowledge(e, s, journal_durable_end(e->journal, s));
}

void exec_watch_journal(struct exec *e)
{
    journal_on_room(e->journal, on_journal_room, e);
}

void exec_sink_done(struct exec *e, uint8_t stream, size_t bytes)
{
    e->consumed[stream - 1] += bytes;
    if (!exec_is_done(e))
        acknowledge(e, stream, e->consumed[stream - 1]);
}

void exec_sink_detach(struct exec *e)
{
    e->sink.on_output = NULL;
    for (uint8_t s = 1; s <= 2; s++)
        exec_sink_done(e, s, e->received[s - 1] - e->consumed[s - 1]);
}

/* There is nobody left to hold back; its exit comes after the rest of its output. */
static void on_draining(void *data, uint32_t stream)
{
    struct exec *e = find_running(data, stream);
    if (e && e->journal)
        journal_release(e->journal);
}

static void on_exit_message(void *data, uint32_t stream, const struct msg_exit *m)
{
    struct sandbox *sb = data;
    struct exec *e = find_running(sb, stream);
    if (!e)
        return;
    if (m->end[0] != e->received[0] || m->end[1] != e->received[1]) {
        sandbox_break(sb, "the runner lost output");
        return;
    }
    fault_point("exit.received");
    struct exec_result *r = &e->result;
    e->exit = *m;
    r->usage = (struct exec_usage){m->user_us, m->system_us, m->max_rss_kb, m->wall_us};
    r->pipe_held = m->flags & EXIT_PIPE_HELD;
    r->has_exit_code = true;
    r->signo = WIFSIGNALED(m->wait_status) ? WTERMSIG(m->wait_status) : 0;
    r->exit_code = r->signo ? 128 + r->signo : WEXITSTATUS(m->wait_status);
    e->forget_due = true;
    /* Only the cgroup knows whether a SIGKILL was the kernel's for want of memory. */
    bool killed = r->exit_code == 128 + SIGKILL;
    if (killed && !(m->flags & EXIT_TIMED_OUT) && r->status == EXEC_RUNNING) {
        e->awaiting_stats = true;
        exec_ref(e);
        sandbox_stats(sb, on_exit_stats, e);
        return;
    }
    describe_end(e);
    finish(e);
}

/* --- stdin */

static void pump_stdin(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    if (!sb->runner)
        return;
    uint64_t end = e->stdin_base + e->stdin_queue.len;
    bool sent = false;
    while (e->stdin_sent < end && e->stdin_sent - e->stdin_base < PROTO_WINDOW) {
        uint64_t room = PROTO_WINDOW - (e->stdin_sent - e->stdin_base);
        size_t n = end - e->stdin_sent < STDIN_CHUNK ? end - e->stdin_sent : STDIN_CHUNK;
        n = n < room ? n : room;
        struct msg_stdin m = {.offset = e->stdin_sent,
                              .data = (const uint8_t *)e->stdin_queue.data +
                                      (e->stdin_sent - e->stdin_base),
                              .len = n};
        msg_stdin_format(runner_out(sb->runner), e->stream, &m);
        e->stdin_sent += n;
        sent = true;
    }
    if (e->stdin_close_wanted && !e->stdin_close_sent && e->stdin_sent == end) {
        struct msg_stdin_close m = {.offset = end};
        msg_stdin_close_format(runner_out(sb->runner), e->stream, &m);
        e->stdin_close_sent = true;
        sent = true;
    }
    if (sent)
        flush(sb);
}

static void on_stdin_ack(void *data, uint32_t stream, const struct msg_stdin_ack *m)
{
    struct sandbox *sb = data;
    struct exec *e = find_running(sb, stream);
    if (!e)
        return;
    if (!e->stdin_open)
        return; /* about bytes that were under way when the command stopped reading */
    if (e->restored && m->offset <= e->stdin_base && !m->closed)
        return; /* about what an earlier control plane sent */
    if (m->offset < e->stdin_base || m->offset > e->stdin_sent) {
        sandbox_break(sb, "the runner acknowledged input it was not sent");
        return;
    }
    if (m->closed) {
        e->stdin_open = false;
        e->stdin_base += e->stdin_queue.len;
        e->stdin_sent = e->stdin_base;
        e->stdin_close_sent = true;
        strbuf_done(&e->stdin_queue);
    } else {
        strbuf_consume(&e->stdin_queue, m->offset - e->stdin_base);
        e->stdin_base = m->offset;
        pump_stdin(e);
    }
    if (e->stdin_queue.len == 0)
        tell_drained(e);
}

int exec_write(struct exec *e, const char *data, size_t len, struct error *err)
{
    if (exec_is_done(e) || !e->stdin_open || e->stdin_close_wanted)
        return error_set(err, ERROR_CONFLICT, 0, "the command's stdin is closed");
    if (strbuf_append(&e->stdin_queue, data, len) < 0)
        return error_set(err, ERROR_LIMIT, 0,
                         "the command does not read its stdin "
                         "(max_stdin_queue)");
    pump_stdin(e);
    return 0;
}

int exec_close_stdin(struct exec *e, struct error *err)
{
    if (exec_is_done(e) || !e->stdin_open || e->stdin_close_wanted)
        return error_set(err, ERROR_CONFLICT, 0, "the command's stdin is closed");
    e->stdin_close_wanted = true;
    pump_stdin(e);
    return 0;
}

size_t exec_stdin_queued(const struct exec *e)
{
    return e->stdin_queue.len;
}

void exec_watch_stdin(struct exec *e, struct exec_drain *w)
{
    list_append(&e->drains, &w->node);
}

void exec_unwatch_stdin(struct exec_drain *w)
{
    if (w->node.next)
        list_remove(&w->node);
}

/* --- the other events of the connection */

static void on_open(void *data, uint32_t stream, const struct msg_open *m)
{
    gateway_stream_open(data, stream, m);
}

static int on_data(void *data, uint32_t stream, const struct msg_data *m)
{
    return gateway_stream_data(data, stream, m);
}

static void on_data_ack(void *data, uint32_t stream, const struct msg_data_ack *m)
{
    gateway_stream_ack(data, stream, m);
}

static void on_close(void *data, uint32_t stream)
{
    gateway_stream_close(data, stream);
}

static void on_broken(void *data, const char *why)
{
    sandbox_break(data, why);
}

/* --- taking over from an earlier control plane */

static void send_position(struct exec *e)
{
    for (uint8_t which = 1; which <= 2; which++) {
        struct msg_ack ack = {.which = which, .offset = e->received[which - 1]};
        e->acked[which - 1] = ack.offset;
        msg_ack_format(runner_out(e->sandbox->runner), e->stream, &ack);
    }
}

/* A runner is not trusted: it must not name a command, and with it the output, of another sandbox.
 */
static bool id_is_elsewhere(const struct sandbox *sb, const char *id)
{
    list_for_each(other, &sb->manager->all, struct sandbox, node)
    {
        if (other != sb && map_find(other->execs_by_id, id))
            return true;
    }
    return false;
}

static void send_signal(struct exec *e, int signo, uint32_t kill_grace_ms);

/* Half of its input must not pass for all of it. */
static void resume_stdin(struct exec *e, const struct msg_state *m)
{
    if (!e->stdin_whole || m->exited)
        return;
    if (m->stdin_received < e->stdin_given) {
        e->interrupted = true;
        send_signal(e, SIGKILL, 0);
        return;
    }
    struct msg_stdin_close close = {.offset = e->stdin_given};
    msg_stdin_close_format(runner_out(e->sandbox->runner), e->stream, &close);
    e->stdin_close_sent = true;
}

static void on_state(void *data, uint32_t stream, const struct msg_state *m)
{
    struct sandbox *sb = data;
    struct error err = {0};
    _cleanup_json_ json_t *tag = json_parse_object(m->tag, strlen(m->tag), &err);
    const char *id = tag ? json_string_value(json_object_get(tag, "id")) : NULL;
    struct exec *e = id && sb->restored ? map_find(sb->execs_by_id, id) : NULL;
    if (id && sb->restored && !e && !id_is_elsewhere(sb, id))
        e = exec_restore(sb, tag, NULL, 0, &err);
    if (!e || (exec_is_done(e) && list_empty(&e->node))) {
        frame_append(runner_out(sb->runner), MSG_FORGET, stream, NULL, 0);
        return;
    }
    e->stream = stream;
    e->request_id = m->request_id;
    e->pid = m->pid;
    e->started = true;
    e->resumed = true;
    e->stdin_base = e->stdin_sent = m->stdin_received;
    if (exec_is_done(e)) { /* its end is on record: the runner was not told yet */
        e->forget_due = true;
        send_forget(e);
        return;
    }
    send_position(e);
    resume_stdin(e, m);
}

static struct exec *find_unresumed(struct sandbox *sb)
{
    list_for_each(e, &sb->running, struct exec, phase_node)
    {
        if (e->restored && !e->resumed)
            return e;
    }
    return NULL;
}

/* Commands on record that the runner does not know were never started. */
static void on_resumed(void *data)
{
    struct sandbox *sb = data;
    sb->resumed = true;
    struct exec *e;
    sandbox_ref(sb); /* whoever waits for one of them may delete the sandbox */
    while ((e = find_unresumed(sb))) {
        e->result.status = EXEC_FAILED;
        snprintf(e->result.error, sizeof(e->result.error),
                 "interrupted: the daemon restarted before it was started");
        finish(e);
    }
    if (sb->runner)
        flush(sb);
    sandbox_unref(sb);
}

const struct runner_events exec_runner_events = {
    .on_state = on_state,
    .on_resumed = on_resumed,
    .on_started = on_started,
    .on_spawn_failed = on_spawn_failed,
    .on_output = on_output,
    .on_draining = on_draining,
    .on_exit = on_exit_message,
    .on_stdin_ack = on_stdin_ack,
    .on_open = on_open,
    .on_data = on_data,
    .on_data_ack = on_data_ack,
    .on_close = on_close,
    .on_broken = on_broken,
};

/* --- starting */

struct exec *exec_alloc(struct sandbox *sb)
{
    struct exec *e = new0(struct exec);
    e->sandbox = sandbox_ref(sb);
    e->refs = 1; /* the sandbox's tables */
    list_init(&e->waiters);
    list_init(&e->drains);
    list_init(&e->node);
    list_init(&e->phase_node);
    strbuf_init(&e->stdin_queue, sb->manager->options.max_stdin_queue);
    return e;
}

/* Running ones keep their sandbox busy, finished ones wait for their retention. */
void exec_enter_tables(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    struct manager *m = sb->manager;
    list_append(&sb->execs, &e->node);
    map_put(sb->execs_by_id, e->id, e);
    sb->n_execs++;
    if (e->started_ns > sb->last_exec_ns)
        sb->last_exec_ns = e->started_ns;
    if (exec_is_done(e)) {
        int64_t age_ms = (clock_real_ns() - e->finished_ns) / 1000000;
        int64_t left_ms = (int64_t)m->options.retention_ms - (age_ms > 0 ? age_ms : 0);
        e->forget_at_ms = clock_mono_ms() + left_ms;
        list_append(&m->finished, &e->phase_node);
        return;
    }
    list_append(&sb->running, &e->phase_node);
    m->counts.execs_running++;
    sb->n_running++;
    sandbox_hold(sb);
}

static struct exec *exec_new(struct sandbox *sb, const struct exec_spec *spec)
{
    const struct manager_options *o = &sb->manager->options;
    struct exec *e = exec_alloc(sb);
    memcpy(e->id, "ex-", 3);
    random_id(e->id + 3, 16);
    e->stream = sb->next_stream;
    sb->next_stream += 2;
    e->request_id = sb->next_request++;
    e->hidden = spec->hidden;
    e->pty = spec->pty;
    e->argv = strv_copy(spec->argv);
    e->timeout_ms = spec->timeout_ms;
    e->started_ns = clock_real_ns();
    e->stdin_open = spec->open_stdin || spec->stdin_len || spec->pty;
    e->stdin_close_wanted = e->stdin_open && !spec->open_stdin && !spec->pty;
    e->stdin_whole = e->stdin_close_wanted;
    e->stdin_given = spec->stdin_len;
    size_t queue = o->max_stdin_queue > spec->stdin_len ? o->max_stdin_queue : spec->stdin_len;
    strbuf_init(&e->stdin_queue, queue);
    if (spec->stdin_len)
        strbuf_append(&e->stdin_queue, spec->stdin_data, spec->stdin_len);
    if (spec->sink) {
        e->has_sink = true;
        e->sink = *spec->sink;
    } else {
        e->block_output = spec->on_limit == EXEC_LIMIT_DEFAULT ? o->journal_block && !spec->hidden
                                                               : spec->on_limit == EXEC_LIMIT_BLOCK;
        e->journal =
            journal_new(&sb->manager->options.journal, persist_wants_exec(e) ? e->id : NULL,
                        &sb->journals, e->block_output);
        exec_watch_journal(e);
    }
    return e;
}

static int send_spawn(struct exec *e, const struct exec_spec *spec, struct error *err)
{
    struct sandbox *sb = e->sandbox;
    const struct manager_options *o = &sb->manager->options;
    _cleanup_strv_ char **env =
        environment_build(sb->spec.env, spec->env_whitelist, spec->env, spec->pty);
    _cleanup_free_ char *tag = persist_wants_exec(e) ? persist_exec_tag(e) : NULL;
    struct spawn_path *paths = xcalloc(spec->n_paths, sizeof(*paths));
    for (size_t i = 0; i < spec->n_paths; i++)
        paths[i] = (struct spawn_path){spec->paths[i].writable, spec->paths[i].path};
    struct msg_spawn m = {
        .request_id = e->request_id,
        .flags = (e->stdin_open ? SPAWN_STDIN : 0) | (spec->pty ? SPAWN_PTY : 0) |
                 (spec->builtin ? SPAWN_BUILTIN : 0) | (spec->narrow ? SPAWN_NARROW : 0),
        .rows = spec->rows ? spec->rows : 24,
        .cols = spec->cols ? spec->cols : 80,
        .timeout_ms = spec->timeout_ms,
        .kill_grace_ms = o->kill_grace_ms,
        .drain_grace_ms = o->drain_grace_ms,
        .limit_as_bytes = spec->limit_as_bytes,
        .argv = e->argv,
        .env = env,
        .cwd = spec->cwd ? spec->cwd : "",
        .tag = tag,
        .paths = paths,
        .n_paths = spec->n_paths,
    };
    int r = msg_spawn_format(runner_out(sb->runner), e->stream, &m);
    free(paths);
    if (r == -E2BIG)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "too many or too long arguments, variables or paths for one command");
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the sandbox's runner does not take commands");
    return 0;
}

/* The encoded SPAWN has a bound, and so has what execve() takes. */
static int check_size(const struct exec_spec *spec, struct error *err)
{
    size_t total = 0;
    for (char *const *a = spec->argv; *a; a++) {
        size_t n = strlen(*a);
        if (n >= 128 * 1024)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "an argument of %zu bytes: the kernel takes "
                             "at most 131071",
                             n);
        total += n + 16;
    }
    for (char *const *v = spec->env; v && *v; v++)
        total += strlen(*v) + 16;
    if (total > 2 * 1024 * 1024)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "arguments and environment together are over "
                         "2 MiB");
    return 0;
}

static int check_count(const struct sandbox *sb, struct error *err)
{
    const struct manager *m = sb->manager;
    if (m->counts.execs_running >= m->options.max_execs)
        return error_set(err, ERROR_LIMIT, 0, "%zu commands are running already (max_execs)",
                         m->options.max_execs);
    if (sb->n_running >= m->options.max_execs_per_sandbox)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu commands are running in this sandbox already (max_execs_per_sandbox)",
                         m->options.max_execs_per_sandbox);
    return 0;
}

struct exec *exec_start(struct sandbox *sb, const struct exec_spec *spec, struct error *err)
{
    struct manager *m = sb->manager;
    if (sandbox_check_ready(sb, err) < 0 || check_size(spec, err) < 0 || check_count(sb, err) < 0)
        return NULL;
    struct exec *e = exec_new(sb, spec);
    if (send_spawn(e, spec, err) < 0) {
        exec_unref(e);
        return NULL;
    }
    exec_enter_tables(e);
    m->counts.execs_total++;
    if (e->journal)
        journal_start(e->journal);
    fault_point("exec.before-spawn");
    flush(sb);
    fault_point("exec.spawned");
    pump_stdin(e);
    return e;
}

void exec_persist(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                  void *data)
{
    if (persist_wants_exec(e) && !e->has_row)
        persist_exec(e, on_durable, data);
    else
        on_durable(data, NULL);
}

void exec_record(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                 void *data)
{
    if (persist_wants_exec(e))
        persist_exec(e, on_durable, data);
    else
        on_durable(data, NULL);
}

/* --- steering */

static int check_running(const struct exec *e, struct error *err)
{
    if (exec_is_done(e) || !e->sandbox->runner)
        return error_set(err, ERROR_CONFLICT, 0, "exec %s has ended (%s)", e->id,
                         exec_status_name(e->result.status));
    return 0;
}

static void send_signal(struct exec *e, int signo, uint32_t kill_grace_ms)
{
    struct msg_signal m = {
        .request_id = e->sandbox->next_request++, .signo = signo, .kill_grace_ms = kill_grace_ms};
    msg_signal_format(runner_out(e->sandbox->runner), e->stream, &m);
    flush(e->sandbox);
}

int exec_signal(struct exec *e, int signo, struct error *err)
{
    int r = check_running(e, err);
    if (r >= 0)
        send_signal(e, signo, 0);
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
    msg_resize_format(runner_out(e->sandbox->runner), e->stream, &m);
    flush(e->sandbox);
    return 0;
}

int exec_cancel(struct exec *e, struct error *err)
{
    int r = check_running(e, err);
    if (r < 0)
        return r;
    if (e->result.status == EXEC_CANCELING)
        return error_set(err, ERROR_CONFLICT, 0, "exec %s is being canceled already", e->id);
    e->result.status = EXEC_CANCELING;
    uint32_t grace = e->sandbox->manager->options.kill_grace_ms;
    send_signal(e, SIGTERM, grace ? grace : 1);
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

/* --- looking */

struct exec *exec_find(struct sandbox *sb, const char *id)
{
    struct exec *e = map_find(sb->execs_by_id, id);
    return e && !e->hidden ? e : NULL;
}

size_t exec_list(struct sandbox *sb, struct exec **ret, size_t max)
{
    size_t n = 0;
    list_for_each(e, &sb->execs, struct exec, node)
    {
        if (!e->hidden && n < max)
            ret[n++] = e;
    }
    return n;
}

const char *exec_id(const struct exec *e)
{
    return e->id;
}

struct sandbox *exec_sandbox(const struct exec *e)
{
    return e->sandbox;
}

enum exec_status exec_status(const struct exec *e)
{
    return e->result.status;
}

bool exec_is_done(const struct exec *e)
{
    return e->result.status != EXEC_RUNNING && e->result.status != EXEC_CANCELING;
}

const char *exec_status_name(enum exec_status s)
{
    return s < _EXEC_STATUS_MAX ? status_names[s] : "unknown";
}

const struct exec_result *exec_result(const struct exec *e)
{
    return &e->result;
}

struct journal *exec_journal(const struct exec *e)
{
    return e->journal;
}

bool exec_output_blocked(const struct exec *e)
{
    return !exec_is_done(e) && e->journal && journal_blocked(e->journal);
}

char *const *exec_argv(const struct exec *e)
{
    return e->argv;
}

bool exec_has_pty(const struct exec *e)
{
    return e->pty;
}

int64_t exec_started_ns(const struct exec *e)
{
    return e->started_ns;
}

int64_t exec_finished_ns(const struct exec *e)
{
    return e->finished_ns;
}

uint64_t exec_timeout_ms(const struct exec *e)
{
    return e->timeout_ms;
}

uint32_t exec_pid(const struct exec *e)
{
    return e->pid;
}
