/* Starts brokers: from a copy of the warden to the program that speaks with an engine. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/engine/internal.h"

#define PROGRAM_FD 7
#define FREE_FD    32

/* Low numbers may be any of the warden's: all go up before they come down. */
static int arrange(int *fds, const int *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FREE_FD)) < 0)
            return -errno;
    for (size_t i = 0; i < n; i++)
        if (dup2(fds[i], numbers[i]) < 0)
            return -errno;
    close(CHILD_STREAM_FD);
    return close_range(PROGRAM_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

void engine_exec(const struct warden *w, int channel_fd, int failure_fd)
{
    static const char *const argv[] = {"mas-engine", NULL}, *const env[] = {NULL};
    static const int numbers[] = {0,         1, CHILD_CHANNEL_FD, CHILD_FAILURE_FD, ENGINE_VIEW_FD,
                                  PROGRAM_FD};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    child_reset_signals();
    /* The template, before it is out of sight. Standard error stays the daemon's log. */
    int view = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[] = {null, null, channel_fd, failure_fd, view, w->engine_fd};
    if (view < 0 || null < 0 || setns(w->host_ns_fd, CLONE_NEWNS) < 0 ||
        arrange(fds, numbers, sizeof(fds) / sizeof(fds[0])) < 0)
        _exit(125);
    fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC);
    setsid();
    child_must(child_die_with_warden(), "tie to the warden", -1);
    syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
    child_must(-errno, "start the broker", -1);
    _exit(125);
}

pid_t engine_spawn(const struct warden *w, int *ret_channel_fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        engine_exec(w, pair[1], open("/dev/null", O_WRONLY | O_CLOEXEC));
    int error = pid < 0 ? -errno : fd_set_nonblock(pair[0], true);
    close(pair[1]);
    if (error < 0) {
        close(pair[0]);
        return error;
    }
    *ret_channel_fd = pair[0];
    return pid;
}

void engine_order_init(const struct warden *w, enum engine_task task, enum oci_backend b,
                       struct engine_order *o)
{
    const struct warden_options *options = &w->options;
    *o = (struct engine_order){
        .task = task,
        .backend = b,
        .timeout_ms = options->engine_timeout_ms,
        .connect_timeout_ms = options->engine_connect_timeout_ms,
        .start_timeout_ms = options->engine_start_timeout_ms,
        .user_limits = w->child_template.user_limits,
    };
    memcpy(o->socket, w->engines.probe[b].socket, sizeof(o->socket));
    memcpy(o->instance, w->engines.instance, sizeof(o->instance));
    snprintf(o->dir, sizeof(o->dir), "%s", w->engines.dir);
}

void engine_order_from_record(const struct warden *w, enum engine_task task,
                              const struct engine_record *r, struct engine_order *o)
{
    engine_order_init(w, task, (enum oci_backend)r->plan.backend, o);
    o->inner = r->plan.inner;
    o->runner_id = r->runner_id;
    o->tool_id = r->tool_id;
    o->nobody_id = r->nobody_id;
    o->mark = r->mark;
    memcpy(o->id, r->plan.id, sizeof(o->id));
    memcpy(o->image, r->plan.image, sizeof(o->image));
    snprintf(o->dir, sizeof(o->dir), "%s/%s", w->engines.dir, r->plan.id);
}
