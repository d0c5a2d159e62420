/* SPDX-License-Identifier: Apache-2.0 */
/* See child.h. */
#include "builder/child.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/root.h"

static void child_fail(const char *step, int error, int wall) __attribute__((noreturn));

static void child_fail(const char *step, int error, int wall)
{
    struct child_failure f = {.error = error < 0 ? -error : error, .wall = wall};
    snprintf(f.step, sizeof(f.step), "%s", step);
    ssize_t n = write(CHILD_FAILURE_FD, &f, sizeof(f));
    _exit(n == sizeof(f) ? 126 : 125);
}

void child_report_running(void)
{
    close(CHILD_FAILURE_FD);
}

void child_must(int r, const char *step, int wall)
{
    if (r < 0)
        child_fail(step, r, wall);
}

/* Moves our three descriptors to fixed numbers. All are copied above the fixed numbers first:
 * any of them may have the number that another one is to get, and dup2() would close it. */
int child_take_descriptors(int stream_fd, int channel_fd, int failure_fd)
{
    int stream = fcntl(stream_fd, F_DUPFD_CLOEXEC, CHILD_FREE_FD);
    int channel = fcntl(channel_fd, F_DUPFD_CLOEXEC, CHILD_FREE_FD);
    int failure = fcntl(failure_fd, F_DUPFD_CLOEXEC, CHILD_FREE_FD);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0 && null < CHILD_FREE_FD)
        null = fcntl(null, F_DUPFD_CLOEXEC, CHILD_FREE_FD);
    if (stream < 0 || channel < 0 || failure < 0 || null < 0)
        return -errno;
    for (int i = 0; i <= 2; i++)
        if (dup2(null, i) < 0)
            return -errno;
    if (dup2(stream, CHILD_STREAM_FD) < 0 || dup2(channel, CHILD_CHANNEL_FD) < 0 ||
        dup3(failure, CHILD_FAILURE_FD, O_CLOEXEC) < 0)
        return -errno;
    return 0;
}

int child_keep_descriptors(int stream_fd, int channel_fd, int failure_fd, int *extra_fd)
{
    int extra = extra_fd ? fcntl(*extra_fd, F_DUPFD_CLOEXEC, CHILD_FREE_FD + 1) : 0;
    int r = extra < 0 ? -errno : child_take_descriptors(stream_fd, channel_fd, failure_fd);
    if (r < 0)
        return r;
    if (!extra_fd) {
        fd_close_from(CHILD_FREE_FD);
        return 0;
    }
    if (extra != CHILD_FREE_FD && dup3(extra, CHILD_FREE_FD, O_CLOEXEC) < 0)
        return -errno;
    *extra_fd = CHILD_FREE_FD;
    fd_close_from(CHILD_FREE_FD + 1);
    return 0;
}

/* What a parent ignores stays ignored after an execve(), and so would reach the sandbox's
 * programs. */
