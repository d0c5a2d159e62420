/* SPDX-License-Identifier: Apache-2.0 */
/* The row of cells in namespaces of the warden's making; child.h says what their processes do. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/pidfd.h>

#include "base/error.h"
#include "base/fd.h"
#include "warden/cell-internal.h"
#include "warden/limits.h"
#include "warden/local/local.h"
#include "warden/local/root.h"
#include "warden/local/zygote.h"

static void local_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism)
{
    (void)b;
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] = MECHANISM_NAMESPACE;
    mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    mechanism[WALL_LANDLOCK] =
        w->child_template.landlock_abi > 0 ? MECHANISM_LANDLOCK : MECHANISM_NONE;
}

static bool local_has_addresses(enum oci_backend b)
{
    (void)b;
    return true;
}

static void local_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    warden_describe_host(w, ret);
    local_describe_walls(w, b, ret->mechanism);
    snprintf(ret->message, sizeof(ret->message), "%s", w->no_namespaces);
    ret->landlock_abi = (uint32_t)w->child_template.landlock_abi;
}

/* From the zygote where there is one, which sets the score of its children itself. */
static int local_clone(struct cell *s, struct cell_ends *ends)
{
    const int fds[] = {ends->stream, ends->channel, ends->failure};
    _cleanup_close_ int cgroup_fd = -1;
    int r = cgroup_open_for_clone(&s->cgroup, &cgroup_fd);
    if (r < 0)
        return r;
    pid_t pid =
        zygote_is_there(s->warden) ? zygote_clone(s->warden, &s->cgroup, cgroup_fd, fds) : -ESRCH;
    if (pid == -ESRCH)
        return cell_clone_into(s, ends, cgroup_fd);
    if (pid < 0)
        return pid;
    s->pid = pid;
    s->pidfd = pidfd_open(pid, 0);
    return s->pidfd < 0 ? -errno : 0;
}

static void local_main(const struct cell *s, const struct cell_ends *ends)
{
    child_main(&s->warden->child_template, ends->in_group ? NULL : &s->cgroup, ends->stream,
               ends->channel, ends->failure);
}

int local_admit(struct cell *s)
{
    const struct warden *w = s->warden;
    int r = id_block_map(&w->ids, s->id_block, w->proc_fd, s->pid);
    if (r < 0)
        return r;
    return cell_admit(s);
}

static unsigned local_wanted_blanks(const struct warden *w)
{
    return w->options.config.blanks;
}

/* So the host has namespaces. Also after a doubt: what was missing at the start may have come back.
 */
static void local_on_ready(struct cell *s)
{
    struct warden *w = s->warden;
    w->blanks_known = true;
    if (warden_has_own_root(w))
        w->no_namespaces[0] = 0;
}

/* When the very first blank fails for want of a right, all will. */
static void local_on_blank_failed(struct warden *w, int error, const char *why)
{
    struct error err = {0};
    if (w->blanks_known)
        return;
    root_refused(&err, error, why);
    if (err.code == ERROR_UNSUPPORTED)
        warden_set_no_namespaces(w, why);
}

/* The kernel counts processes by user and user namespace: so per sandbox. */
static int local_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                              struct plan_reply *reply)
{
    int r = limits_apply_groups(s, p, limits, LIMITS_COUNT_IN_GROUP | LIMITS_COUNT_BY_UID, reply);
    if (r < 0)
        return r;
    return limits_apply_disk(s, p, limits, reply);
}

static void local_describe(const struct cell *s, struct plan_reply *ret)
{
    ret->landlock_abi = (uint32_t)s->warden->child_template.landlock_abi;
}

const struct cell_ops cell_local = {
    .name = "local",
    .size = sizeof(struct cell),
    .start_host = zygote_start,
    .close_host = zygote_stop,
    .needs_namespaces = true,
    .has_authority = true,
    .has_proxy = true,
    .has_addresses = local_has_addresses,
    .probe = local_probe,
    .has_group = true,
    .clone_flags = LOCAL_CLONE_FLAGS,
    .take_ids = cell_take_ids,
    .clone = local_clone,
    .main = local_main,
    .admit = local_admit,
    .wanted_blanks = local_wanted_blanks,
    .arms = true,
    .on_ready = local_on_ready,
    .on_blank_failed = local_on_blank_failed,
    .apply_limits = local_apply_limits,
    .describe_walls = local_describe_walls,
    .has_user_overlay = true,
    .send_order = cell_send_child_order,
    .kill = cell_kill_process,
    .freeze = cell_freeze_group,
    .read_stats = cell_read_group_stats,
    .disk = "/var/tmp", /* always a part of it; /workspace may be a mount of the caller's */
    .describe = local_describe,
};
