/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a sandbox: how it becomes READY, and every way in which it ends. Only this file
 * writes the state after the one it is made or restored with (sandbox-create.c). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

static void sandbox_gone(struct sandbox *sb);

/* --- idleness */

/* The list is in the order in which sandboxes became idle, so the one whose time ends first is
 * always its head. A crashed sandbox counts as idle: it is there to be looked at, and goes with
 * idle_ttl. */
void sandbox_update_idle(struct sandbox *sb)
{
    list_remove(&sb->idle_node);
    bool idle = (sb->state == SANDBOX_READY || sb->state == SANDBOX_CRASHED) && sb->holds == 0;
    if (!idle || sb->hidden)
        return;
    sb->idle_since_ms = clock_mono_ms();
    list_append(&sb->manager->idle, &sb->idle_node);
}

void sandbox_hold(struct sandbox *sb)
{
    if (sb->holds++ == 0)
        sandbox_update_idle(sb);
}

void sandbox_release(struct sandbox *sb)
{
    assert(sb->holds > 0);
    if (--sb->holds == 0)
        sandbox_update_idle(sb);
}

/* --- the end of a sandbox */

void sandbox_set_failure(struct sandbox *sb, const char *why)
{
    error_clear(&sb->failure);
    error_set(&sb->failure, ERROR_CRASH, 0, "%s", why);
}

/* The journal of changes first, then the audit and the counters. Helpers and pooled sandboxes
 * belong to no caller, and no caller hears of them. */
static void report_state(struct sandbox *sb)
{
    const struct manager_options *o = &sb->manager->options;
    sandbox_announce(sb);
    if (o->on_sandbox && !sb->hidden && !sb->pooled)
        o->on_sandbox(o->on_record_data, sb);
    if (o->on_gone && sb->state == SANDBOX_GONE && !sb->hidden && !sb->pooled)
        o->on_gone(o->on_gone_data, sb);
}

static void record_crash(struct sandbox *sb)
{
    if (persist_wants_sandbox(sb))
        persist_sandbox(sb, NULL, NULL);
}

/* Comes twice, from the runtime (instance is NULL then) and from the connection (runner_ended), in
 * either order. The crash is reported once both are known: how PID 1 ended, and all that its runner
 * had sent. A report after the first of them would lose the output that is still in the socket. */
static void crash_when_settled(struct sandbox *sb)
{
    char why[160];
    if (sb->instance || !sb->runner_ended)
        return;
    /* Callers of this function hold a reference: the last lines call waiters of execs and of ports,
     * which may delete the sandbox. So the state, the events and the row, which they may look at,
     * come before them. */
    runner_close(steal_ptr(sb->runner));
    if (sb->state != SANDBOX_CRASHED && !error_is_set(&sb->failure))
        sandbox_set_failure(sb, "its runner ended");
    if (sb->end_is_told)
        snprintf(why, sizeof(why), "%s", sb->failure.message);
    else if (WIFSIGNALED(sb->exit_status))
        snprintf(why, sizeof(why), "%s (PID 1 was killed by signal %d)", sb->failure.message,
                 WTERMSIG(sb->exit_status));
    else
        snprintf(why, sizeof(why), "%s (PID 1 exited with %d)", sb->failure.message,
                 WEXITSTATUS(sb->exit_status));
    sandbox_set_failure(sb, why);
    sb->state = SANDBOX_CRASHED;
    sb->manager->counts.crashed_total++;
    log_warn("sandbox crashed id=%s: %s", sb->id, why);
    report_state(sb);
    record_crash(sb);
    gateway_streams_free(sb);
    port_streams_free(sb, "it has crashed");
    interceptor_free(sb);
    snapshot_on_end(sb, why);
    exec_fail_all(sb, EXEC_FAILED, true, why);
    sandbox_update_idle(sb);
    if (sb->pooled)
        sandbox_delete(sb, NULL);
}

/* The connection ended or the runner misbehaved. The sandbox cannot be used any more, whatever
 * still runs in it: nothing could be said to it, and nothing that it says could be believed. */
