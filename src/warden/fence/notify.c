/* SPDX-License-Identifier: Apache-2.0 */
/* Where commands are the caller's own user, Landlock does not keep them from changing modes and
 * times of the caller's files anywhere. The kernel then asks the keeper about these calls
 * (seccomp's user notification), which does them itself, for what is in the box alone.
 *
 * Everything is read once, from the memory of a process that waits in the call, and what is opened
 * by it is held while it is looked at and changed: there is nothing to swap. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "warden/fence/fence.h"

#define PAGE_MIN 4096 /* no page is smaller: reading up to its end cannot fail for the next one */

/* A call, by what its arguments mean. */
struct change {
    int dirfd;
    uint64_t path, times; /* in its memory */
    bool is_times;
    mode_t mode;
    int flags;
};

static int read_memory(int pid, uint64_t at, void *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -EPERM;
    ssize_t n = pread(fd, out, size, (off_t)at);
    return n == (ssize_t)size ? 0 : -EFAULT;
}

static int read_path(int pid, uint64_t at, char path[PATH_MAX])
{
    for (size_t n = 0; n < PATH_MAX;) {
        size_t step = PAGE_MIN - (at + n) % PAGE_MIN;
        step = step > PATH_MAX - n ? PATH_MAX - n : step;
        int r = read_memory(pid, at + n, path + n, step);
        if (r < 0)
            return r;
        if (memchr(path + n, 0, step))
            return 0;
        n += step;
    }
    return -ENAMETOOLONG;
}

static int parse_change(const struct seccomp_data *d, struct change *ret)
{
    const __u64 *a = d->args;
    *ret = (struct change){.dirfd = AT_FDCWD};
#ifdef __NR_chmod
    if (d->nr == __NR_chmod) {
        ret->path = a[0];
        ret->mode = (mode_t)a[1];
        return 0;
    }
#endif
    ret->dirfd = (int)a[0];
    ret->path = a[1];
    if (d->nr == __NR_utimensat) {
        ret->is_times = true;
        ret->times = a[2];
        ret->flags = (int)a[3];
        return 0;
    }
    ret->mode = (mode_t)a[2];
    if (d->nr == __NR_fchmodat)
        return 0;
#ifdef __NR_fchmodat2
    ret->flags = (int)a[3];
    if (d->nr == __NR_fchmodat2)
        return 0;
#endif
    return -EPERM;
}

/* Where a relative path starts: in the process's own view. */
static int open_base(int pid, const struct change *c, const char *path)
{
    char link[64];
    if (path[0] == '/')
        return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c->dirfd == AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
    else
        snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, c->dirfd);
    return open(link, O_PATH | O_CLOEXEC);
}

static bool is_inside(int fd, const char *box)
{
    char link[64], path[PATH_MAX] = "";
    size_t n = strlen(box);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, box, n) == 0 &&
           (path[n] == '/' || !path[n]);
}

/* times: those of c->times. */
static int apply_change(const struct change *c, int fd, const struct timespec times[2])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (!c->is_times)
        return chmod(link, c->mode & 07777) < 0 ? -errno : 0;
    return utimensat(AT_FDCWD, link, c->times ? times : NULL, 0) < 0 ? -errno : 0;
}

static int serve_change(int notify_fd, const struct seccomp_notif *n, const char *box)
{
    struct change c;
    struct timespec times[2];
    char path[PATH_MAX];
    int pid = (int)n->pid;
    if (n->data.arch != seccomp_arch_native() || parse_change(&n->data, &c) < 0)
        return -EPERM;
    if (c.flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
        return -EINVAL;
    int r = read_path(pid, c.path, path);
    if (r >= 0 && c.is_times && c.times)
        r = read_memory(pid, c.times, times, sizeof(times));
    if (r < 0)
        return r;
    if (!path[0] && !(c.flags & AT_EMPTY_PATH))
        return -ENOENT;
    int nofollow = c.flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0;
    _cleanup_close_ int base = open_base(pid, &c, path);
    /* Whose memory, directory and descriptors these were is sure only now: the process may have
     * been killed and its number given to another one at any moment before. So nothing of it is
     * read after this, either. */
    if (ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &n->id) < 0)
        return -EPERM;
    if (base < 0)
        return -EBADF;
    _cleanup_close_ int fd =
        path[0] ? openat(base, path, O_PATH | O_CLOEXEC | nofollow) : fd_steal(&base);
    if (fd < 0)
        return -errno;
    return is_inside(fd, box) ? apply_change(&c, fd, times) : -EPERM;
}

void fence_notify_serve(int notify_fd, const char *box)
{
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return;
    size_t size = sizes.seccomp_notif > sizeof(struct seccomp_notif) ? sizes.seccomp_notif
                                                                     : sizeof(struct seccomp_notif);
    _cleanup_free_ struct seccomp_notif *n = xcalloc(1, size);
    if (ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_RECV, n) < 0)
        return; /* it was killed meanwhile */
    size = sizes.seccomp_notif_resp > sizeof(struct seccomp_notif_resp)
               ? sizes.seccomp_notif_resp
               : sizeof(struct seccomp_notif_resp);
    _cleanup_free_ struct seccomp_notif_resp *answer = xcalloc(1, size);
    answer->id = n->id;
    answer->error = serve_change(notify_fd, n, box);
    ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_SEND, answer);
}

int fence_notify_install(const struct sock_fprog *p)
{
    int fd =
        (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, p);
    return fd < 0 ? -errno : fd;
}
