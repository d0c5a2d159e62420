#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "sandbox/internal.h"

#define TICK_MS       1000
#define RANDOM_ID_LEN 12

static const char *const state_names[] = {"creating", "ready", "crashed", "terminating", "gone"};
static_assert(ELEMENTS(state_names) == _SANDBOX_STATE_MAX, "a name per state");

static void gone(struct sandbox *sb);

/* --- references */

struct sandbox *sandbox_ref(struct sandbox *sb)
{
    sb->refs++;
    return sb;
}

void sandbox_unref(struct sandbox *sb)
{
    if (!sb || --sb->refs)
        return;
    assert(sb->state == SANDBOX_GONE && !sb->instance);
    if (sb->free_attached)
        sb->free_attached(sb->attached);
    spec_done(&sb->spec);
    map_free(sb->execs_by_id);
    free(sb->alias);
    free(sb->alias_key);
    free(sb->owner);
    free(sb->note);
    free(sb);
}

/* --- waiting */

void sandbox_waiter_cancel(struct sandbox_waiter *w)
{
    if (w->node.next)
        list_remove(&w->node);
}

static void wake(struct list *waiters, struct sandbox *sb, const struct error *err)
{
    while (!list_empty(waiters)) {
        struct sandbox_waiter *w = container_of(waiters->next, struct sandbox_waiter, node);
        list_remove(&w->node);
        w->on_event(w, sb, err);
    }
}

void sandbox_wait_ready(struct sandbox *sb, struct sandbox_waiter *w)
{
    struct error err = {0};
    list_init(&w->node);
    if (sb->state == SANDBOX_CREATING)
        list_append(&sb->waiters_ready, &w->node);
    else
        w->on_event(w, sb, sandbox_check_ready(sb, &err) < 0 ? &err : NULL);
}

int sandbox_check_ready(const struct sandbox *sb, struct error *err)
{
    switch (sb->state) {
    case SANDBOX_READY:
        return 0;
    case SANDBOX_CRASHED:
        return error_set(err, ERROR_CRASH, 0, "sandbox %s has died: %s", sb->id,
                         sb->failure.message);
    case SANDBOX_CREATING:
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is still being created", sb->id);
    default:
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being deleted", sb->id);
    }
}

/* --- idleness */

static void update_idle(struct sandbox *sb)
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
        update_idle(sb);
}

void sandbox_release(struct sandbox *sb)
{
    assert(sb->holds > 0);
    if (--sb->holds == 0)
        update_idle(sb);
}

/* --- the end of a sandbox */

static void set_failure(struct sandbox *sb, const char *why)
{
    error_clear(&sb->failure);
    error_set(&sb->failure, ERROR_CRASH, 0, "%s", why);
}

/* CRASHED is entered once both are known: how PID 1 ended, and all that its runner had sent. */
static void record_crash(struct sandbox *sb)
{
    if (persist_wants_sandbox(sb))
        persist_sandbox(sb, NULL, NULL);
}

static void crash_when_settled(struct sandbox *sb)
{
    char why[160];
    if (sb->instance || !sb->runner_ended)
        return;
    runner_close(steal_ptr(sb->runner));
    if (sb->state != SANDBOX_CRASHED)
        set_failure(sb, "its runner ended");
    if (WIFSIGNALED(sb->exit_status))
        snprintf(why, sizeof(why), "%s (PID 1 was killed by signal %d)", sb->failure.message,
                 WTERMSIG(sb->exit_status));
    else
        snprintf(why, sizeof(why), "%s (PID 1 exited with %d)", sb->failure.message,
                 WEXITSTATUS(sb->exit_status));
    set_failure(sb, why);
    sb->state = SANDBOX_CRASHED;
    sb->manager->counts.crashed_total++;
    log_warn("sandbox crashed id=%s: %s", sb->id, why);
    record_crash(sb);
    gateway_streams_free(sb);
    exec_fail_all(sb, EXEC_FAILED, true, why);
    update_idle(sb);
    if (sb->pooled)
        sandbox_delete(sb, NULL);
}

/* The connection ended or the runner misbehaved. */
void sandbox_break(struct sandbox *sb, const char *why)
{
    if (sb->state == SANDBOX_CREATING)
        sb->runner_ended = true; /* ready_when_settled() sees to it */
    if (sb->state != SANDBOX_READY)
        return;
    sandbox_ref(sb); /* whoever waits for its execs may delete it */
    set_failure(sb, why);
    sb->state = SANDBOX_CRASHED;
    sb->runner_ended = true;
    update_idle(sb);
    if (sb->instance)
        sb->ops->stop(sb->instance);
    crash_when_settled(sb);
    sandbox_unref(sb);
}