void sandbox_break(struct sandbox *sb, const char *why)
{
    if (sb->state == SANDBOX_CREATING)
        sb->runner_ended = true; /* sandbox_ready_when_settled() sees to it */
    if (sb->state == SANDBOX_CREATING && sb->forgets)
        sandbox_ready_when_settled(sb);
    if (sb->state != SANDBOX_READY)
        return;
    sandbox_ref(sb); /* a callback of its execs may delete it */
    sandbox_forget_lost(sb);
    if (!error_is_set(&sb->failure)) /* the runtime may have said more already */
        sandbox_set_failure(sb, why);
    sb->state = SANDBOX_CRASHED;
    sb->runner_ended = true;
    sandbox_update_idle(sb);
    if (sb->instance)
        sb->ops->stop(sb->instance);
    crash_when_settled(sb);
    sandbox_unref(sb);
}

/* All there was of a lost connection was read: nothing more comes by another one. The runtime gives
 * up its reference with this event, so that unref is the last thing that is done with the sandbox.
 */
static void on_runtime_exited(void *data, const struct runtime_end *end)
{
    struct sandbox *sb = data;
    sb->instance = NULL;
    sb->exit_status = end->wait_status;
    if (sb->lost_ms)
        sb->runner_ended = true;
    sandbox_forget_lost(sb);
    sb->end_is_told = end->why && sb->state != SANDBOX_STOPPING;
    if (sb->end_is_told)
        sandbox_set_failure(sb, end->why);
    else if (end->oom_kills > sb->oom_kills_seen && sb->state != SANDBOX_STOPPING)
        sandbox_set_failure(sb, "out of memory: the kernel killed it at its memory limit");
    if (sb->state == SANDBOX_STOPPING)
        sandbox_gone(sb);
    else if (sb->state == SANDBOX_CRASHED || sb->state == SANDBOX_READY)
        crash_when_settled(sb);
    sandbox_unref(sb);
}

/* The reference of the tables, which it has left. */
static void say_gone(struct sandbox *sb, const struct error *err)
{
    sandbox_wake(&sb->waiters_gone, sb, err);
    fault_point("delete.answered");
    sandbox_unref(sb);
}

/* A deletion that was answered must not be undone by a restart. */
static void on_row_removed(void *data, const struct error *err)
{
    struct error copy = {0};
    if (err)
        error_set(&copy, ERROR_NO_SPACE, 0, "the deletion cannot be recorded: %s", err->message);
    say_gone(data, err ? &copy : NULL);
}

/* Nothing of it is left on the host. It leaves every table before its row is removed, so that its
 * name is free for the next create; only the answer to the deletion waits for the row. */
static void sandbox_gone(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    sb->state = SANDBOX_GONE;
    runner_close(steal_ptr(sb->muted));
    report_state(sb);
    list_remove(&sb->idle_node);
    list_remove(&sb->dirty_node);
    list_remove(&sb->expiring_node);
    list_remove(&sb->node);
    if (sb->pooled)
        pool_on_end(m->pool, sb);
    map_remove(m->by_id, sb->id);
    if (sb->alias_key)
        map_remove(m->by_alias, sb->alias_key);
    fault_point("delete.before-row");
    bool wait = persist_wants_sandbox(sb) && !m->closing;
    if (persist_wants_sandbox(sb))
        persist_sandbox_remove(sb, wait ? on_row_removed : NULL, sb);
    fault_point("delete.gone");
    owner_leave(sb);
    m->counts.sandboxes--;
    m->counts.deleted_total++;
    if (!wait)
        say_gone(sb, NULL);
    if (m->closing && list_empty(&m->all) && m->on_closed) {
        void (*on_closed)(void *) = steal_ptr(m->on_closed);
        on_closed(m->closed_data);
    }
}

/* Legal in every state. The connection is muted first, so that no message of the runner comes while
 * the execs end; callers of execs and of the create are answered before the processes are killed,
 * because that may take the runtime a while. The connection is closed when they are gone: a runner
 * that saw its end would wake up to handle it, only to be killed. */
