/* SPDX-License-Identifier: Apache-2.0 */
/* From nothing to a process of a cell's own. The clone is of a small single-threaded process; what
 * takes long in it (joining the cgroup, mounting) is done by the child, so that the warden goes on
 * serving. */
#include "warden/cell-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

static void ends_close(struct cell_ends *e)
{
    fd_close(&e->stream);
    fd_close(&e->channel);
    fd_close(&e->failure);
}
#define _cleanup_ends_ __attribute__((cleanup(ends_close)))

/* Three ways to a cell's process, because each has another peer in the end: the stream becomes the
 * runner's connection and is handed to the control plane; the channel carries the warden's orders,
 * whole records with descriptors; the failure pipe says by its end that the runner was executed,
 * which a process that dies on the way cannot pretend. */
static int open_ends(struct cell *s, struct cell_ends *ret)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    s->stream_fd = pair[0];
    ret->stream = pair[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    s->channel_fd = pair[0];
    ret->channel = pair[1];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    s->failure_fd = pair[0];
    ret->failure = pair[1];
    /* Sending to a runner must never make the warden wait. The child's end stays blocking. */
    return fd_set_nonblock(s->channel_fd, true);
}

/* When the host is out of memory, a sandbox goes before the daemon does. Every process of the
 * sandbox inherits the score. */
void cell_set_oom_score(const struct cell *s)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/oom_score_adj", (int)s->pid);
    fd_write_file_at(s->warden->proc_fd, path, CHILD_OOM_ADJ);
}

int cell_clone_into(struct cell *s, struct cell_ends *ends, int cgroup_fd)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD | s->ops->clone_flags,
        .pidfd = (uint64_t)(uintptr_t)&s->pidfd,
        .exit_signal = SIGCHLD,
    };
    if (cgroup_fd >= 0) { /* cgroup v2: it is limited from its first instruction on */
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
        ends->in_group = true;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        s->ops->main(s, ends);
        abort(); /* it must never return into the warden's loop */
    }
    s->pid = pid;
    cell_set_oom_score(s);
    return 0;
}

/* Where there is no group to clone into, as with cgroup version 1, the child joins its groups
 * itself. */
int cell_clone(struct cell *s, struct cell_ends *ends)
{
    _cleanup_close_ int cgroup_fd = -1;
    int r = cgroup_open_for_clone(&s->cgroup, &cgroup_fd);
    if (r < 0)
        return r;
    return cell_clone_into(s, ends, cgroup_fd);
}

int64_t cell_take_ids(struct cell *s)
{
    return id_block_take(&s->warden->ids);
}

/* The child waits for this byte before it uses its namespaces: until then its ids are not mapped.
 */
int cell_admit(struct cell *s)
{
    return (int)fd_send_msg(s->channel_fd, "g", 1, NULL, 0);
}

/* The child is watched before it is let go on, so that its exit cannot come unseen. */
static int make_process(struct cell *s, const char **ret_step)
{
    _cleanup_ends_ struct cell_ends ends = {.stream = -1, .channel = -1, .failure = -1};
    *ret_step = "take ids";
    if (s->ops->take_ids && (s->id_block = s->ops->take_ids(s)) < 0)
        return (int)s->id_block;
    *ret_step = "make sockets";
    int r = open_ends(s, &ends);
    if (r < 0)
        return r;
    *ret_step = "make namespaces";
    r = s->ops->clone(s, &ends);
    if (r < 0)
        return r;
    *ret_step = "watch the child";
    s->child_watch = watcher_add_child(s->warden->watcher, s->pid, s->pidfd, cell_on_child_exit, s);
    if (!s->child_watch)
        return -errno;
    *ret_step = "map ids";
    return s->ops->admit ? s->ops->admit(s) : 0;
}

/* The loop never saw the process, or will not look at it again, so it is reaped here. */
static void undo_process(struct cell *s)
{
    int status;
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, &status, 0);
    }
    watch_remove(s->child_watch);
    if (!s->child_watch)
        fd_close(&s->pidfd);
    cell_release(s);
    free(s);
}

struct cell *cell_new(struct warden *w, enum cell_kind kind)
{
    const struct cell_ops *ops = cell_kinds[kind];
    struct cell *s = xcalloc(1, ops->size);
    s->warden = w;
    s->ops = ops;
    s->kind = kind;
    s->serial = w->next_serial++;
    s->pidfd = s->channel_fd = s->stream_fd = s->failure_fd = s->network_fd = -1;
    s->id_block = -1;
    s->failure.wall = -1;
    s->state = CELL_BLANK;
    list_init(&s->link);
    child_trees_init(&s->trees);
    return s;
}

struct cell *cell_spawn(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct cell *s = cell_new(w, kind);
    const char *step;
    if (s->ops->has_group)
        cgroup_init(&s->cgroup, &w->cgroups, s->serial, s->ops->has_device_group);
    int r = make_process(s, &step);
    if (r >= 0)
        return s;
    undo_process(s);
    reply->error = -r;
    snprintf(reply->message, sizeof(reply->message), "%s: %s", step, strerror(-r));
    return NULL;
}