static void on_runtime_exited(void *data, int wait_status, uint64_t oom_kills)
{
    struct sandbox *sb = data;
    sb->instance = NULL;
    sb->exit_status = wait_status;
    if (oom_kills > sb->oom_kills_seen && sb->state != SANDBOX_STOPPING)
        set_failure(sb, "out of memory: the kernel killed it at its memory limit");
    if (sb->state == SANDBOX_STOPPING)
        gone(sb);
    else if (sb->state == SANDBOX_CRASHED || sb->state == SANDBOX_READY)
        crash_when_settled(sb);
    sandbox_unref(sb);
}

static void say_gone(struct sandbox *sb, const struct error *err)
{
    wake(&sb->waiters_gone, sb, err);
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

static void gone(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    sb->state = SANDBOX_GONE;
    list_remove(&sb->idle_node);
    list_remove(&sb->dirty_node);
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
    m->counts.sandboxes--;
    m->counts.deleted_total++;
    if (!wait)
        say_gone(sb, NULL);
    if (m->closing && list_empty(&m->all) && m->on_closed) {
        void (*on_closed)(void *) = steal_ptr(m->on_closed);
        on_closed(m->closed_data);
    }
}

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
    fault_point("delete.begin");
    list_remove(&sb->idle_node);
    runner_close(steal_ptr(sb->runner));
    gateway_streams_free(sb);
    exec_fail_all(sb, EXEC_CANCELED, false, "the sandbox was deleted");
    error_set(&err, ERROR_CONFLICT, 0, "sandbox %s was deleted while it was created", sb->id);
    wake(&sb->waiters_ready, sb, &err);
    fault_point("delete.before-kill");
    if (sb->instance)
        sb->ops->stop(sb->instance);
    else
        gone(sb);
    sandbox_unref(sb);
}

/* --- the start of a sandbox */

static void start_failed(struct sandbox *sb, const struct error *err)
{
    struct error copy = *err;
    sb->instance = NULL;
    if (sb->restored && sb->state == SANDBOX_CREATING) {
        sb->manager->counts.creating--;
        sb->state = SANDBOX_CRASHED;
        set_failure(sb, err->message);
        record_crash(sb);
        exec_fail_all(sb, EXEC_FAILED, true, err->message);
        wake(&sb->waiters_ready, sb, &copy);
        update_idle(sb);
        sandbox_unref(sb);
        return;
    }
    sb->manager->counts.create_failed_total++;
    if (sb->state == SANDBOX_CREATING) {
        sb->manager->counts.creating--;
        sb->state = SANDBOX_STOPPING;
        wake(&sb->waiters_ready, sb, &copy);
    }
    gone(sb);
    sandbox_unref(sb);
}

static void fail_creating(struct sandbox *sb, const struct error *err)
{
    sandbox_ref(sb);
    wake(&sb->waiters_ready, sb, err);
    sandbox_delete(sb, NULL);
    sandbox_unref(sb);
}

/* READY needs both: a runner that answers, and a row that outlives us. */
static void ready_when_settled(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    struct error err = {0};
    if (sb->state != SANDBOX_CREATING || !sb->started || sb->rows_pending)
        return;
    if (sb->runner_ended || !sb->instance) {
        error_set(&err, ERROR_CRASH, 0, "sandbox %s died while it was created", sb->id);
        fail_creating(sb, &err);
        return;
    }
    sb->state = SANDBOX_READY;
    m->counts.creating--;
    m->counts.created_total++;
    update_idle(sb);
    fault_point("create.before-answer");
    sandbox_ref(sb);
    if (sb->pooled)
        pool_on_ready(m->pool, sb);
    wake(&sb->waiters_ready, sb, NULL);
    fault_point("create.answered");
    if (sb->runner)
        runner_flush(sb->runner);
    sandbox_unref(sb);
}

static void on_row_written(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    sb->rows_pending--;
    if (err && sb->state == SANDBOX_CREATING) {
        struct error copy = {0};
        error_set(&copy, ERROR_NO_SPACE, 0, "the sandbox cannot be recorded: %s", err->message);
        fail_creating(sb, &copy);
    }
    ready_when_settled(sb);
    sandbox_unref(sb);
}

static void write_row(struct sandbox *sb)
{
    if (!persist_wants_sandbox(sb))
        return;
    sb->rows_pending++;
    persist_sandbox(sandbox_ref(sb), on_row_written, sb);
}