void sandbox_delete(struct sandbox *sb, struct sandbox_waiter *w)
{
    struct error err = {0};
    if (w)
        list_init(&w->node);
    if (sb->state == SANDBOX_GONE) {
        if (w)
            w->on_event(w, sb, NULL);
        return;
    }
    if (w)
        list_append(&sb->waiters_gone, &w->node);
    if (sb->state == SANDBOX_STOPPING)
        return;
    if (sb->state == SANDBOX_CREATING)
        sb->manager->counts.creating--;
    sandbox_ref(sb);
    sb->state = SANDBOX_STOPPING;
    if (sandbox_needs_tombstone(sb))
        sandbox_bury(sb, NULL, NULL);
    sandbox_keep_actor(sb);
    fault_point("delete.begin");
    list_remove(&sb->idle_node);
    retirement_remove(sb);
    sandbox_forget_lost(sb);
    runner_mute(sb->runner);
    sb->muted = steal_ptr(sb->runner);
    gateway_streams_free(sb);
    port_streams_free(sb, "it was deleted");
    interceptor_free(sb);
    snapshot_on_end(sb, "it was deleted");
    exec_fail_all(sb, EXEC_CANCELED, false, "the sandbox was deleted");
    error_set(&err, ERROR_CONFLICT, 0, "sandbox %s was deleted while it was created", sb->id);
    sandbox_wake(&sb->waiters_ready, sb, &err);
    fault_point("delete.before-kill");
    if (sb->instance)
        sb->ops->stop(sb->instance);
    else
        sandbox_gone(sb);
    sandbox_unref(sb);
}

/* --- the start of a sandbox */

/* The runtime has failed and sends no further event, so that its reference goes here; that of the
 * tables goes with sandbox_gone(). */
static void on_failure_buried(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    struct error copy = sb->failure;
    if (err)
        log_error("a failed create is not on record id=%s: %s", sb->id, err->message);
    sandbox_wake(&sb->waiters_ready, sb, &copy);
    fault_point("create.refused");
    sandbox_gone(sb);
    sandbox_unref(sb);
}

/* A sandbox that was never READY leaves nothing behind, and what its runtime still has elsewhere
 * must not become one after the create was answered with an error. One of an earlier control plane
 * that could not be adopted stays as CRASHED: its callers know it, and have to learn what became of
 * it. */
void sandbox_start_failed(struct sandbox *sb, const struct error *err)
{
    struct error copy = *err;
    sb->instance = NULL;
    interceptor_free(sb);
    if (sb->restored && sb->state == SANDBOX_CREATING) {
        sb->manager->counts.creating--;
        sb->state = SANDBOX_CRASHED;
        sandbox_set_failure(sb, err->message);
        report_state(sb);
        record_crash(sb);
        exec_fail_all(sb, EXEC_FAILED, true, err->message);
        sandbox_wake(&sb->waiters_ready, sb, &copy);
        sandbox_update_idle(sb);
        sandbox_unref(sb);
        return;
    }
    sb->manager->counts.create_failed_total++;
    if (sb->state == SANDBOX_CREATING) {
        sb->manager->counts.creating--;
        sb->state = SANDBOX_STOPPING;
        if (sandbox_needs_tombstone(sb)) {
            sb->failure = copy;
            sandbox_bury(sb, on_failure_buried, sb);
            return;
        }
        sandbox_wake(&sb->waiters_ready, sb, &copy);
    }
    sandbox_gone(sb);
    sandbox_unref(sb);
}

static void end_creating(struct sandbox *sb, const struct error *err)
{
    sandbox_ref(sb);
    sandbox_wake(&sb->waiters_ready, sb, err);
    sandbox_delete(sb, NULL);
    sandbox_unref(sb);
}

static void on_creating_buried(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    struct error copy = sb->failure;
    if (err)
        log_error("a failed create is not on record id=%s: %s", sb->id, err->message);
    end_creating(sb, &copy);
    fault_point("create.refused");
    sandbox_unref(sb);
}

void sandbox_fail_creating(struct sandbox *sb, const struct error *err)
{
    if (sandbox_needs_tombstone(sb)) {
        sb->failure = *err;
        sandbox_bury(sandbox_ref(sb), on_creating_buried, sb);
    } else if (!sb->buried) { /* else it is on its way */
        end_creating(sb, err);
    }
}