void child_reset_signals(void)
{
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void child_wait_for_byte(const char *step)
{
    char go;
    ssize_t n;
    do
        n = recv(CHILD_CHANNEL_FD, &go, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        _exit(0); /* the warden is gone */
    if (n < 0)
        child_fail(step, errno, -1);
}

/* The kernel sends the signal only for a death that comes after the call. If the warden died just
 * before, its end of the channel is closed already, and the look at it comes after the call: so one
 * of the two always sees the death. */
int child_die_with_warden(void)
{
    struct pollfd p = {.fd = CHILD_CHANNEL_FD};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
        _exit(0);
    return 0;
}

int child_raise_loopback(void)
{
    struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

static int put_sysctl(int dirfd, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    int r = fd_write_file_at(dirfd, name, text);
    return r == -ENOENT ? 0 : r; /* an older kernel without that limit */
}

int child_open_user_limits(void)
{
    int fd = open("/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int child_forbid_cgroup_namespaces(int dir)
{
    return put_sysctl(dir, "max_cgroup_namespaces", 0);
}

/* No namespaces inside; and no way to use up what inotify and fanotify share across the host. The
 * cgroup namespace is not among them: a blank makes its own late. */
int child_write_user_limits(const struct user_limits *l, int dir)
{
    static const char *const none[] = {
        "max_user_namespaces", "max_pid_namespaces", "max_mnt_namespaces",  "max_net_namespaces",
        "max_ipc_namespaces",  "max_uts_namespaces", "max_time_namespaces",
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(none); i++)
        r = put_sysctl(dir, none[i], 0);
    if (r < 0)
        return r;
    r = put_sysctl(dir, "max_inotify_instances", l->inotify_instances);
    if (r < 0)
        return r;
    r = put_sysctl(dir, "max_inotify_watches", l->inotify_watches);
    if (r < 0)
        return r;
    r = put_sysctl(dir, "max_fanotify_groups", l->fanotify_groups);
    if (r < 0)
        return r;
    return put_sysctl(dir, "max_fanotify_marks", l->fanotify_marks);
}

int child_lower_user_limits(const struct user_limits *l)
{
    _cleanup_close_ int dir = child_open_user_limits();
    int r = dir < 0 ? dir : child_write_user_limits(l, dir);
    if (r < 0)
        return r;
    return child_forbid_cgroup_namespaces(dir);
}

const char *const child_runner_caps[] = {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", NULL};
_Static_assert(ELEMENTS(child_runner_caps) == CHILD_RUNNER_CAPS + 1, "and the end");

void child_trees_init(struct child_trees *t)
{
    for (size_t i = 0; i < PLAN_MOUNTS_MAX; i++)
        t->mounts[i] = -1;
    t->disk = t->image = t->authority = -1;
}

void child_trees_close(struct child_trees *t)
{
    for (size_t i = 0; i < PLAN_MOUNTS_MAX; i++)
        fd_close(&t->mounts[i]);
    fd_close(&t->disk);
    fd_close(&t->image);
    fd_close(&t->authority);
}

_Static_assert(PLAN_MOUNTS_MAX == FD_PASS_MAX, "an order's mounts are one message's descriptors");

/* The descriptors of the second message are in the order in which cell_send_order() puts them, and
 * the order says which of them there are. The last one that was expected must be there:
 * fd_recv_msg() fills from the front. */
void child_receive_order(struct child_order *o, struct child_trees *ret)
{
    int fds[FD_PASS_MAX];
    char byte;
    child_trees_init(ret);
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, o, sizeof(*o), ret->mounts);
    if (n == 0)
        _exit(0); /* the warden is gone, or does not need this blank */
    if (n != sizeof(*o))
        child_fail("receive the order", n < 0 ? (int)n : EPROTO, -1);
    if (!o->disk_from_fd && !o->image_from_fd && !o->authority_from_fd)
        return;
    n = fd_recv_msg(CHILD_CHANNEL_FD, &byte, 1, fds);
    size_t k = 0;
    if (n == 1 && o->disk_from_fd)
        ret->disk = fds[k++];
    if (n == 1 && o->image_from_fd)
        ret->image = fds[k++];
    if (n == 1 && o->authority_from_fd)
        ret->authority = fds[k++];
    if (k == 0 || fds[k - 1] < 0)
        child_fail("receive the disk, the image or the authority", n < 0 ? (int)n : EPROTO,
                   WALL_FILESYSTEM);
}

const char *const child_runner_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/sandbox",
                                        NULL};

size_t child_runner_args(const struct child_order *o, bool shared_uid, const char **argv)
{
    const char *id = o->flags & PLAN_TOOL_NOBODY ? "65534" : "1000";
    const char *const always[] = {"mas-toolrunner", "--pid1", "--uid",     id,
                                  "--gid",          id,       "--workdir", o->workdir};
    size_t n = ELEMENTS(always);
    memcpy(argv, always, sizeof(always));
    if (shared_uid)
        argv[n++] = "--shared-uid";
    if (o->flags & PLAN_TOOL_NET) {
        argv[n++] = "--gateway-socket";
        argv[n++] = ROOT_GATEWAY_SOCKET;
    }
    if (o->flags & PLAN_PROXY) {
        argv[n++] = "--proxy-port";
        argv[n++] = PLAN_PROXY_PORT;
    }
    return n;
}
