/* SPDX-License-Identifier: Apache-2.0 */
/* Starting an exec: limits, its record, SPAWN to the runner, and its row. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/random.h"
#include "loop/loop.h"
#include "proto/plan.h"
#include "sandbox/environment.h"
#include "sandbox/internal.h"
#include "sandbox/network.h"
#include "sandbox/owner.h"

#define ARGUMENT_MAX (128 * 1024)      /* the kernel's own, with the NUL */
#define COMMAND_MAX  (2 * 1024 * 1024) /* argv and env; the kernel's for a stack of 8 MiB */
#define EXEC_ID_TIME 8                 /* digits of milliseconds, to the base of 36: until 2059 */

/* Their time first: rows that come together lie together in the database, so that a page of it
 * takes many and not one. */
static void exec_make_id(struct exec *e)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t ms = (uint64_t)(e->started_ns / 1000000);
    memcpy(e->id, "ex-", 3);
    for (size_t i = 3 + EXEC_ID_TIME; i > 3; ms /= 36)
        e->id[--i] = digits[ms % 36];
    random_id(e->id + 3 + EXEC_ID_TIME, EXEC_ID_SIZE - EXEC_ID_TIME - 4);
}

/* By a command that runs, or whose end the runner still remembers. */
static bool stream_is_taken(void *data, uint32_t number)
{
    const struct sandbox *sb = data;
    list_for_each(e, &sb->execs, struct exec, node) {
        if (e->stream == number && (!exec_is_done(e) || e->forget_due))
            return true;
    }
    return port_stream_is_taken(sb, number);
}

uint32_t sandbox_take_stream(struct sandbox *sb)
{
    return stream_numbers_take(&sb->streams, stream_is_taken, sb);
}

/* Everything that an answer, a row or a restart needs is copied into the record here: spec is the
 * caller's, and gone when exec_start() returns. */
static struct exec *exec_new(struct sandbox *sb, const struct exec_spec *spec)
{
    const struct manager_options *o = &sb->manager->options;
    struct exec *e = exec_alloc(sb);
    e->stream = sandbox_take_stream(sb);
    e->request_id = sb->next_request++;
    e->hidden = spec->hidden;
    e->pty = spec->pty;
    e->argv = strv_copy(spec->argv);
    e->hosts = spec->hosts ? strv_copy(spec->hosts) : NULL;
    e->bound = spec->bound ? strv_copy(spec->bound) : NULL;
    e->cwd = spec->cwd && *spec->cwd ? xstrdup(spec->cwd) : NULL;
    e->timeout_ms = spec->timeout_ms;
    e->started_ns = clock_real_ns();
    exec_make_id(e);
    e->stdin_open = spec->open_stdin || spec->stdin_len || spec->pty;
    e->stdin_close_wanted = e->stdin_open && !spec->open_stdin && !spec->pty;
    e->stdin_whole = e->stdin_close_wanted;
    e->stdin_given = spec->stdin_len;
    snprintf(e->call, sizeof(e->call), "%s", spec->call ? spec->call : "");
    /* Input that came with the request was held to the limit of bodies, so it always fits. */
    size_t queue =
        o->config.max_stdin_queue > spec->stdin_len ? o->config.max_stdin_queue : spec->stdin_len;
    strbuf_init(&e->stdin_queue, queue);
    if (spec->stdin_len)
        strbuf_append(&e->stdin_queue, spec->stdin_data, spec->stdin_len);
    if (spec->sink) {
        e->has_sink = true;
        e->sink = *spec->sink;
    } else {
        e->block_output = spec->on_limit == EXEC_LIMIT_DEFAULT
                              ? o->config.journal_full == JOURNAL_FULL_BLOCK && !spec->hidden
                              : spec->on_limit == EXEC_LIMIT_BLOCK;
        e->journal =
            journal_new(&sb->manager->options.journal, persist_wants_exec(e) ? e->id : NULL,
                        &sb->journals, e->block_output);
        exec_watch_journal(e);
    }
    return e;
}

/* Only formats SPAWN into the runner's buffer; exec_start() flushes it once the exec is in every
 * table, because the answer may come in the same turn. While the connection is lost there is no
 * buffer, and exec_keep_spawn() has the frame for the next connection. */
