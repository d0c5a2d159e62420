/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper of a fenced sandbox (fence.h): waits, then ends all that descends from it, removes the
 * box and ends as the runner did. It runs no code but its own; of root's rights it keeps those that
 * take. It reads what processes of the sandbox wrote (paths in notify.c, names in /proc and in the
 * box), so it has a list of system calls. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "filter/filter.h"
#include "warden/fence/fence.h"
#include "warden/state.h"

#define KEEPER_CHANNEL_FD  3
#define KEEPER_BOXES_FD    4
#define KEEPER_PROC_FD     5
#define KEEPER_SIGNAL_FD   6
#define KEEPER_NOTIFY_SOCK 7
#define KEEPER_FAILURE_FD  8 /* until it has given up its rights */
#define KEEPER_LAST_FD     KEEPER_FAILURE_FD
#define KEEPER_TURN_MS     2
#define KEEPER_REMOVE_MS   1000 /* what takes longer is left to the warden's remover */

static int drop_rights(const struct fence_host *h)
{
    static const int kept[] = {CAP_KILL, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
                               CAP_SYS_PTRACE};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}}, data[2] = {{0}};
    int r = fence_bound_caps();
    if (r < 0 || syscall(SYS_capget, &header, have) < 0)
        return r < 0 ? r : -errno;
    for (size_t i = 0; i < ELEMENTS(kept); i++)
        data[0].permitted |= have[0].permitted & (1u << kept[i]);
    data[0].effective = data[0].permitted;
    if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return filter_install(&h->keeper_filter);
}

/* Descriptors of the warden's that the keeper needs, and no others. */
static int take_descriptors(const struct warden *w, int channel_fd, int notify_sock, int failure_fd)
{
    int failure = fcntl(failure_fd, F_DUPFD_CLOEXEC, 16);
    int channel = fcntl(channel_fd, F_DUPFD_CLOEXEC, 16);
    int boxes = fcntl(fence_host(w)->dir_fd, F_DUPFD_CLOEXEC, 16);
    int proc = fcntl(w->proc_fd, F_DUPFD_CLOEXEC, 16);
    int notify = fcntl(notify_sock, F_DUPFD_CLOEXEC, 16);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    signals = signals < 0 ? -1 : fcntl(signals, F_DUPFD_CLOEXEC, 16);
    for (int i = 0; i <= 2 && null >= 0; i++)
        dup2(null, i);
    if (dup2(channel, KEEPER_CHANNEL_FD) < 0 || dup2(boxes, KEEPER_BOXES_FD) < 0 ||
        dup2(proc, KEEPER_PROC_FD) < 0 || dup2(signals, KEEPER_SIGNAL_FD) < 0 ||
        dup2(notify, KEEPER_NOTIFY_SOCK) < 0 || dup2(failure, KEEPER_FAILURE_FD) < 0)
        return -errno;
    return close_range(KEEPER_LAST_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

/* Children of the sandbox's that lost their parents end here too. */
static bool reap_children(pid_t runner, int *ret_status)
{
    bool over = false;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != runner)
            continue;
        over = true;
        *ret_status = status;
    }
    return over;
}

/* Comes once, or never: the other end is closed by the runner's start. */
static int take_listener(int *sock)
{
    int fds[FD_PASS_MAX];
    char byte;
    ssize_t n = fd_recv_msg(*sock, &byte, 1, fds);
    fd_close(sock);
    return n == 1 ? fds[0] : -1;
}

/* Until the runner is dead, the warden asks for its end, or the warden is gone. */
static bool wait_for_end(pid_t runner, const char *box, int *ret_status)
{
    int notify = -1, sock = KEEPER_NOTIFY_SOCK;
    for (;;) {
        struct signalfd_siginfo info;
        struct pollfd p[] = {{.fd = KEEPER_SIGNAL_FD, .events = POLLIN},
                             {.fd = KEEPER_CHANNEL_FD},
                             {.fd = sock, .events = POLLIN},
                             {.fd = notify, .events = POLLIN}};
        if (poll(p, ELEMENTS(p), -1) < 0 && errno != EINTR)
            return false;
        if (p[1].revents & (POLLHUP | POLLERR))
            return false;
        while (read(KEEPER_SIGNAL_FD, &info, sizeof(info)) == (ssize_t)sizeof(info))
            if (info.ssi_signo == SIGTERM)
                return false;
        if (reap_children(runner, ret_status))
            return true;
        if (p[2].revents)
            notify = take_listener(&sock);
        if (p[3].revents & POLLIN)
            fence_notify_serve(notify, box);
        else if (p[3].revents) /* no process is left that could ask */
            fd_close(&notify);
    }
}

/* The dead are reaped only once none lives: until then they fill the limit on processes. */
static void end_all(pid_t runner, bool over, int *status)
{
    pid_t self = getpid();
    while (fence_kill(KEEPER_PROC_FD, fence_descends, &self))
        poll(NULL, 0, KEEPER_TURN_MS);
    for (int ended; !over;) {
        pid_t pid = waitpid(-1, &ended, 0);
        if (pid < 0 && errno != EINTR)
            break;
        over = pid == runner;
        if (over)
            *status = ended;
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

static bool warden_is_gone(void)
{
    struct pollfd p = {.fd = KEEPER_CHANNEL_FD};
    return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

/* By the runner's signal, if one ended it. */
static void end_like(int status)
{
    sigset_t set;
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, WTERMSIG(status));
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
}

/* The warden hears from the pipe why there is no sandbox, as from a runner that cannot start. */
static void tell_failure(int error)
{
    struct child_failure f = {
        .error = -error, .wall = WALL_SYSCALLS, .step = "give up the keeper's rights"};
    if (write(KEEPER_FAILURE_FD, &f, sizeof(f)) != sizeof(f))
        log_warn("a keeper could not say why it ends");
}

void fence_keep(const struct cell *s, pid_t runner, int channel_fd, int notify_sock, int failure_fd)
{
    char box[32], path[FENCE_PATH_SIZE + 32];
    int status = 0;
    fence_box_name(s, box);
    prctl(PR_SET_NAME, "mas-keeper", 0, 0, 0);
    fence_box_path(s, path, sizeof(path));
    /* Paths of questions are the host's. The warden's keys are not in this copy of its memory
     * (base/key-memory.h), and its files are closed with all that the keeper does not need. */
    if (warden_enter_host(s->warden) < 0 ||
        take_descriptors(s->warden, channel_fd, notify_sock, failure_fd) < 0) {
        kill(runner, SIGKILL);
        _exit(125);
    }
    int r = drop_rights(fence_host(s->warden));
    if (r < 0)
        tell_failure(r);
    close(KEEPER_FAILURE_FD); /* its end, with the runner's, says that the sandbox runs */
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    bool over = r >= 0 && wait_for_end(runner, path, &status);
    end_all(runner, over, &status);
    fence_box_remove(KEEPER_BOXES_FD, box, warden_is_gone() ? 0 : KEEPER_REMOVE_MS);
    end_like(status);
    _exit(125);
}
