/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/owner.h"

#include <string.h>

#include "base/alloc.h"
#include "sandbox/internal.h"

/* Under which name it is counted. Callers without a key are told apart by their addresses, which no
 * key's id is like. */
static const char *counted_as(const char *owner, const char *address)
{
    return *owner ? owner : address;
}

void manager_set_actor(struct manager *m, const char *key)
{
    m->actor = key;
}

void sandbox_keep_actor(struct sandbox *sb)
{
    snprintf(sb->actor, sizeof(sb->actor), "%s", sb->manager->actor ? sb->manager->actor : "");
}

const char *sandbox_actor(const struct sandbox *sb)
{
    return sb->actor;
}

static struct owner_use *get_use(struct manager *m, const char *owner)
{
    struct owner_use *u = map_find(m->owners, owner);
    if (u)
        return u;
    u = xcalloc(1, sizeof(*u) + strlen(owner) + 1);
    strcpy(u->name, owner);
    map_put(m->owners, owner, u);
    return u;
}

/* Commands of a sandbox that is gone end a little later than it does. */
static void forget_unused(struct manager *m, struct owner_use *u)
{
    if (u->sandboxes || u->execs)
        return;
    map_remove(m->owners, u->name);
    free(u);
}

void owner_enter(struct sandbox *sb)
{
    sb->use = get_use(sb->manager, counted_as(sb->owner, sb->address));
    sb->use->sandboxes++;
}

void owner_leave(struct sandbox *sb)
{
    sb->use->sandboxes--;
    forget_unused(sb->manager, sb->use);
}

void owner_exec_started(struct sandbox *sb)
{
    sb->use->execs++;
}

void owner_exec_ended(struct sandbox *sb)
{
    sb->use->execs--;
    forget_unused(sb->manager, sb->use);
}

static struct owner_quota find_quota(const struct manager *m, const char *owner)
{
    struct owner_quota q = {0};
    if (m->options.find_quota)
        m->options.find_quota(m->options.quota_data, owner, &q);
    return q;
}

/* The last part of a limit (the reserve) is for owners who have less than an even share of it. The
 * owner who asks now counts in that share even with nothing yet, so the owners who came first
 * cannot keep a new one out. Callers of this machine without a key have no name and are not held to
 * it. */
static bool takes_reserve(const struct manager *m, const char *name, size_t max, size_t all,
                          size_t own)
{
    size_t reserve = max * m->options.config.reserve_percent / 100;
    return *name && all >= max - reserve && own >= max / (map_count(m->owners) + 1);
}

static int check_share(const struct manager *m, const char *name, const char *what, size_t max,
                       size_t all, size_t own, struct error *err)
{
    if (!takes_reserve(m, name, max, all, own))
        return 0;
    return error_set(
        err, ERROR_LIMIT, 0,
        "this %s has %zu %s, and the rest is reserved for others (key_reserve_percent)",
        strpbrk(name, ".:") ? "address" : "key", own, what);
}

int owner_check_sandbox(const struct manager *m, const struct sandbox_maker *by, struct error *err)
{
    const char *name = counted_as(by->key, by->address);
    const struct owner_use *u = map_find(m->owners, name);
    struct owner_quota q = find_quota(m, by->key);
    if (!q.sandboxes || !u || u->sandboxes < q.sandboxes)
        return check_share(m, name, "sandboxes", m->options.config.max_sandboxes,
                           m->counts.sandboxes, u ? u->sandboxes : 0, err);
    return error_set(err, ERROR_LIMIT, 0, "this key has %zu sandboxes already (max_sandboxes)",
                     u->sandboxes);
}

bool owner_has_room(const struct sandbox *sb)
{
    struct owner_quota q = find_quota(sb->manager, sb->owner);
    return !q.sandboxes || sb->use->sandboxes < q.sandboxes / 2;
}

int owner_check_exec(const struct sandbox *sb, struct error *err)
{
    const struct manager *m = sb->manager;
    struct owner_quota q = find_quota(m, sb->owner);
    if (!q.execs || sb->use->execs < q.execs)
        return check_share(m, sb->use->name, "commands running", m->options.config.max_execs,
                           m->counts.execs_running, sb->use->execs, err);
    return error_set(err, ERROR_LIMIT, 0, "this key has %zu commands running already (max_execs)",
                     sb->use->execs);
}