void sandbox_set_note(struct sandbox *sb, const char *note)
{
    free(sb->note);
    sb->note = xstrdup(note);
    write_row(sb);
}

static void on_runtime_started(void *data, int runner_fd, const struct effective *effective,
                               const struct error *err)
{
    struct sandbox *sb = data;
    if (err) {
        start_failed(sb, err);
        return;
    }
    if (sb->state != SANDBOX_CREATING) {
        fd_close(&runner_fd);
        return;
    }
    fault_point("create.started");
    struct manager *m = sb->manager;
    sb->effective = *effective;
    sb->started = true;
    sb->runner =
        runner_new(m->options.loop, runner_fd, m->options.generation, &exec_runner_events, sb);
    ready_when_settled(sb);
}

static const struct runtime_events runtime_events = {
    .on_started = on_runtime_started,
    .on_exited = on_runtime_exited,
};

static char *alias_key(const char *owner, const char *alias)
{
    return xasprintf("%s\n%s", owner, alias);
}

static int check_name(struct manager *m, const char *id, const char *key, struct error *err)
{
    if (m->closing)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the daemon is shutting down");
    if (map_find(m->by_id, id) || (key && map_find(m->by_alias, key)))
        return error_set(err, ERROR_CONFLICT, 0, "a sandbox with this id exists already");
    return 0;
}

static int check_admission(struct manager *m, const char *id, const char *key, struct error *err)
{
    int r = check_name(m, id, key, err);
    if (r < 0)
        return r;
    if (m->counts.sandboxes >= m->options.max_sandboxes)
        return error_set(err, ERROR_LIMIT, 0, "there are %zu sandboxes already (max_sandboxes)",
                         m->options.max_sandboxes);
    return 0;
}

static void enter_tables(struct manager *m, struct sandbox *sb)
{
    map_put(m->by_id, sb->id, sb);
    if (sb->alias_key)
        map_put(m->by_alias, sb->alias_key, sb);
    list_append(&m->all, &sb->node);
    m->counts.sandboxes++;
    m->counts.creating++;
}

static struct sandbox *sandbox_new(struct manager *m, const struct spec *spec, const char *owner,
                                   const char *id)
{
    struct sandbox *sb = new0(struct sandbox);
    sb->manager = m;
    sb->journals.limit = m->options.journal_sandbox_bytes;
    sb->refs = 2; /* the tables and the runtime */
    snprintf(sb->id, sizeof(sb->id), "%s", id);
    sb->owner = xstrdup(owner);
    spec_copy(&sb->spec, spec);
    sb->created_ns = clock_real_ns();
    sb->created_ms = clock_mono_ms();
    /* Ids of one control plane never meet those of another. */
    sb->next_stream = (uint32_t)(m->options.generation & 0x7ff) << 21 | 1;
    sb->next_request = m->options.generation << 32 | 1;
    sb->execs_by_id = map_new();
    list_init(&sb->waiters_ready);
    list_init(&sb->waiters_gone);
    list_init(&sb->node);
    list_init(&sb->idle_node);
    list_init(&sb->dirty_node);
    list_init(&sb->pool_node);
    snprintf(sb->runtime_id, sizeof(sb->runtime_id), "%s", id);
    list_init(&sb->execs);
    list_init(&sb->running);
    return sb;
}

static int start_sandbox(struct sandbox *sb, struct error *err)
{
    struct manager *m = sb->manager;
    enter_tables(m, sb);
    fault_point("create.before-row");
    write_row(sb);
    fault_point("create.before-plan");
    sb->instance =
        sb->ops->start(m->options.host, sb->runtime_id, &sb->spec, &runtime_events, sb, err);
    fault_point("create.plan-sent");
    if (sb->instance)
        return 0;
    start_failed(sb, err);
    return -EINVAL;
}

struct sandbox *sandbox_create_pooled(struct manager *m, const struct spec *spec, struct error *err)
{
    char id[PLAN_ID_SIZE] = "sbx-";
    random_id(id + 4, RANDOM_ID_LEN);
    if (check_admission(m, id, NULL, err) < 0)
        return NULL;
    struct sandbox *sb = sandbox_new(m, spec, "", id);
    sb->ops = runtime_find(spec->runtime);
    sb->hidden = sb->pooled = true;
    if (!sb->ops) {
        error_field(err, "runtime", "there is no runtime '%s' in this build", spec->runtime);
        sb->state = SANDBOX_GONE;
        sb->refs = 1;
        sandbox_unref(sb);
        return NULL;
    }
    return start_sandbox(sb, err) < 0 ? NULL : sb;
}