/* READY needs both: a runner that answers, and a row that outlives us. */
void sandbox_ready_when_settled(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    struct error err = {0};
    if (sb->state != SANDBOX_CREATING || !sb->started || sb->rows_pending || sb->buried ||
        sb->claiming)
        return;
    if (sb->runner_ended || !sb->instance) {
        error_set(&err, ERROR_CRASH, 0, "sandbox %s died while it was created", sb->id);
        sandbox_fail_creating(sb, &err);
        return;
    }
    /* The commands that its runner remembers are another's. One that was adopted is READY before
     * they are forgotten, because it has callers already; its commands are refused until then. */
    if (sb->forgets && !sb->restored)
        return;
    sb->state = SANDBOX_READY;
    m->counts.creating--;
    m->counts.created_total++;
    sandbox_update_idle(sb);
    report_state(sb);
    fault_point("create.before-answer");
    sandbox_ref(sb);
    if (sb->pooled)
        pool_on_ready(m->pool, sb);
    sandbox_wake(&sb->waiters_ready, sb, NULL);
    fault_point("create.answered");
    if (sb->runner)
        runner_flush(sb->runner);
    sandbox_unref(sb);
}

static void on_row_written(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    sb->rows_pending--;
    if (err && sb->restored) { /* it lives, and the next start finds it as this one did */
        log_error("a sandbox that was found again is not on record id=%s: %s", sb->id,
                  err->message);
    } else if (err && sb->state == SANDBOX_CREATING) {
        struct error copy = {0};
        error_set(&copy, ERROR_NO_SPACE, 0, "the sandbox cannot be recorded: %s", err->message);
        sandbox_fail_creating(sb, &copy);
    }
    sandbox_ready_when_settled(sb);
    sandbox_unref(sb);
}

/* The row is written while the runtime builds the sandbox: a create costs the longer of the two. */
void sandbox_write_row(struct sandbox *sb)
{
    if (!persist_wants_sandbox(sb))
        return;
    sb->rows_pending++;
    persist_sandbox(sandbox_ref(sb), on_row_written, sb);
}

static void on_runtime_started(void *data, int runner_fd, const struct effective *effective,
                               const struct error *err)
{
    struct sandbox *sb = data;
    if (err) {
        sandbox_start_failed(sb, err);
        return;
    }
    /* It was deleted while the runtime was at it: the stop is under way, and on_exited follows. */
    if (sb->state != SANDBOX_CREATING) {
        fd_close(&runner_fd);
        return;
    }
    fault_point("create.started");
    struct manager *m = sb->manager;
    sb->effective = *effective;
    sb->started = true;
    if (sb->restored && effective->network_by_address && sb->ops->change_addresses)
        sandbox_send_addresses(sb);
    if (sb->spec.intercept && !sb->interceptor)
        interceptor_new(sb);
    if (sb->ops->generation)
        sandbox_set_turn(sb, sb->ops->generation(sb->instance));
    sb->runner = runner_new(m->options.loop, runner_fd, sb->turn, 0, &exec_runner_events, sb);
    if (sb->spec.network && sandbox_shares_kernel(sb))
        runner_accept_sockets(sb->runner);
    free(steal_ptr(sb->spec.snapshot));
    if (sb->forget_on_record) {
        sb->forgets = true;
        runner_flush(sb->runner);
    }
    sandbox_ready_when_settled(sb);
}

static void describe_sandbox(void *data, struct runtime_record *ret)
{
    const struct sandbox *sb = data;
    *ret = (struct runtime_record){.owner = sb->owner,
                                   .text = persist_sandbox_text(sb),
                                   .last_exec_s = sb->last_exec_ns / 1000000000,
                                   .pooled = sb->pooled};
}

const struct runtime_events sandbox_runtime_events = {
    .describe = describe_sandbox,
    .on_started = on_runtime_started,
    .on_reconnected = sandbox_take_connection,
    .on_exited = on_runtime_exited,
    .on_removed = sandbox_on_removed,
};
