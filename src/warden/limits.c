/* See limits.h. */
#include "warden/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "warden/state.h"

static const enum wall cgroup_walls[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};

static int refuse(struct plan_reply *reply, enum wall wall, int error, const char *why)
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

/* A kernel of the sandbox's own counts its processes by their rlimit; the host's threads that it is
 * made of are another number. */
static bool counts_itself(const struct cell *s, enum wall wall)
{
    return wall == WALL_PROCESSES && s->kind == CELL_OCI &&
           oci_flavour((enum oci_backend)s->plan.backend)->own_kernel;
}

/* Of one user in one namespace, the kernel counts the processes of all sandboxes together. */
static bool counts_by_uid(const struct cell *s)
{
    const struct id_range *ids = &s->warden->ids;
    return s->kind != CELL_FENCED || !ids->shared || ids->in_userns;
}

/* Must run before the order is sent: the child then never runs a program unlimited. */
static int apply_wall(struct cell *s, const struct plan *p, const struct limits *limits,
                      enum wall wall, struct plan_reply *reply)
{
    const struct warden *w = s->warden;
    if (!limits_of_wall(limits, wall))
        return 0;
    int r = counts_itself(s, wall) ? -EOPNOTSUPP : cgroup_limit(&s->cgroup, wall, limits);
    if (r == 0 && wall == WALL_IO)
        r = limit_mounts(s, limits);
    if (r == 0) {
        s->mechanism[wall] = (uint8_t)cgroup_root_enforces(&w->cgroups, wall);
        return 0;
    }
    if (wall == WALL_PROCESSES && counts_by_uid(s)) { /* and user namespace: so per sandbox */
        s->order.process_rlimit = limits->processes;
        s->mechanism[wall] = MECHANISM_RLIMIT;
        return 0;
    }
    if (limits_of_wall(&p->limits, wall) && !p->weaker[wall])
        return refuse(reply, wall, r, why_not(wall, w, r));
    return 0;
}

/* A tmpfs is charged to memory: over the memory limit it ends in an OOM kill, not in ENOSPC. */
static bool tmpfs_fits(const struct cell *s, const struct limits *limits, uint64_t bytes)
{
    const struct warden_options *o = &s->warden->options;
    if (s->mechanism[WALL_MEMORY] == MECHANISM_NONE)
        return bytes <= o->tmpfs_max_bytes;
    return bytes <= limits->memory_bytes && limits->memory_bytes - bytes >= o->memory_reserve_bytes;
}

/* The size where nobody asked for one: the default, or what the memory limit leaves. */
static uint64_t default_disk(const struct cell *s, const struct limits *limits)
{
    const struct warden_options *o = &s->warden->options;
    if (tmpfs_fits(s, limits, o->disk_default_bytes))
        return o->disk_default_bytes;
    if (limits->memory_bytes > 2 * o->memory_reserve_bytes)
        return limits->memory_bytes - o->memory_reserve_bytes;
    return limits->memory_bytes / 2;
}

/* Without a file system of its own: no file can be larger than the budget, all of them can. */
static int apply_file_size(struct cell *s, const struct plan *p, const struct limits *limits,
                           struct plan_reply *reply)
{
    s->order.disk_bytes = limits->disk_bytes;
    s->mechanism[WALL_DISK] = MECHANISM_NONE;
    if (!p->limits.disk_bytes || p->weaker[WALL_DISK])
        return 0;
    return refuse(reply, WALL_DISK, -EOPNOTSUPP,
                  "the landlock runtime has no file system of its own");
}

/* An overlay without rights over the host keeps its marks in user attributes. Without them it
 * works, but directories of the image can be neither removed nor replaced. */
static bool tmpfs_suits(const struct cell *s)
{
    const struct warden *w = s->warden;
    bool ours = s->kind == CELL_LOCAL || s->kind == CELL_OCI;
    return !ours || s->trees.image < 0 || w->tmpfs_attributes || !w->disks.usable;
}

