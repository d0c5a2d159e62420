/* SPDX-License-Identifier: Apache-2.0 */
/* See limits.h. */
#include "warden/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "warden/state.h"

static const enum wall cgroup_walls[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};

int limits_refuse(struct plan_reply *reply, enum wall wall, int error, const char *why)
{
    reply->wall = (int)wall;
    snprintf(reply->message, sizeof(reply->message), "%s cannot be limited: %s", wall_name(wall),
             why);
    return error;
}

static const char *why_not(enum wall wall, const struct warden *w, int error)
{
    if (wall == WALL_MEMORY && error == -EBUSY)
        return "an empty sandbox needs more than this limit";
    if (error != -EOPNOTSUPP)
        return strerror(-error);
    if (wall == WALL_IO && w->cgroups.driver == &cgroup_v1)
        return "cgroup version 1 does not throttle buffered writes";
    if (wall == WALL_IO && w->cgroups.driver && w->cgroups.has[CGROUP_IO])
        return "not all of its files are on disks";
    return "this warden has no cgroup for it";
}

static int limit_mounts(struct cell *s, const struct limits *limits)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < s->order.n_mounts; i++)
        r = cgroup_limit_disk(&s->cgroup, s->trees.mounts[i], limits);
    if (r == 0 && s->trees.image >= 0)
        r = cgroup_limit_disk(&s->cgroup, s->trees.image, limits);
    return r;
}

/* Must run before the order is sent: the child then never runs a program unlimited. */
static int apply_wall(struct cell *s, const struct plan *p, const struct limits *limits,
                      enum wall wall, unsigned means, struct plan_reply *reply)
{
    const struct warden *w = s->warden;
    bool by_group = wall != WALL_PROCESSES || means & LIMITS_COUNT_IN_GROUP;
    if (!limits_of_wall(limits, wall))
        return 0;
    int r = by_group ? cgroup_limit(&s->cgroup, wall, limits) : -EOPNOTSUPP;
    if (r == 0 && wall == WALL_IO)
        r = limit_mounts(s, limits);
    if (r == 0) {
        s->mechanism[wall] = (uint8_t)cgroup_root_enforces(&w->cgroups, wall);
        return 0;
    }
    if (wall == WALL_PROCESSES && means & LIMITS_COUNT_BY_UID) {
        s->order.process_rlimit = limits->processes;
        s->mechanism[wall] = MECHANISM_RLIMIT;
        return 0;
    }
    if (limits_of_wall(&p->limits, wall) && !p->weaker[wall])
        return limits_refuse(reply, wall, r, why_not(wall, w, r));
    return 0;
}

/* A tmpfs is charged to memory: over the memory limit it ends in an OOM kill, not in ENOSPC. */
static bool tmpfs_fits(const struct cell *s, const struct limits *limits, uint64_t bytes)
{
    const struct warden_options *o = &s->warden->options;
    if (s->mechanism[WALL_MEMORY] == MECHANISM_NONE)
        return bytes <= o->config.tmpfs_max_bytes;
    return bytes <= limits->memory_bytes &&
           limits->memory_bytes - bytes >= o->config.memory_reserve_bytes;
}

/* The size where the caller asked for none: the default, or what the memory limit leaves. */
static uint64_t default_disk(const struct cell *s, const struct limits *limits)
{
    const struct warden_options *o = &s->warden->options;
    if (tmpfs_fits(s, limits, o->disk_default_bytes))
        return o->disk_default_bytes;
    if (limits->memory_bytes > 2 * o->config.memory_reserve_bytes)
        return limits->memory_bytes - o->config.memory_reserve_bytes;
    return limits->memory_bytes / 2;
}

/* An overlay without rights over the host keeps its marks in user attributes. Without them it
 * works, but directories of the image can be neither removed nor replaced. */
static bool tmpfs_suits(const struct cell *s)
{
    const struct warden *w = s->warden;
    return !s->ops->has_user_overlay || s->trees.image < 0 || w->tmpfs_attributes ||
           !w->disks.usable;
}

/* A disk in memory where it fits, because making one costs nothing; else an image on a loop device.
 * One that was asked for and can be neither is refused, unless the plan accepts that. */
int limits_apply_disk(struct cell *s, const struct plan *p, const struct limits *limits,
                      struct plan_reply *reply)
{
    const struct warden *w = s->warden;
    struct child_order *o = &s->order;
    bool asked = limits->disk_bytes != 0;
    o->disk_bytes = asked ? limits->disk_bytes : default_disk(s, limits);
    o->disk_inodes =
        limits->disk_inodes ? limits->disk_inodes : w->options.config.disk_default_inodes;
    s->mechanism[WALL_DISK] = MECHANISM_TMPFS;
    if ((!asked || tmpfs_fits(s, limits, o->disk_bytes)) && tmpfs_suits(s))
        return 0;
    if (w->disks.usable) {
        o->disk_from_fd = 1;
        s->mechanism[WALL_DISK] = MECHANISM_LOOP;
        return 0;
    }
    s->mechanism[WALL_DISK] = MECHANISM_NONE;
    if (p->weaker[WALL_DISK])
        return 0;
    return limits_refuse(reply, WALL_DISK, -EOPNOTSUPP,
                         "it does not fit the memory limit, and loop devices are not available");
}

/* For an armed blank, whose limits were written before there was a plan: walls that this plan
 * demands and the blank does not have are refused now. */
int limits_check(const struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++) {
        enum wall wall = cgroup_walls[i];
        if (limits_of_wall(&p->limits, wall) && !p->weaker[wall] && !s->mechanism[wall])
            return limits_refuse(reply, wall, -EOPNOTSUPP, why_not(wall, s->warden, -EOPNOTSUPP));
    }
    return 0;
}

int limits_apply_groups(struct cell *s, const struct plan *p, const struct limits *limits,
                        unsigned means, struct plan_reply *reply)
{
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++) {
        int r = apply_wall(s, p, limits, cgroup_walls[i], means, reply);
        if (r < 0)
            return r;
    }
    s->ops->describe_walls(s->warden, (enum oci_backend)p->backend, s->mechanism);
    /* The order says no more than is enforced already: an OCI runtime writes these limits, too. */
    struct limits *o = &s->order.limits;
    *o = *limits;
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++)
        if (!s->mechanism[cgroup_walls[i]])
            limits_drop_wall(o, cgroup_walls[i]);
    if (s->order.process_rlimit)
        o->processes = 0;
    return 0;
}

int limits_apply(struct cell *s, const struct plan *p, const struct limits *limits,
                 struct plan_reply *reply)
{
    return s->ops->apply_limits ? s->ops->apply_limits(s, p, limits, reply) : 0;
}
