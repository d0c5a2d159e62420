/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/strbuf.h"

#define FD_NUMBERS_MAX 65536

/* errno survives, so that cleanup at the end of a scope cannot change what a failing call has
 * reported. */
void fd_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd);
    *fd = -1;
    errno = saved;
}

int fd_steal(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* A raw call: not every C library has the function. */
static void close_between(unsigned first, unsigned last)
{
    if (syscall(SYS_close_range, first, last, 0) < 0) {
        /* For kernels without close_range. /proc/self/fd cannot be relied on: a process that has
         * changed its user may not look into it. */
        struct rlimit l;
        rlim_t end = getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < FD_NUMBERS_MAX
                         ? l.rlim_cur
                         : FD_NUMBERS_MAX;
        for (rlim_t fd = first; fd <= last && fd < end; fd++)
            close((int)fd);
    }
}

void fd_close_from(unsigned first)
{
    close_between(first, INT_MAX); /* gVisor takes no last number above INT_MAX */
}

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes the gaps between the descriptors to keep, in order, so that a process with many of them
 * needs few calls. */
void fd_keep_only(const int *fds, size_t n)
{
    int kept[FD_KEEP_MAX];
    unsigned next = STDERR_FILENO + 1;
    assert(n <= FD_KEEP_MAX);
    memcpy(kept, fds, n * sizeof(*fds));
    qsort(kept, n, sizeof(*kept), compare_fds);
    for (size_t i = 0; i < n; i++) {
        if (kept[i] < (int)next)
            continue;
        if ((unsigned)kept[i] > next)
            close_between(next, (unsigned)kept[i] - 1);
        next = (unsigned)kept[i] + 1;
    }
    fd_close_from(next);
}

static int fd_set_flag(int fd, int get, int set, int flag, bool on)
{
    int flags = fcntl(fd, get);
    if (flags < 0)
        return -errno;
    int want = on ? flags | flag : flags & ~flag;
    return want == flags || fcntl(fd, set, want) == 0 ? 0 : -errno;
}

int fd_set_nonblock(int fd, bool on)
{
    return fd_set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
    return fd_set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* One write() and no loop: files of /proc and /sys take a value whole or not at all. */
int fd_write_file_at(int dirfd, const char *path, const char *text)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, strlen(text));
    if (n < 0)
        return -errno;
    return (size_t)n == strlen(text) ? 0 : -EIO;
}

/* at: where to read with pread(), or -1 for read(), which pipes need. */
static int read_to_end(int fd, off_t at, struct strbuf *b)
{
    for (;;) {
        char chunk[16384];
        ssize_t n = at < 0 ? read(fd, chunk, sizeof(chunk)) : pread(fd, chunk, sizeof(chunk), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = strbuf_append(b, chunk, (size_t)n);
        if (r < 0)
            return r;
        at += at < 0 ? 0 : n;
    }
}

int fd_read_file_at(int dirfd, const char *path, struct strbuf *b)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd_read_all(fd, b);
}

int fd_read_all(int fd, struct strbuf *b)
{
    return read_to_end(fd, -1, b);
}

int fd_read_from_start(int fd, struct strbuf *b)
{
    return read_to_end(fd, 0, b);
}

int fd_make_dir_at(int dirfd, const char *path, mode_t mode)
{
    return mkdirat(dirfd, path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int fd_enter_dir_at(int dirfd, const char *name, mode_t mode)
{
    int r = fd_make_dir_at(dirfd, name, mode);
    if (r < 0)
        return r;
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int fd_sealed_memory(const char *name, const void *data, size_t len)
{
    _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return fd_steal(&fd);
}

ssize_t fd_send_msg(int sock, const void *data, size_t len, const int *fds, size_t n_fds)
{
    char control[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)] = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > FD_PASS_MAX)
        return -E2BIG;
    if (n_fds) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Descriptors beyond FD_PASS_MAX are closed at once, and all of them when anything was cut off:
 * a message that is not whole must not leave descriptors behind in the receiver. */
ssize_t fd_recv_msg(int sock, void *data, size_t size, int fds[FD_PASS_MAX])
{
    char control[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fds[i] = -1;
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    size_t got = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (got < FD_PASS_MAX)
                fds[got++] = fd;
            else
                close(fd);
        }
    }
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        for (size_t i = 0; i < got; i++)
            fd_close(&fds[i]);
        return -EMSGSIZE;
    }
    return n;
}