static int apply_disk(struct cell *s, const struct plan *p, const struct limits *limits,
                      struct plan_reply *reply)
{
    const struct warden *w = s->warden;
    struct child_order *o = &s->order;
    bool asked = limits->disk_bytes != 0;
    if (s->kind == CELL_FENCED)
        return apply_file_size(s, p, limits, reply);
    o->disk_bytes = asked ? limits->disk_bytes : default_disk(s, limits);
    o->disk_inodes = limits->disk_inodes ? limits->disk_inodes : w->options.disk_default_inodes;
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
    return refuse(reply, WALL_DISK, -EOPNOTSUPP,
                  "it does not fit the memory limit, and loop devices are not available");
}

/* Of throughput, an engine's throttle is asked for only where it is a wall. */
static int check_engine_io(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    const struct engine_message *report = &s->warden->engines.probe[p->backend].report;
    if (!limits_of_wall(&s->order.limits, WALL_IO) || report->mechanism[WALL_IO])
        return 0;
    limits_drop_wall(&s->order.limits, WALL_IO);
    if (!s->engine_must[WALL_IO])
        return 0;
    return refuse(reply, WALL_IO, -EOPNOTSUPP,
                  report->mechanism[WALL_MEMORY] == MECHANISM_CGROUP_V1
                      ? "cgroup version 1 does not throttle buffered writes"
                      : "not all of its files are on disks that the engine can limit");
}

/* What holds of the rest is the broker's to find out, and to refuse. The disk is ours; where it
 * may go depends on the memory limit. */
static int apply_engine(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply)
{
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++) {
        enum wall wall = cgroup_walls[i];
        s->engine_must[wall] = limits_of_wall(&p->limits, wall) && !p->weaker[wall];
    }
    s->mechanism[WALL_MEMORY] = limits->memory_bytes ? MECHANISM_CGROUP_V1 : MECHANISM_NONE;
    s->order.limits = *limits;
    int r = check_engine_io(s, p, reply);
    return r < 0 ? r : apply_disk(s, p, limits, reply);
}

void limits_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism)
{
    bool own_kernel = b && oci_flavour(b)->own_kernel;
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] =
        own_kernel ? MECHANISM_SENTRY : MECHANISM_NAMESPACE;
    mechanism[WALL_SYSCALLS] = own_kernel ? MECHANISM_SENTRY : MECHANISM_SECCOMP;
    if (own_kernel && mechanism[WALL_PROCESSES])
        mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    mechanism[WALL_LANDLOCK] =
        w->child_template.landlock_abi > 0 && !b ? MECHANISM_LANDLOCK : MECHANISM_NONE;
}

void limits_describe_fence(const struct warden *w, uint8_t *mechanism)
{
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_LANDLOCK] = MECHANISM_LANDLOCK;
    mechanism[WALL_NETWORK] = mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    if (w->ids.shared && !w->ids.in_userns && mechanism[WALL_PROCESSES] == MECHANISM_RLIMIT)
        mechanism[WALL_PROCESSES] = MECHANISM_NONE;
}

/* What an OCI runtime is told: no more than is enforced already. */
static void fill_order_limits(struct cell *s, const struct limits *limits)
{
    struct limits *o = &s->order.limits;
    *o = *limits;
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++)
        if (!s->mechanism[cgroup_walls[i]])
            limits_drop_wall(o, cgroup_walls[i]);
    if (s->order.process_rlimit)
        o->processes = 0;
}

int limits_check(const struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++) {
        enum wall wall = cgroup_walls[i];
        if (limits_of_wall(&p->limits, wall) && !p->weaker[wall] && !s->mechanism[wall])
            return refuse(reply, wall, -EOPNOTSUPP, why_not(wall, s->warden, -EOPNOTSUPP));
    }
    return 0;
}

int limits_apply(struct cell *s, const struct plan *p, const struct limits *limits,
                 struct plan_reply *reply)
{
    const struct warden *w = s->warden;
    if (s->kind == CELL_ENGINE)
        return apply_engine(s, p, limits, reply);
    for (size_t i = 0; i < ELEMENTS(cgroup_walls); i++) {
        int r = apply_wall(s, p, limits, cgroup_walls[i], reply);
        if (r < 0)
            return r;
    }
    if (s->kind == CELL_FENCED)
        limits_describe_fence(w, s->mechanism);
    else
        limits_describe_walls(w, (enum oci_backend)p->backend, s->mechanism);
    fill_order_limits(s, limits);
    return apply_disk(s, p, limits, reply);
}