static int send_spawn(struct exec *e, const struct exec_spec *spec, struct error *err)
{
    struct sandbox *sb = e->sandbox;
    const struct manager_options *o = &sb->manager->options;
    struct environment from = {.box = sb->effective.box,
                               .image = sb->spec.image_env,
                               .sandbox = sb->spec.env,
                               .whitelist = spec->env_whitelist,
                               .call = spec->env,
                               .terminal = spec->pty,
                               .proxy = sb->spec.network,
                               .no_files = sb->ops->lives_elsewhere,
                               .authorities = !sb->spec.intercept ? NULL
                                              : sb->spec.image    ? PLAN_IMAGE_AUTHORITIES
                                                                  : PLAN_AUTHORITIES};
    _cleanup_strv_ char **env = environment_build(&from);
    _cleanup_free_ char *tag = persist_wants_exec(e) ? persist_exec_tag(e) : NULL;
    struct spawn_path *paths = xcalloc(spec->n_paths + 1, sizeof(*paths));
    size_t n_paths = spec->n_paths;
    for (size_t i = 0; i < spec->n_paths; i++)
        paths[i] = (struct spawn_path){spec->paths[i].writable, spec->paths[i].path};
    if (spec->narrow && from.proxy &&
        !from.no_files) /* NODE_OPTIONS names it, and node does not start without */
        paths[n_paths++] = (struct spawn_path){false, PLAN_NODE_PROXY};
    struct msg_spawn m = {
        .request_id = e->request_id,
        .flags = (e->stdin_open ? SPAWN_STDIN : 0) | (spec->pty ? SPAWN_PTY : 0) |
                 (spec->builtin ? SPAWN_BUILTIN : 0) | (spec->narrow ? SPAWN_NARROW : 0) |
                 (spec->pins ? SPAWN_PINNED : 0) | (e->hosts ? SPAWN_OWN_PROXY : 0) |
                 (exec_is_streamed(e) ? SPAWN_EVENTS : 0),
        .pins = spec->pins,
        .events = e->id,
        .rows = spec->rows ? spec->rows : 24,
        .cols = spec->cols ? spec->cols : 80,
        .timeout_ms = spec->timeout_ms,
        .kill_grace_ms = o->config.kill_grace_ms,
        .drain_grace_ms = o->config.drain_grace_ms,
        .limit_as_bytes = spec->limit_as_bytes,
        .argv = e->argv,
        .env = env,
        .cwd = spec->cwd ? spec->cwd : "",
        .tag = tag,
        .paths = paths,
        .n_paths = n_paths,
    };
    _cleanup_strbuf_ struct strbuf held = STRBUF_INIT(2 * PROTO_SPAWN_MAX);
    struct runner *runner = sandbox_runner(sb);
    struct strbuf *out = runner ? runner_out(runner) : &held;
    size_t before = out->len;
    int r = msg_spawn_format(out, e->stream, &m);
    if (r >= 0)
        exec_keep_spawn(e, out->data + before, out->len - before);
    free(paths);
    if (r == -E2BIG)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "too many or too long arguments, variables or paths for one command");
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the sandbox's runner does not take commands");
    return 0;
}

/* The encoded SPAWN has a bound, and so has what execve() takes. */
int exec_spec_check_size(const struct exec_spec *spec, struct error *err)
{
    size_t total = 0;
    for (char *const *a = spec->argv; *a; a++) {
        size_t n = strlen(*a);
        if (n >= ARGUMENT_MAX)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "an argument of %zu bytes: the kernel takes "
                             "at most %d",
                             n, ARGUMENT_MAX - 1);
        total += n + 16;
    }
    for (char *const *v = spec->env; v && *v; v++)
        total += strlen(*v) + 16;
    if (total > COMMAND_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "arguments and environment together are over "
                         "2 MiB");
    return 0;
}

static int check_count(const struct sandbox *sb, struct error *err)
{
    const struct manager *m = sb->manager;
    if (m->counts.execs_running >= m->options.config.max_execs)
        return error_set(err, ERROR_LIMIT, 0, "%zu commands are running already (max_execs)",
                         m->options.config.max_execs);
    if (sb->n_running >= m->options.config.max_execs_per_sandbox)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu commands are running in this sandbox already (max_execs_per_sandbox)",
                         m->options.config.max_execs_per_sandbox);
    return owner_check_exec(sb, err);
}

