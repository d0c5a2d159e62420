/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel draws its boot id once, and programs take it for what tells two machines apart. In a
 * machine that is a copy of one whose programs run, another is put in its place: a file over the
 * kernel's, in the sandbox's own mounts. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/mount-calls.h"
#include "guest/internal.h"

#define FILE_PATH   "/dev/.boot_id" /* of the guest's own, which no sandbox sees */
#define KERNEL_PATH "/proc/sys/kernel/random/boot_id"

/* A random UUID (version 4) as the kernel writes it. */
static int write_boot_id(void)
{
    uint8_t b[16];
    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        return -EIO;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    _cleanup_close_ int fd = open(FILE_PATH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    if (fd < 0)
        return -errno;
    int n = dprintf(fd, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
                    b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                    b[13], b[14], b[15]);
    return n < 0 ? -EIO : 0;
}

/* In a process of its own, which enters the sandbox's mounts. */
static int mount_boot_id(pid_t runner)
{
    char path[48];
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)runner);
    _cleanup_close_ int space = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_close_ int file = open_tree(AT_FDCWD, FILE_PATH, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (space < 0 || file < 0 || mount_setattr(file, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
        setns(space, CLONE_NEWNS) < 0 ||
        move_mount(file, "", AT_FDCWD, KERNEL_PATH, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

int guest_renew_boot_id(struct guest *g)
{
    int status, r = write_boot_id();
    if (r < 0 || g->has_boot_id) /* a copy of a copy: the file is in its place already */
        return r;
    pid_t pid = fork();
    if (pid == 0)
        _exit(-mount_boot_id(g->runner));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -errno;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
    g->has_boot_id = true;
    return 0;
}
