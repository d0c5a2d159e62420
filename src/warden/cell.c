/* SPDX-License-Identifier: Apache-2.0 */
/* See cell.h and the states in state.h. Nothing in cell*.c waits: a create goes on when the child
 * closes its failure pipe (cell-start.c), an end when its pidfd becomes readable (cell-end.c);
 * cgroups are removed by the janitor. */
#include "warden/cell-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/channel.h"
#include "base/map.h"
#include "warden/local/mount.h"

struct cell *cell_find(const struct warden *w, const char *id)
{
    return map_find(w->by_id, id);
}

bool cell_exists(const struct warden *w, const char *id)
{
    bool found = cell_find(w, id);
    for (int kind = 0; kind < _CELL_KIND_MAX && !found; kind++)
        found = cell_kinds[kind]->is_removing && cell_kinds[kind]->is_removing(w, id);
    return found;
}

bool cell_has_addresses(const struct plan *p)
{
    const struct cell_ops *ops = cell_kinds[cell_kind_of(p)];
    return ops->has_addresses && ops->has_addresses((enum oci_backend)p->backend);
}

int cell_kill(struct cell *s)
{
    s->killed = true;
    if (s->frozen) /* version 1 does not let a frozen process die */
        cgroup_freeze(&s->cgroup, false);
    return s->ops->kill(s);
}

int cell_kill_process(struct cell *s)
{
    return s->pidfd >= 0 && pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH
               ? -errno
               : 0;
}

/* The control plane is gone. Its tags mean nothing to the next one, so no reply may carry them; a
 * sandbox that was not running yet was promised to no caller, and goes. */
void cell_abandon_creates(struct warden *w)
{
    size_t cursor = 0;
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        if (cell_kinds[kind]->abandon_host)
            cell_kinds[kind]->abandon_host(w);
    for (struct cell *s; (s = map_next(w->by_id, &cursor));) {
        s->connect_tag = s->net_plan_tag = 0;
        if (s->ops->abandon)
            s->ops->abandon(s);
        if (s->state == CELL_RUNNING)
            continue;
        s->plan.tag = 0;
        cell_kill(s);
    }
}

int cell_connect(struct cell *s, uint64_t tag)
{
    int pair[2];
    /* A killed cell is a running one until it is reaped: its runner must not be given out again. */
    if (s->killed)
        return -ENOENT;
    if (s->state != CELL_RUNNING)
        return -EBUSY;
    if (cell_dials(s) && s->stream_fd >= 0)
        return fd_steal(&s->stream_fd);
    if (cell_dials(s)) {
        s->connect_tag = tag;
        return -EINPROGRESS;
    }
    /* The runner accepts connections only over the channel that it inherited. There is no socket
     * with a name, which a process inside could connect to. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ssize_t n = fd_send_msg(s->channel_fd, CHANNEL_CONNECTION, 1, &pair[1], 1);
    close(pair[1]);
    if (n >= 0)
        return pair[0];
    close(pair[0]);
    return (int)n;
}

int cell_freeze(struct cell *s, bool on, uint64_t tag)
{
    /* cell_kill() has thawed it, once: version 1 would keep what is frozen after that for ever. */
    if (s->killed)
        return -ENOENT;
    if (s->state != CELL_RUNNING)
        return -EBUSY;
    int r = s->ops->freeze(s, on, tag);
    s->paused = r < 0 && r != -EINPROGRESS ? s->paused : on;
    return r;
}

int cell_freeze_group(struct cell *s, bool on, uint64_t tag)
{
    (void)tag;
    s->frozen = true; /* also where it fails half-way: cell_kill() then thaws it in any case */
    return cgroup_freeze(&s->cgroup, on);
}

void cell_describe(const struct cell *s, struct plan_reply *ret)
{
    memcpy(ret->id, s->id, sizeof(ret->id));
    ret->pid = s->pid;
    ret->frozen = s->paused;
    ret->landlock_abi = 0;
    memcpy(ret->mechanism, s->mechanism, sizeof(ret->mechanism));
    if (s->ops->describe)
        s->ops->describe(s, ret);
}

int cell_read_stats(struct cell *s, struct plan_reply *ret)
{
    return s->ops->read_stats(s, ret);
}

int cell_read_group_stats(struct cell *s, struct plan_reply *ret)
{
    char path[64];
    struct statfs fs;
    cgroup_read_stats(&s->cgroup, ret);
    if (s->state != CELL_RUNNING || !s->ops->disk)
        return 0;
    /* A link in the place of the disk, which a sandbox may have made where the root is its own,
     * would mean our own root. */
    snprintf(path, sizeof(path), "%d/root", (int)s->pid);
    _cleanup_close_ int root = openat(s->warden->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = root < 0 ? -1 : mount_open_beneath(root, s->ops->disk + 1);
    if (fd >= 0 && fstatfs(fd, &fs) == 0)
        ret->disk_used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return 0;
}