/* The row of the exec is not waited for: the command runs while it is written, and only an answer
 * that names the exec waits (exec_persist). A control plane that is killed in between finds the
 * command in its runner, whose SPAWN carries all that a row says (persist_exec_tag). */
struct exec *exec_start(struct sandbox *sb, const struct exec_spec *spec, struct error *err)
{
    struct manager *m = sb->manager;
    if (sandbox_check_ready(sb, err) < 0 || exec_spec_check_size(spec, err) < 0 ||
        check_count(sb, err) < 0 || (spec->hosts && sandbox_check_own_proxy(sb, err) < 0) ||
        network_check_bound(sb, spec->bound, err) < 0)
        return NULL;
    struct exec *e = exec_new(sb, spec);
    if (send_spawn(e, spec, err) < 0) {
        exec_unref(e);
        return NULL;
    }
    /* From here on the runner may answer, and the answer is looked for in these tables. */
    exec_enter_tables(e);
    retirement_postpone(m);
    m->counts.execs_total++;
    if (e->journal)
        journal_start(e->journal);
    fault_point("exec.before-spawn");
    sandbox_flush(sb);
    fault_point("exec.spawned");
    exec_pump_stdin(e);
    return e;
}

/* --- when callers may learn of it */

/* A runner that the sandbox's commands starve of processor time must not keep a caller waiting. */
#define START_WAIT_MS 2000

struct exec_start_wait {
    struct exec *exec; /* referenced */
    void (*cb)(void *data, const struct error *err);
    void *data;
    struct loop_timer timer;
};

/* The exec forgets the wait before the callback comes, because the callback may end the exec, which
 * would settle the same wait a second time. The reference goes last: it may be the only one. */
static void start_wait_end(struct exec_start_wait *w, const struct error *err)
{
    w->exec->start_wait = NULL;
    w->cb(w->data, err);
    exec_unref(w->exec);
    loop_timer_close(&w->timer, free, w);
}

static void on_start_late(void *data)
{
    start_wait_end(data, NULL);
}

/* A caller learns of its exec when the row is durable and the runner has said STARTED. With the row
 * alone a kill could still break the promise: SPAWN may be in our buffer and die with us. */
static void on_row(void *data, const struct error *err)
{
    struct exec_start_wait *w = data;
    struct exec *e = w->exec;
    if (err || e->started || exec_is_done(e)) {
        start_wait_end(w, err);
        return;
    }
    e->start_wait = w;
    loop_timer_start(&w->timer, START_WAIT_MS);
}

void exec_settle_start(struct exec *e)
{
    if (e->start_wait)
        start_wait_end(e->start_wait, NULL);
}

void exec_persist(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                  void *data)
{
    struct exec_start_wait *w = new0(struct exec_start_wait);
    *w = (struct exec_start_wait){.exec = exec_ref(e), .cb = on_durable, .data = data};
    loop_timer_init(&w->timer, e->sandbox->manager->options.loop, on_start_late, w);
    if (persist_wants_exec(e) && !e->has_row)
        persist_exec(e, on_row, w);
    else
        on_row(w, NULL);
}

void exec_on_start_written(void *data, const struct error *err)
{
    struct exec *e = data;
    if (!err)
        exec_drop_kept(e, EXEC_KEPT_START);
    exec_unref(e);
}

/* A caller is about to see an exec that has no row yet (a listing, a look by id). Its row goes to
 * the file of recent rows, which is there after kill -9, and to the database in the background: so
 * that what was seen once is there after a restart, at the price of one write() and no commit. */
void exec_keep(struct exec *e)
{
    if (e->has_row || !persist_wants_exec(e) || list_empty(&e->node))
        return;
    _cleanup_strbuf_ struct strbuf row = STRBUF_INIT(ROW_MAX);
    if (persist_exec_format(e, &row) < 0)
        return;
    unsigned ticket = recent_append(e->sandbox->manager->recent, e->id, row.data, row.len);
    if (!ticket)
        return;
    e->recent[EXEC_KEPT_START] = ticket;
    persist_exec_put(e, &row, exec_on_start_written, exec_ref(e));
}

void exec_record(struct exec *e, void (*on_durable)(void *data, const struct error *err),
                 void *data)
{
    if (persist_wants_exec(e))
        persist_exec(e, on_durable, data);
    else
        on_durable(data, NULL);
}
