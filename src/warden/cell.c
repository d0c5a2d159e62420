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
#include "base/map.h"
#include "warden/local/mount.h"

struct cell *cell_find(const struct warden *w, const char *id)
{
    return map_find(w->by_id, id);
}

int cell_kill(struct cell *s)
{
    s->killed = true;
    if (s->frozen) /* version 1 does not let a frozen process die */
        cgroup_freeze(&s->cgroup, false);
    if (s->kind == CELL_FENCED)
        return fence_kill_cell(s);
    return s->pidfd >= 0 && pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH
               ? -errno
               : 0;
}

void cell_abandon_creates(struct warden *w)
{
    size_t cursor = 0;
    for (struct cell *s; (s = map_next(w->by_id, &cursor));) {
        s->connect_tag = 0;
        memset(s->engine_asked, 0, sizeof(s->engine_asked));
        if (s->state == CELL_RUNNING)
            continue;
        s->plan.tag = 0;
        cell_kill(s);
    }
}

int cell_connect(struct cell *s, uint64_t tag)
{
    int pair[2];
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
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ssize_t n = fd_send_msg(s->channel_fd, "c", 1, &pair[1], 1);
    close(pair[1]);
    if (n >= 0)
        return pair[0];
    close(pair[0]);
    return (int)n;
}

int cell_freeze(struct cell *s, bool on, uint64_t tag)
{
    if (s->state != CELL_RUNNING)
        return -EBUSY;
    if (s->kind != CELL_ENGINE) {
        s->frozen = true; /* or partly: it counts as such until it is killed */
        int r = cgroup_freeze(&s->cgroup, on);
        s->paused = r < 0 ? s->paused : on;
        return r;
    }
    int r = engine_ask(s, on ? ENGINE_ASK_FREEZE : ENGINE_ASK_THAW, tag);
    s->paused = r < 0 ? s->paused : on;
    return r < 0 ? r : -EINPROGRESS;
}

void cell_describe(const struct cell *s, struct plan_reply *ret)
{
    memcpy(ret->id, s->id, sizeof(ret->id));
    ret->pid = s->kind == CELL_ENGINE ? s->engine_mark.pid : s->pid;
    ret->frozen = s->paused;
    memcpy(ret->mechanism, s->mechanism, sizeof(ret->mechanism));
    ret->landlock_abi = s->kind == CELL_LOCAL || s->kind == CELL_FENCED
                            ? (uint32_t)s->warden->child_template.landlock_abi
                            : 0;
    if (s->kind == CELL_FENCED)
        fence_box_path(s, ret->box, sizeof(ret->box));
}

int cell_read_stats(struct cell *s, struct plan_reply *ret)
{
    char path[64];
    struct statfs fs;
    if (s->kind == CELL_ENGINE && s->state == CELL_RUNNING) {
        int r = engine_ask(s, ENGINE_ASK_STATS, ret->tag);
        return r < 0 ? r : -EINPROGRESS;
    }
    cgroup_read_stats(&s->cgroup, ret);
    if (s->state != CELL_RUNNING || s->kind == CELL_FENCED)
        return 0;
    /* /workspace may be a mount of the caller's, /var/tmp is always a part of the disk. A link in
     * its place, which a sandbox may have made where the root is its own, would mean our own root.
     */
    const char *disk = s->kind == CELL_OCI ? OCI_DISK : "/var/tmp";
    snprintf(path, sizeof(path), "%d/root", (int)s->pid);
    _cleanup_close_ int root = openat(s->warden->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = root < 0 ? -1 : mount_open_beneath(root, disk + 1);
    if (fd >= 0 && fstatfs(fd, &fs) == 0)
        ret->disk_used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return 0;
}