/* A pooled sandbox becomes a caller's: a name, an owner and an environment of its own. */
static void give_away(struct sandbox *sb, const struct spec *spec, const char *owner,
                      const char *id)
{
    struct manager *m = sb->manager;
    map_remove(m->by_id, sb->id);
    list_remove(&sb->node);
    m->counts.sandboxes--;
    m->counts.created_total--;
    snprintf(sb->id, sizeof(sb->id), "%s", id);
    free(sb->owner);
    sb->owner = xstrdup(owner);
    spec_done(&sb->spec);
    spec_copy(&sb->spec, spec);
    sb->pooled = false;
    sb->state = SANDBOX_CREATING;
    sb->created_ns = clock_real_ns();
    sb->created_ms = clock_mono_ms();
}

static struct sandbox *claim(struct manager *m, const struct spec *spec, const char *owner,
                             const char *id)
{
    struct sandbox *sb = pool_claim(m->pool, spec);
    if (sb)
        give_away(sb, spec, owner, id);
    return sb;
}

struct sandbox *sandbox_create(struct manager *m, const struct spec *spec, const char *owner,
                               const char *name, const char *alias, bool hidden, struct error *err)
{
    char id[PLAN_ID_SIZE] = "sbx-";
    _cleanup_free_ char *key = alias ? alias_key(owner, alias) : NULL;
    if (name)
        snprintf(id + 4, sizeof(id) - 4, "%s", name);
    else
        random_id(id + 4, RANDOM_ID_LEN);
    const struct runtime_ops *ops = runtime_find(spec->runtime);
    if (!ops) {
        error_field(err, "runtime", "there is no runtime '%s' in this build", spec->runtime);
        err->code = ERROR_UNSUPPORTED;
        return NULL;
    }
    struct sandbox *pooled = NULL;
    int r = check_name(m, id, key, err);
    if (r >= 0)
        pooled = claim(m, spec, owner, id);
    if (r >= 0 && !pooled)
        r = check_admission(m, id, key, err);
    if (r < 0)
        return NULL;
    struct sandbox *sb = pooled ? pooled : sandbox_new(m, spec, owner, id);
    sb->ops = ops;
    sb->hidden = hidden;
    sb->alias = alias ? xstrdup(alias) : NULL;
    sb->alias_key = steal_ptr(key);
    if (!pooled)
        return start_sandbox(sb, err) < 0 ? NULL : sb;
    enter_tables(m, sb);
    write_row(sb);
    ready_when_settled(sb);
    return sb;
}

/* A sandbox whose adoption fails is one that died with the earlier control plane. */
struct sandbox *sandbox_restore(struct manager *m, const struct spec *spec, const char *owner,
                                const char *id, const char *runtime_id, const char *alias,
                                const char *note, const char *failure, int64_t created_ns,
                                bool alive)
{
    struct error err = {0};
    struct sandbox *sb = sandbox_new(m, spec, owner, id);
    sb->ops = runtime_find(spec->runtime);
    sb->created_ns = created_ns;
    snprintf(sb->runtime_id, sizeof(sb->runtime_id), "%s", runtime_id);
    sb->alias = alias ? xstrdup(alias) : NULL;
    sb->alias_key = alias ? alias_key(owner, alias) : NULL;
    sb->note = note ? xstrdup(note) : NULL;
    sb->restored = true;
    enter_tables(m, sb);
    if (m->options.on_restored)
        m->options.on_restored(sb, note);
    if (alive && sb->ops && sb->ops->adopt)
        sb->instance =
            sb->ops->adopt(m->options.host, sb->runtime_id, spec, &runtime_events, sb, &err);
    if (!sb->instance) {
        set_failure(sb, failure ? failure : "the daemon ended and took it along");
        sb->state = SANDBOX_CRASHED;
        m->counts.creating--;
        sandbox_unref(sb); /* the runtime's */
        update_idle(sb);
    }
    return sb;
}

/* --- the manager */

