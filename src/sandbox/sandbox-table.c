/* SPDX-License-Identifier: Apache-2.0 */
/* Records of sandboxes: references, waiters, the tables that know them, and what others may look
 * at. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/alloc.h"
#include "sandbox/internal.h"
#include "sandbox/snapshot-internal.h"
#include "sandbox/owner.h"

static const char *const state_names[] = {"creating", "ready", "crashed", "terminating", "gone"};
static_assert(ELEMENTS(state_names) == _SANDBOX_STATE_MAX, "a name per state");

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
    /* A runtime's instance points back here. It must be gone before the memory is, or its last
     * event would find freed memory. */
    assert(sb->state == SANDBOX_GONE && !sb->instance);
    spec_done(&sb->spec);
    map_free(sb->execs_by_id);
    free(sb->alias);
    free(sb->alias_key);
    free(sb->owner);
    sandbox_policy_free(sb->policy);
    free(sb);
}

/* --- waiting */

void sandbox_waiter_cancel(struct sandbox_waiter *w)
{
    if (w->node.next)
        list_remove(&w->node);
}

/* Each is taken out before it is called: it may free itself, or cancel others that are still in the
 * list. */
void sandbox_wake(struct list *waiters, struct sandbox *sb, const struct error *err)
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
        if (sb->paused)
            return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is paused", sb->id);
        if (sb->returning || sb->forgets)
            return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being restored", sb->id);
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

/* --- tables */

/* A newline is in no id of a key, so that no alias can be made to look like another owner's. */
char *sandbox_alias_key(const char *owner, const char *alias)
{
    return xasprintf("%s\n%s", owner, alias);
}

void sandbox_enter_tables(struct manager *m, struct sandbox *sb)
{
    map_put(m->by_id, sb->id, sb);
    if (sb->alias_key)
        map_put(m->by_alias, sb->alias_key, sb);
    list_append(&m->all, &sb->node);
    owner_enter(sb);
    if (spec_has_network(&sb->spec))
        sandbox_watch_network(sb);
    m->counts.sandboxes++;
    m->counts.creating++;
}

/* Finds no helpers and no pooled sandboxes. Helpers have walls that commands must not run behind,
 * and pooled ones have no owner yet; ids of both are in the audit or the log, where callers can
 * read them, so an id alone must not be a way in. */
struct sandbox *sandbox_find(struct manager *m, const char *owner, const char *id_or_alias)
{
    struct sandbox *sb = map_find(m->by_id, id_or_alias);
    /* An id of another owner's sandbox may be an alias of the caller's own. It is looked up as
     * such, and the answer does not say that the other one exists. */
    if (!sb || (strcmp(sb->owner, owner) != 0 && *owner)) {
        _cleanup_free_ char *key = sandbox_alias_key(owner, id_or_alias);
        sb = map_find(m->by_alias, key);
    }
    return sb && !sb->hidden && !sb->pooled ? sb : NULL;
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
    list_for_each(sb, &m->all, struct sandbox, node) {
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

/* --- looking */

const char *sandbox_id(const struct sandbox *sb)
{
    return sb->id;
}

const char *sandbox_alias(const struct sandbox *sb)
{
    return sb->alias;
}

const char *sandbox_generation(const struct sandbox *sb)
{
    return sb->generation;
}

bool sandbox_is_restored(const struct sandbox *sb)
{
    return sb->restored;
}

const char *sandbox_owner(const struct sandbox *sb)
{
    return sb->owner;
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

/* One that has not said yet what it can do was started by this release. */
bool sandbox_pins_named(const struct sandbox *sb)
{
    const struct runner *r = sandbox_runner(sb);
    return !r || !sb->resumed || (runner_features(r) & RUNNER_PINS_NAMED);
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

struct sandbox_policy *sandbox_policy(const struct sandbox *sb)
{
    return sb->policy;
}

void sandbox_stats(struct sandbox *sb, void (*cb)(void *data, const struct runtime_stats *stats),
                   void *data)
{
    if (sb->instance && sb->ops->stats)
        sb->ops->stats(sb->instance, cb, data);
    else
        cb(data, NULL);
}

void manager_for_each_image(const struct manager *m, void (*cb)(void *arg, const char *digest),
                            void *arg)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        if (sb->spec.image_digest && sb->state != SANDBOX_CRASHED)
            cb(arg, sb->spec.image_digest);
    }
    list_for_each(k, &m->snapshots, struct snapshot, node) {
        if (k->image)
            cb(arg, k->image);
    }
}

struct manager_storage manager_storage(const struct manager *m)
{
    const struct journal_options *o = &m->options.journal;
    struct manager_storage storage = {
        .reserve_bytes = 2 * o->room.reserve_bytes,
        .claimed_bytes = claims_read(o->room.claims_fd, _CLAIMS_SLOTS),
    };
    struct statfs fs;
    if (fstatfs(o->dir_fd, &fs) == 0)
        storage.free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    list_for_each(sb, &m->all, struct sandbox, node) {
        const struct effective *e = &sb->effective;
        if (e->by[WALL_DISK] && !e->disk_in_memory && !sb->ops->lives_elsewhere)
            storage.promised_bytes += e->limits.disk_bytes;
    }
    return storage;
}
