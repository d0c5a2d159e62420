#include "sandbox/owner.h"

#include <string.h>

#include "base/alloc.h"
#include "sandbox/internal.h"

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
    sb->use = get_use(sb->manager, sb->owner);
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

int owner_check_sandbox(const struct manager *m, const char *owner, struct error *err)
{
    const struct owner_use *u = map_find(m->owners, owner);
    struct owner_quota q = find_quota(m, owner);
    if (!q.sandboxes || !u || u->sandboxes < q.sandboxes)
        return 0;
    return error_set(err, ERROR_LIMIT, 0, "this key has %zu sandboxes already (max_sandboxes)",
                     u->sandboxes);
}

int owner_check_exec(const struct sandbox *sb, struct error *err)
{
    struct owner_quota q = find_quota(sb->manager, sb->owner);
    if (!q.execs || sb->use->execs < q.execs)
        return 0;
    return error_set(err, ERROR_LIMIT, 0, "this key has %zu commands running already (max_execs)",
                     sb->use->execs);
}
