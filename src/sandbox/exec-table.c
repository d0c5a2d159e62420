/* SPDX-License-Identifier: Apache-2.0 */
/* Records of execs: references, the tables that know them, and what others may look at. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

static const char *const status_names[] = {"running", "canceling", "completed",
                                           "failed",  "canceled",  "timed_out"};
static_assert(ELEMENTS(status_names) == _EXEC_STATUS_MAX, "a name per status");

#define OVERDUE_MS     10000        /* a runner may be late by this much */
#define TIMEOUT_MAX_MS (1ull << 53) /* longer is as good as none */

/* --- references */

struct exec *exec_ref(struct exec *e)
{
    e->refs++;
    return e;
}

/* A row of the end says all that the row of the start did, so it settles both tickets. */
void exec_drop_kept(struct exec *e, enum exec_kept up_to)
{
    for (int i = 0; i <= (int)up_to; i++) {
        recent_settle(e->sandbox->manager->recent, e->recent[i]);
        e->recent[i] = 0;
    }
}

void exec_unref(struct exec *e)
{
    if (!e || --e->refs)
        return;
    exec_drop_kept(e, EXEC_KEPT_END);
    journal_free(e->journal);
    strbuf_done(&e->stdin_queue);
    exec_drop_spawn(e);
    free(e->sent);
    strv_free(e->argv);
    strv_free(e->hosts);
    strv_free(e->bound);
    free(e->cwd);
    sandbox_unref(e->sandbox);
    free(e);
}

struct exec *exec_alloc(struct sandbox *sb)
{
    struct exec *e = new0(struct exec);
    e->sandbox = sandbox_ref(sb);
    e->refs = 1; /* the sandbox's tables */
    list_init(&e->waiters);
    list_init(&e->drains);
    list_init(&e->node);
    list_init(&e->phase_node);
    list_init(&e->timed_node);
    strbuf_init(&e->stdin_queue, sb->manager->options.config.max_stdin_queue);
    return e;
}

/* --- tables */

int64_t exec_late_ms(const struct manager *m)
{
    return (int64_t)m->options.config.kill_grace_ms + m->options.config.drain_grace_ms + OVERDUE_MS;
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
    /* A sandbox that lives elsewhere has a record there, with the time of its last command. It
     * is what a daemon without a database knows of the sandbox, so it has to be written anew. */
    if (sb->instance && sb->ops->note && !exec_is_done(e))
        sb->ops->note(sb->instance);
    if (exec_is_done(e)) {
        /* A restored exec has been finished for a while: its retention began then, and not with
         * this process. The wall clock may have been set back since, hence no negative age. */
        int64_t age_ms = (clock_real_ns() - e->finished_ns) / 1000000;
        int64_t left_ms = (int64_t)m->options.config.retention_ms - (age_ms > 0 ? age_ms : 0);
        e->forget_at_ms = clock_mono_ms() + left_ms;
        list_append(&m->finished, &e->phase_node);
        return;
    }
    list_append(&sb->running, &e->phase_node);
    if (e->timeout_ms && e->timeout_ms < TIMEOUT_MAX_MS) {
        /* The runner keeps the time. This is for a runner that does not: it is taken for broken. */
        e->overdue_ms = clock_mono_ms() + (int64_t)e->timeout_ms + exec_late_ms(m);
        list_append(&m->timed, &e->timed_node);
    }
    m->counts.execs_running++;
    sb->n_running++;
    owner_exec_started(sb);
    sandbox_hold(sb);
}

/* Takes a finished exec out of its sandbox's tables; once is enough. The reference of the tables
 * goes last, after the row: callers that still read the exec have references of their own. */
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

/* One per call is enough: one was added. The oldest finished exec goes; running ones never do. */
void exec_make_room(struct sandbox *sb)
{
    if (sb->n_execs <= sb->manager->options.config.max_execs_per_sandbox)
        return;
    list_for_each(e, &sb->execs, struct exec, node) {
        if (!exec_is_done(e))
            continue;
        exec_forget(e);
        return;
    }
}

/* An exec whose EXIT has come is no longer running for the runner's messages, although its end
 * waits for the control group's counters: a second EXIT must not find it. */
struct exec *exec_find_running(struct sandbox *sb, uint32_t stream)
{
    list_for_each(e, &sb->running, struct exec, phase_node) {
        if (e->stream == stream && !e->awaiting_stats)
            return e;
    }
    return NULL;
}

/* The caller is about to show the exec to a client, so it is kept first (exec_keep). */
struct exec *exec_find(struct sandbox *sb, const char *id)
{
    struct exec *e = map_find(sb->execs_by_id, id);
    if (!e || e->hidden)
        return NULL;
    exec_keep(e);
    return e;
}

size_t exec_list(struct sandbox *sb, struct exec **ret, size_t max)
{
    size_t n = 0;
    list_for_each(e, &sb->execs, struct exec, node) {
        if (e->hidden || n >= max)
            continue;
        exec_keep(e);
        ret[n++] = e;
    }
    return n;
}

/* --- looking */

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

const char *exec_call(const struct exec *e)
{
    return e->call;
}

bool exec_is_hidden(const struct exec *e)
{
    return e->hidden;
}

void **exec_input_state(struct exec *e)
{
    return &e->input_state;
}

bool manager_runs_call(const struct manager *m, const char *call)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        list_for_each(e, &sb->running, struct exec, phase_node) {
            if (strcmp(e->call, call) == 0)
                return true;
        }
    }
    return false;
}
