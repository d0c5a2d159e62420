/* SPDX-License-Identifier: Apache-2.0 */
/* See program.h. */
#include "warden/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"
#include "warden/state.h"

#define PROGRAM_FD 7
#define FREE_FD    32

_Static_assert(PROGRAM_VIEW_FD == CHILD_FREE_FD, "the first after the child's own");

/* Low numbers may be any of the warden's: all go up before they come down. */
int program_arrange(const struct program_ends *e, int program_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[] = {null,      null,       e->log ? STDERR_FILENO : null,
                 e->stream, e->channel, e->failure,
                 e->view,   program_fd};
    if (null < 0)
        return -errno;
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FREE_FD)) < 0)
            return -errno;
    for (size_t i = 0; i < ELEMENTS(fds); i++) {
        if (fds[i] < 0)
            close((int)i);
        else if (dup2(fds[i], (int)i) < 0)
            return -errno;
    }
    if (fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return close_range(PROGRAM_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

void program_exec(const char *name)
{
    const char *const argv[] = {name, NULL}, *const env[] = {NULL};
    child_reset_signals();
    setsid();
    child_must(child_die_with_warden(), "tie to the warden", -1);
    syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
    child_must(-errno, name, -1);
    _exit(125);
}

/* The child is tied to the warden before it does anything else, and once more by program_exec(),
 * which also notices a warden that died before the first tie. */
pid_t program_spawn(const struct warden *w, program_exec_fn exec, int *ret_channel_fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        exec(w, pair[1]);
        _exit(125);
    }
    int error = pid < 0 ? -errno : fd_set_nonblock(pair[0], true);
    close(pair[1]);
    if (error < 0) {
        close(pair[0]);
        return error;
    }
    *ret_channel_fd = pair[0];
    return pid;
}

static void stop_watching(struct program_task *t)
{
    watch_remove(t->channel);
    t->channel = NULL;
    fd_close(&t->channel_fd);
}

/* Whether there may be more. What has another size is its first word, or nothing of ours. No
 * program answers a task with a descriptor: one that comes all the same is closed, because a
 * program that was taken over could fill the warden's table with them. */
static bool take_answer(struct program_task *t)
{
    union {
        char bytes[PROGRAM_ANSWER_MAX];
        uint64_t align;
    } answer;
    int fds[FD_PASS_MAX];
    ssize_t n = t->channel ? fd_recv_msg(t->channel_fd, &answer, sizeof(answer), fds) : -EAGAIN;
    if (n == -EAGAIN)
        return false;
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n <= 0) {
        stop_watching(t);
        return false;
    }
    if ((size_t)n == t->answer_size)
        t->on_answer(t, &answer);
    return true;
}

static void on_answer_ready(int fd, uint32_t events, void *data)
{
    (void)fd;
    (void)events;
    take_answer(data);
}

static void on_program_exit(pid_t pid, int wait_status, void *data)
{
    struct program_task *t = data;
    (void)pid;
    t->child = NULL;
    t->pid = 0;
    while (take_answer(t)) /* its last words may still be there */
        continue;
    stop_watching(t);
    t->on_end(t, wait_status);
}

int program_task_start(struct program_task *t, program_exec_fn exec, const void *record,
                       size_t size, int fd)
{
    struct warden *w = t->warden;
    pid_t pid = program_spawn(w, exec, &t->channel_fd);
    if (pid < 0)
        return pid;
    t->pid = pid;
    t->child = watcher_add_child(w->watcher, pid, -1, on_program_exit, t);
    t->channel = watcher_add_fd(w->watcher, t->channel_fd, EPOLLIN, on_answer_ready, t);
    ssize_t n =
        t->child && t->channel ? fd_send_msg(t->channel_fd, record, size, &fd, fd >= 0) : -ENOMEM;
    if (n >= 0)
        return 0;
    program_task_stop(t);
    return (int)n;
}

void program_task_stop(struct program_task *t)
{
    /* The watch goes first: the wait below reaps the process, and its number is free after that. */
    watch_remove(t->child);
    t->child = NULL;
    if (t->pid > 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
        stop_watching(t);
    }
    t->pid = 0;
}
