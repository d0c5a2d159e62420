/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of mounted host directories and images; see mount_map_owner() in mount.h. The kernel takes
 * a mapping in the form of a user namespace, so one is made for the purpose, with those ids in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/helper.h"
#include "builder/mount-calls.h"
#include "warden/local/mount.h"

#define OWNERS_MAX  3 /* a sandbox has no more ids */
#define STACK_BYTES 16384

struct map {
    const struct mount_owner *uids, *gids;
    size_t n;
};

static int write_map(int proc_fd, pid_t pid, const char *file, const struct mount_owner *o,
                     size_t n)
{
    char path[48], text[OWNERS_MAX * 32];
    size_t len = 0;
    if (n > OWNERS_MAX)
        return -E2BIG;
    for (size_t i = 0; i < n; i++)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%u %u 1\n", o[i].on_disk, o[i].shown);
    snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    return fd_write_file_at(proc_fd, path, text);
}

static int open_map(int proc_fd, pid_t pid, const struct map *m)
{
    char path[48];
    int r = write_map(proc_fd, pid, "uid_map", m->uids, m->n);
    if (r < 0)
        return r;
    r = write_map(proc_fd, pid, "gid_map", m->gids, m->n);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Runs in the warden's own memory, errno included, so it makes no call that can fail where a map
 * can be had at all: a kernel with mapped mounts has close_range() and its flag. That gives it a
 * table of descriptors of its own, which copies standard error and what is below only. */
static int wait_for_the_end(void *warden)
{
    helper_tie(*(const pid_t *)warden);
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_UNSHARE) < 0)
        _exit(125);
    for (;;)
        pause();
    return 0;
}

/* A namespace outlives the process that was cloned to make it as long as it is open. That one does
 * nothing, so it needs no memory of its own, which is most of what a clone takes. */
static int make_map(int proc_fd, const struct map *m)
{
    static char stack[STACK_BYTES] __attribute__((aligned(16)));
    pid_t warden = getpid();
    pid_t pid = clone(wait_for_the_end, stack + sizeof(stack),
                      CLONE_NEWUSER | CLONE_VM | CLONE_FILES | SIGCHLD, &warden);
    if (pid < 0)
        return -errno;
    int fd = open_map(proc_fd, pid, m);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return fd;
}

static int apply_map(int tree_fd, int proc_fd, const struct map *m)
{
    _cleanup_close_ int map = make_map(proc_fd, m);
    if (map < 0)
        return map;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map};
    return mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int mount_map_owners(int tree_fd, int proc_fd, const struct mount_owner *owners, size_t n)
{
    return apply_map(tree_fd, proc_fd, &(struct map){owners, owners, n});
}

int mount_map_owner(int tree_fd, int proc_fd, uint32_t tool_id)
{
    struct stat st;
    if (fstat(tree_fd, &st) < 0)
        return -errno;
    if (st.st_uid == 0 || st.st_gid == 0)
        return -EPERM;
    const struct mount_owner uid = {st.st_uid, tool_id}, gid = {st.st_gid, tool_id};
    return apply_map(tree_fd, proc_fd, &(struct map){&uid, &gid, 1});
}
