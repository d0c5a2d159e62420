/* SPDX-License-Identifier: Apache-2.0 */
/* The manager of all sandboxes: what it does once a second (idle and retention times, creations
 * that take too long, frames that waited for company), its start and its end. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/internal.h"

#define TICK_MS 1000

static void expire_idle(struct manager *m)
{
    if (!m->options.config.idle_ttl_ms)
        return;
    int64_t limit = clock_mono_ms() - (int64_t)m->options.config.idle_ttl_ms;
    while (!list_empty(&m->idle)) {
        struct sandbox *sb = container_of(m->idle.next, struct sandbox, idle_node);
        if (sb->idle_since_ms > limit)
            break;
        log_info("sandbox idle too long, deleted id=%s", sb->id);
        sandbox_delete(sb, NULL);
    }
}

static void expire_execs(struct manager *m)
{
    int64_t now = clock_mono_ms();
    while (!list_empty(&m->finished)) {
        struct exec *e = container_of(m->finished.next, struct exec, phase_node);
        if (e->forget_at_ms > now)
            break;
        exec_forget(e);
    }
}

/* Neither a paused sandbox nor a command whose output waits for room can be in time; once that is
 * over they have as long as any other. */
static bool may_be_late(const struct exec *e)
{
    const struct sandbox *sb = e->sandbox;
    return sb->paused || sb->pausing || sb->lost_ms || sb->state == SANDBOX_CREATING ||
           exec_output_blocked(e) || e->exit_waits;
}

/* Timeouts are the runner's: it keeps them while we are being started again. One that does not keep
 * them is no runner any more. */
static void expire_overdue(struct manager *m)
{
    int64_t now = clock_mono_ms();
    list_for_each_safe(e, &m->timed, struct exec, timed_node) {
        int64_t least = now + exec_late_ms(m);
        if (may_be_late(e) && e->overdue_ms < least)
            e->overdue_ms = least;
        if (e->overdue_ms > now)
            continue;
        log_error("a runner ignores a command's timeout sandbox=%s exec=%s", e->sandbox->id, e->id);
        list_remove(&e->timed_node);
        sandbox_break(e->sandbox, "its runner did not end a command in time");
        return; /* the list may have changed: the rest next time */
    }
}

/* One of an earlier control plane is there, and only not reached yet. Calls that wait for it are
 * answered; it is not given up, because that would delete what its callers have in it. */
static void answer_waiters(struct sandbox *sb)
{
    struct error err = {0};
    error_set(&err, ERROR_UNAVAILABLE, 0,
              "sandbox %s is not reached yet since the daemon was started", sb->id);
    sandbox_ref(sb);
    sandbox_wake(&sb->waiters_ready, sb, &err);
    sandbox_unref(sb);
}

static void expire_creating(struct manager *m)
{
    int64_t limit = clock_mono_ms() - (int64_t)m->options.config.create_timeout_ms;
    if (!m->counts.creating)
        return;
    list_for_each_safe(sb, &m->all, struct sandbox, node) {
        struct error err = {0};
        if (sb->state != SANDBOX_CREATING || sb->created_ms > limit || sb->paused)
            continue;
        if (sb->restored && list_empty(&sb->waiters_ready))
            continue;
        if (sb->pooled && sb->ops->lives_elsewhere) /* its runtime knows whether it may come */
            continue;
        if (sb->restored) {
            answer_waiters(sb);
            return;
        }
        error_set(&err, ERROR_TIMEOUT, 0,
                  "the sandbox was not ready in time "
                  "(create_ready_timeout)");
        sandbox_fail_creating(sb, &err);
        return; /* the list may have changed: the rest next time */
    }
}

void sandbox_flush(struct sandbox *sb)
{
    sb->n_unflushed = 0;
    list_remove(&sb->dirty_node);
    if (sb->runner)
        runner_flush(sb->runner);
}

static void flush_dirty(struct manager *m)
{
    while (!list_empty(&m->dirty))
        sandbox_flush(container_of(m->dirty.next, struct sandbox, dirty_node));
}

static void on_tick(void *data)
{
    struct manager *m = data;
    expire_creating(m);
    expire_idle(m);
    sandbox_expire_networks(m);
    expire_execs(m);
    expire_overdue(m);
    sandbox_look_after_lost(m);
    exec_look_after_streams(m);
    journal_retry_all(&m->options.journal);
    journal_look_for_room(&m->options.journal);
    exec_retry_rows(m);
    recent_tidy(m->recent);
    restore_sweep(m);
    flush_dirty(m);
}

struct manager *manager_new(const struct manager_options *o)
{
    struct manager *m = new0(struct manager);
    m->options = *o;
    m->by_id = map_new();
    m->by_alias = map_new();
    m->owners = map_new();
    list_init(&m->all);
    list_init(&m->idle);
    list_init(&m->timed);
    list_init(&m->finished);
    list_init(&m->dirty);
    list_init(&m->expiring);
    list_init(&m->lost);
    list_init(&m->snapshots);
    loop_timer_init(&m->tick, o->loop, on_tick, m);
    loop_timer_start_every(&m->tick, TICK_MS);
    retirement_init(m);
    m->pool = pool_new(m, &o->pool);
    return m;
}

void manager_free(struct manager *m)
{
    if (!m)
        return;
    map_free(m->by_id);
    map_free(m->by_alias);
    map_free(m->owners);
    snapshots_free(m);
    recent_free(m->recent);
    pool_free(m->pool);
    tombstones_free(m);
    free(m);
}

struct closing {
    struct manager *manager;
    void (*on_closed)(void *data);
    void *data;
};

static void on_all_gone(void *data)
{
    struct closing c = *(struct closing *)data;
    free(data);
    loop_timer_close(&c.manager->tick, NULL, NULL);
    loop_timer_close(&c.manager->retirement.timer, NULL, NULL);
    c.on_closed(c.data);
}

void manager_close(struct manager *m, void (*on_closed)(void *data), void *data)
{
    struct closing *c = new0(struct closing);
    *c = (struct closing){m, on_closed, data};
    m->closing = true;
    pool_close(m->pool);
    m->on_closed = on_all_gone;
    m->closed_data = c;
    if (list_empty(&m->all)) {
        m->on_closed = NULL;
        on_all_gone(c);
        return;
    }
    /* A deletion that ends at once takes itself, and nothing else, out of the list: on_all_gone()
     * comes from the last of them, from inside this loop where none has to be waited for. */
    list_for_each_safe(sb, &m->all, struct sandbox, node)
        sandbox_delete(sb, NULL);
}

bool manager_is_resuming(const struct manager *m)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        bool lives = sb->state == SANDBOX_CREATING || sb->state == SANDBOX_READY;
        if (sb->restored && lives && sb->instance && !sb->resumed && !sb->paused)
            return true;
    }
    return false;
}

const struct manager_options *manager_options(const struct manager *m)
{
    return &m->options;
}

const struct manager_counts *manager_counts(const struct manager *m)
{
    return &m->counts;
}

struct pool_counts manager_pool_counts(const struct manager *m)
{
    return pool_counts(m->pool);
}
