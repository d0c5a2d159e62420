/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the host (vmm/share.h): the guest's kernel speaks FUSE with a descriptor, and two
 * processes per directory carry the messages over its port, one in each direction. They change
 * nothing in them: each begins with its length. These two alone hold the descriptor: when the
 * host's side ends, so do both, and the kernel fails every request from then on (ENOTCONN) instead
 * of leaving commands to wait for answers that never come. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/mount-calls.h"
#include "guest/internal.h"

#define MESSAGE_MAX (256 * 1024) /* more than either side sends; the kernel wants room to read */

/* Before the root is entered, which shows neither device. */
void guest_open_shares(struct guest *g)
{
    char word[16], path[32];
    if (!guest_find_word(GUEST_SHARES_WORD, word, sizeof(word)))
        return;
    g->n_shares = (uint32_t)atoi(word);
    if (g->n_shares > PLAN_MOUNTS_MAX)
        guest_give_up(g, "count the host's directories", EPROTO);
    guest_load_modules(GUEST_FUSE_MODULES);
    for (uint32_t i = 0; i < g->n_shares; i++) {
        snprintf(path, sizeof(path), GUEST_SHARE_PORT "%u", GUEST_FIRST_SHARE + i);
        g->shares[i].port_fd = guest_open_port(path);
        g->shares[i].fuse_fd = guest_open_port("/dev/fuse");
        if (g->shares[i].port_fd < 0 || g->shares[i].fuse_fd < 0)
            guest_give_up(g, "open the port of a host directory", ENODEV);
    }
}

static void __attribute__((noreturn)) carry_requests(const struct guest_share *k)
{
    static char data[MESSAGE_MAX];
    for (;;) {
        ssize_t n = read(k->fuse_fd, data, sizeof(data));
        if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
            continue; /* the request was taken back */
        if (n <= 0 || fd_write_all(k->port_fd, data, (size_t)n) < 0)
            _exit(0);
    }
}

static int read_exactly(int fd, char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EPIPE;
        done += (size_t)n;
    }
    return 0;
}

/* The kernel refuses an answer to what it has taken back; that one is dropped. The other process
 * waits for the kernel's requests and does not see that the port has ended. */
static void __attribute__((noreturn)) carry_answers(const struct guest_share *k)
{
    static char data[MESSAGE_MAX];
    uint32_t len;
    while (read_exactly(k->port_fd, data, sizeof(len)) == 0) {
        memcpy(&len, data, sizeof(len));
        if (len < sizeof(len) || len > sizeof(data) ||
            read_exactly(k->port_fd, data + sizeof(len), len - sizeof(len)) < 0)
            break;
        if (write(k->fuse_fd, data, len) < 0 && errno == ENODEV)
            break;
    }
    syscall(SYS_pidfd_send_signal, k->requests_fd, SIGKILL, NULL, 0);
    _exit(0);
}

static pid_t start_carrying(struct guest *g, struct guest_share *k,
                            void (*fn)(const struct guest_share *k))
{
    pid_t pid = fork();
    if (pid < 0)
        guest_give_up(g, "carry the messages of a host directory", errno);
    if (pid > 0)
        return pid;
    for (uint32_t i = 0; i < g->n_shares; i++) {
        if (&g->shares[i] == k)
            continue;
        fd_close(&g->shares[i].port_fd);
        fd_close(&g->shares[i].fuse_fd);
    }
    fn(k);
    _exit(1);
}

/* Its files show with the ids that the host's side sees, which are the sandbox's (guest.c); the
 * kernel checks permissions by them, and the host once more. */
static int mount_share(const struct guest_share *k, bool read_only)
{
    char fd_text[16];
    snprintf(fd_text, sizeof(fd_text), "%d", k->fuse_fd);
    const char *const options[][2] = {
        {"source", "host"}, {"fd", fd_text},   {"rootmode", "40000"},
        {"user_id", "0"},   {"group_id", "0"},
    };
    static const char *const flags[] = {"allow_other", "default_permissions", "ro"};
    _cleanup_close_ int fs = fsopen("fuse", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
            return -errno;
    for (size_t i = 0; i < (read_only ? 3u : 2u); i++)
        if (fsconfig(fs, FSCONFIG_SET_FLAG, flags[i], NULL, 0) < 0)
            return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC,
                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0));
    return fd < 0 ? -errno : fd;
}

void guest_mount_shares(struct guest *g)
{
    const struct child_order *o = &g->order.child;
    if (o->n_mounts != g->n_shares)
        guest_give_up(g, "mount the host's directories", EPROTO);
    for (uint32_t i = 0; i < g->n_shares; i++) {
        struct guest_share *k = &g->shares[i];
        int fd = mount_share(k, o->shares_read_only >> i & 1);
        if (fd < 0)
            guest_give_up(g, "mount a host directory", -fd);
        g->share_fds[i] = fd;
        k->requests_fd = (int)syscall(SYS_pidfd_open, start_carrying(g, k, carry_requests), 0);
        if (k->requests_fd < 0)
            guest_give_up(g, "watch the messages of a host directory", errno);
        start_carrying(g, k, carry_answers);
        fd_close(&k->requests_fd);
        fd_close(&k->port_fd);
        fd_close(&k->fuse_fd);
    }
}
