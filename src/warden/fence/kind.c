/* SPDX-License-Identifier: Apache-2.0 */
/* The row of cells without namespaces; see fence.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/cell-internal.h"
#include "warden/fence/fence.h"
#include "warden/limits.h"

struct fence_cell {
    struct cell cell;
    int id_lock_fd; /* while it is open, no other daemon takes these ids; -1: there is no lock */
};

static struct fence_cell *fence_cell(struct cell *s)
{
    return container_of(s, struct fence_cell, cell);
}

static int fence_sweep(const struct warden_options *o)
{
    return fence_dir_sweep(o->fence_dir);
}

static bool fence_takes(const struct plan *p)
{
    return p->flags & PLAN_LANDLOCK;
}

static int fence_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    (void)p;
    if (!fence_host(w)->why[0])
        return 0;
    snprintf(reply->message, sizeof(reply->message), "the landlock runtime is not available: %s",
             fence_host(w)->why);
    return -EOPNOTSUPP;
}

/* Of one user in one user namespace, the kernel counts the processes of all sandboxes together. */
static bool counts_by_uid(const struct warden *w)
{
    return !w->ids.shared || w->ids.in_userns;
}

static void fence_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism)
{
    (void)b;
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_LANDLOCK] = MECHANISM_LANDLOCK;
    mechanism[WALL_NETWORK] = mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    if (!counts_by_uid(w) && mechanism[WALL_PROCESSES] == MECHANISM_RLIMIT)
        mechanism[WALL_PROCESSES] = MECHANISM_NONE;
}

static void fence_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    fence_describe_walls(w, b, ret->mechanism);
    ret->landlock_abi = (uint32_t)w->child_template.landlock_abi;
    if (fence_check(w, NULL, ret) < 0)
        ret->error = EOPNOTSUPP;
}

static int64_t fence_take_ids(struct cell *s)
{
    return fence_ids_take(s->warden, &fence_cell(s)->id_lock_fd);
}

/* clone3() is missing where a host's own filter does not know it, as in some containers. */
static int fence_fork(struct cell *s, struct cell_ends *ends)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* see stray.c */
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        fence_main(s, ends);
    s->pid = pid;
    s->pidfd = pidfd_open(pid, 0);
    if (s->pidfd < 0)
        return -errno;
    cell_set_oom_score(s);
    return 0;
}

static int fence_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                              struct plan_reply *reply)
{
    unsigned means = LIMITS_COUNT_IN_GROUP | (counts_by_uid(s->warden) ? LIMITS_COUNT_BY_UID : 0);
    int r = limits_apply_groups(s, p, limits, means, reply);
    if (r < 0)
        return r;
    /* There is no file system of its own, so that only RLIMIT_FSIZE applies: a single file stays
     * within the budget, their sum may not. */
    s->order.disk_bytes = limits->disk_bytes;
    s->mechanism[WALL_DISK] = MECHANISM_NONE;
    if (!p->limits.disk_bytes || p->weaker[WALL_DISK])
        return 0;
    return limits_refuse(reply, WALL_DISK, -EOPNOTSUPP,
                         "the landlock runtime has no file system of its own");
}

/* Asks the keeper, which may have been stopped where it is of the same user as the commands. */
static int fence_kill_cell(struct cell *s)
{
    if (s->pidfd < 0)
        return 0;
    int r = pidfd_send_signal(s->pidfd, SIGTERM, NULL, 0) < 0 ? -errno : 0;
    pidfd_send_signal(s->pidfd, SIGCONT, NULL, 0);
    return r == -ESRCH ? 0 : r;
}

static void fence_describe(const struct cell *s, struct plan_reply *ret)
{
    ret->landlock_abi = (uint32_t)s->warden->child_template.landlock_abi;
    fence_box_path(s, ret->box, sizeof(ret->box));
}

static void fence_end(struct cell *s)
{
    fence_end_strays(s->warden, s);
    fd_close(&fence_cell(s)->id_lock_fd);
}

const struct cell_ops cell_fenced = {
    .name = "landlock",
    .size = sizeof(struct fence_cell),
    .open_host = fence_host_open,
    .start_host = fence_host_start,
    .close_host = fence_host_close,
    .sweep_host = fence_sweep,
    .takes = fence_takes,
    .check = fence_check,
    .probe = fence_probe,
    .has_group = true,
    .take_ids = fence_take_ids,
    .clone = fence_fork,
    .admit = cell_admit,
    .apply_limits = fence_apply_limits,
    .describe_walls = fence_describe_walls,
    .send_order = cell_send_child_order,
    .kill = fence_kill_cell,
    .freeze = cell_freeze_group,
    .read_stats = cell_read_group_stats,
    .describe = fence_describe,
    .end = fence_end,
};
