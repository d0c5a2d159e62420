/* See blank.h. The clone is of a small single-threaded process; what takes long in it (joining the
 * cgroup, mounting) is done by the child, so that the warden goes on serving. */
#include "warden/local/blank.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/cell.h"
#include "warden/plain/plain.h"
#include "warden/state.h"
#include "warden/local/zygote.h"

/* The child's ends, closed in the warden after the clone. */
struct ends {
    int stream, channel, failure;
};

static void ends_close(struct ends *e)
{
    fd_close(&e->stream);
    fd_close(&e->channel);
    fd_close(&e->failure);
}
#define _cleanup_ends_ __attribute__((cleanup(ends_close)))

static int open_ends(struct cell *s, struct ends *ret)
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

/* From the zygote, where there is one. */
static int clone_elsewhere(struct cell *s, const struct ends *ends, int cgroup_fd)
{
    if (s->kind != CELL_LOCAL || !zygote_is_there(s->warden))
        return -ESRCH;
    const int fds[] = {ends->stream, ends->channel, ends->failure};
    pid_t pid = zygote_clone(s->warden, &s->cgroup, cgroup_fd, fds);
    if (pid < 0)
        return pid;
    s->pid = pid;
    s->from_zygote = true;
    s->pidfd = pidfd_open(pid, 0);
    return s->pidfd < 0 ? -errno : 0;
}

static int clone_here(struct cell *s, const struct ends *ends, int cgroup_fd)
{
    static const uint64_t walls[] = {
        [CELL_LOCAL] =
            CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
        [CELL_PLAIN] = CLONE_NEWPID,
        [CELL_OCI] = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
        [CELL_ENGINE] = 0,
        [CELL_FENCED] = 0, /* see fork_fenced() */
    };
    struct clone_args args = {
        .flags = CLONE_PIDFD | walls[s->kind],
        .pidfd = (uint64_t)(uintptr_t)&s->pidfd,
        .exit_signal = SIGCHLD,
    };
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid == 0 && s->kind == CELL_PLAIN)
        plain_main(s->warden, ends->stream, ends->channel, ends->failure);
    if (pid == 0 && s->kind == CELL_ENGINE)
        engine_exec(s->warden, ends->channel, ends->failure);
    if (pid == 0 && s->kind == CELL_OCI)
        oci_main(s, ends->stream, ends->channel, ends->failure);
    if (pid == 0)
        child_main(&s->warden->child_template, cgroup_fd < 0 ? &s->cgroup : NULL, ends->stream,
                   ends->channel, ends->failure);
    s->pid = pid;
    return 0;
}

static int clone_child(struct cell *s, const struct ends *ends)
{
    _cleanup_close_ int cgroup_fd = -1;
    int r = cgroup_open_for_clone(&s->cgroup, &cgroup_fd);
    if (r < 0)
        return r;
    r = clone_elsewhere(s, ends, cgroup_fd);
    return r == -ESRCH ? clone_here(s, ends, cgroup_fd) : r;
}

/* clone3() is missing where a host's own filter knows nothing of it, in containers for one. */
static int fork_fenced(struct cell *s, const struct ends *ends)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* see fence-stray.c */
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        fence_main(s, ends->stream, ends->channel, ends->failure);
    s->pid = pid;
    s->pidfd = pidfd_open(pid, 0);
    return s->pidfd < 0 ? -errno : 0;
}

static int64_t take_ids(struct cell *s)
{
    struct warden *w = s->warden;
    if (s->kind == CELL_PLAIN)
        return -1;
    return s->kind == CELL_FENCED ? fence_ids_take(w, &s->id_lock_fd) : id_block_take(&w->ids);
}

/* Before the daemon's processes when the host itself is out of memory. Written from here, by one
 * who has CAP_SYS_RESOURCE over the host, it is also the least the sandbox can set; elsewhere it is
 * not, and the sandbox can go back to the warden's own value. */
static void set_oom_score(const struct warden *w, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
    fd_write_file_at(w->proc_fd, path, CHILD_OOM_ADJ);
}

static int build(struct cell *s, watch_child_fn on_exit, const char **ret_step)
{
    struct warden *w = s->warden;
    _cleanup_ends_ struct ends ends = {-1, -1, -1};
    *ret_step = "take ids";
    s->id_block = take_ids(s);
    if (s->id_block < 0 && s->kind != CELL_PLAIN)
        return (int)s->id_block;
    *ret_step = "make sockets";
    int r = open_ends(s, &ends);
    if (r < 0)
        return r;
    *ret_step = "make namespaces";
    r = s->kind == CELL_FENCED ? fork_fenced(s, &ends) : clone_child(s, &ends);
    if (r < 0)
        return r;
    *ret_step = "watch the child";
    s->child_watch = watcher_add_child(w->watcher, s->pid, s->pidfd, on_exit, s);
    if (!s->child_watch)
        return -errno;
    if (!s->from_zygote) /* which has it already */
        set_oom_score(w, s->pid);
    if (s->kind == CELL_PLAIN)
        return 0;
    *ret_step = "map ids";
    if (s->kind == CELL_LOCAL) /* an OCI runtime maps them by its config */
        r = id_block_map(&w->ids, s->id_block, w->proc_fd, s->pid);
    if (r < 0 || s->kind == CELL_ENGINE)
        return r;
    return (int)fd_send_msg(s->channel_fd, "g", 1, NULL, 0);
}

/* For a blank that was never watched: nobody else reaps it. */
static void undo(struct cell *s)
{
    int status;
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, &status, 0);
    }
    watch_remove(s->child_watch);
    if (!s->child_watch)
        fd_close(&s->pidfd);
    fd_close(&s->failure_fd);
    fd_close(&s->stream_fd);
    fd_close(&s->channel_fd);
    if (s->id_block >= 0)
        id_block_release(&s->warden->ids, s->id_block);
    fd_close(&s->id_lock_fd);
    janitor_remove(&s->warden->janitor, &s->cgroup);
    free(s);
}

struct cell *blank_new(struct warden *w, enum cell_kind kind, watch_child_fn on_exit,
                       struct plan_reply *reply)
{
    struct cell *s = cell_new(w, kind);
    const char *step;
    s->state = CELL_BLANK;
    if (kind != CELL_PLAIN && kind != CELL_ENGINE) /* an engine has groups of its own */
        cgroup_init(&s->cgroup, &w->cgroups, s->serial, kind == CELL_OCI);
    int r = build(s, on_exit, &step);
    if (r >= 0)
        return s;
    undo(s);
    if (reply) {
        reply->error = -r;
        snprintf(reply->message, sizeof(reply->message), "%s: %s", step, strerror(-r));
    } else {
        log_warn("cannot make a blank sandbox step=%s error=%s", step, strerror(-r));
    }
    return NULL;
}