static void expire_idle(struct manager *m)
{
    if (!m->options.idle_ttl_ms)
        return;
    int64_t limit = clock_mono_ms() - (int64_t)m->options.idle_ttl_ms;
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

static void expire_creating(struct manager *m)
{
    int64_t limit = clock_mono_ms() - (int64_t)m->options.create_timeout_ms;
    if (!m->counts.creating)
        return;
    list_for_each_safe(sb, &m->all, struct sandbox, node)
    {
        struct error err = {0};
        if (sb->state != SANDBOX_CREATING || sb->created_ms > limit)
            continue;
        error_set(&err, ERROR_TIMEOUT, 0,
                  "the sandbox was not ready in time "
                  "(create_ready_timeout)");
        fail_creating(sb, &err);
        return; /* the list may have changed: the rest next time */
    }
}

static void flush_dirty(struct manager *m)
{
    while (!list_empty(&m->dirty)) {
        struct sandbox *sb = container_of(m->dirty.next, struct sandbox, dirty_node);
        list_remove(&sb->dirty_node);
        sb->n_unflushed = 0;
        if (sb->runner)
            runner_flush(sb->runner);
    }
}

static void on_tick(void *data)
{
    struct manager *m = data;
    expire_creating(m);
    expire_idle(m);
    expire_execs(m);
    restore_sweep(m);
    flush_dirty(m);
}

struct manager *manager_new(const struct manager_options *o)
{
    struct manager *m = new0(struct manager);
    m->options = *o;
    m->by_id = map_new();
    m->by_alias = map_new();
    list_init(&m->all);
    list_init(&m->idle);
    list_init(&m->finished);
    list_init(&m->dirty);
    loop_timer_init(&m->tick, o->loop, on_tick, m);
    loop_timer_start_every(&m->tick, TICK_MS);
    m->pool = pool_new(m, &o->pool);
    return m;
}

void manager_free(struct manager *m)
{
    if (!m)
        return;
    map_free(m->by_id);
    map_free(m->by_alias);
    pool_free(m->pool);
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
    /* A deletion that ends at once takes itself, and nothing else, out of the list. */
    list_for_each_safe(sb, &m->all, struct sandbox, node) sandbox_delete(sb, NULL);
}

bool manager_is_resuming(const struct manager *m)
{
    list_for_each(sb, &m->all, struct sandbox, node)
    {
        bool lives = sb->state == SANDBOX_CREATING || sb->state == SANDBOX_READY;
        if (sb->restored && lives && sb->instance && !sb->resumed)
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

/* --- looking */

struct sandbox *sandbox_find(struct manager *m, const char *owner, const char *id_or_alias)
{
    struct sandbox *sb = map_find(m->by_id, id_or_alias);
    if (sb && (strcmp(sb->owner, owner) == 0 || !*owner))
        return sb;
    _cleanup_free_ char *key = alias_key(owner, id_or_alias);
    return map_find(m->by_alias, key);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp((*(struct sandbox *const *)a)->id, (*(struct sandbox *const *)b)->id);
}

size_t sandbox_list(struct manager *m, const char *owner, const char *after, struct sandbox **ret,
                    size_t max)
{
    size_t n = 0;
    struct sandbox **all = xcalloc(m->counts.sandboxes + 1, sizeof(*all));
    list_for_each(sb, &m->all, struct sandbox, node)
    {
        if (sb->hidden || (*owner && strcmp(sb->owner, owner) != 0))
            continue;
        if (!after || strcmp(sb->id, after) > 0)
            all[n++] = sb;
    }
    qsort(all, n, sizeof(*all), compare_ids);
    n = n < max ? n : max;
    memcpy(ret, all, n * sizeof(*all));
    free(all);
    return n;
}

const char *sandbox_id(const struct sandbox *sb)
{
    return sb->id;
}

const char *sandbox_alias(const struct sandbox *sb)
{
    return sb->alias;
}

enum sandbox_state sandbox_state(const struct sandbox *sb)
{
    return sb->state;
}

const char *sandbox_state_name(enum sandbox_state s)
{
    return s < _SANDBOX_STATE_MAX ? state_names[s] : "unknown";
}

const struct spec *sandbox_spec(const struct sandbox *sb)
{
    return &sb->spec;
}

const struct effective *sandbox_effective(const struct sandbox *sb)
{
    return &sb->effective;
}

const struct error *sandbox_failure(const struct sandbox *sb)
{
    return &sb->failure;
}

int64_t sandbox_created_ns(const struct sandbox *sb)
{
    return sb->created_ns;
}

int64_t sandbox_last_exec_ns(const struct sandbox *sb)
{
    return sb->last_exec_ns;
}

struct manager *sandbox_manager(const struct sandbox *sb)
{
    return sb->manager;
}

void sandbox_attach(struct sandbox *sb, void *data, void (*free_data)(void *))
{
    sb->attached = data;
    sb->free_attached = free_data;
}

void *sandbox_attached(const struct sandbox *sb)
{
    return sb->attached;
}

void sandbox_stats(struct sandbox *sb, void (*cb)(void *data, const struct runtime_stats *stats),
                   void *data)
{
    if (sb->instance && sb->ops->stats)
        sb->ops->stats(sb->instance, cb, data);
    else
        cb(data, NULL);
}
