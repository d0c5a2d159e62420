/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's disk as a file on the cell's, which limits it: a file system of the guest's own, made
 * by the host's mke2fs as the tool's user. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "vmm/vmm.h"

#define MKE2FS "/usr/sbin/mke2fs"
/* Of the cell's disk, what its own file system may need for the file. */
#define SLACK_PART 32

static int make_file(void)
{
    struct statvfs fs;
    if (statvfs("/workspace", &fs) < 0)
        return errno;
    off_t free_bytes = (off_t)fs.f_bavail * (off_t)fs.f_frsize;
    _cleanup_close_ int fd = open(VM_DISK_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, free_bytes - free_bytes / SLACK_PART) < 0)
        return errno;
    return 0;
}

static void become_tool(const struct vm *vm)
{
    uid_t id = vm_tool_id(vm);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(errno);
}

/* Ends with an errno, or as mke2fs does. */
static void make_disk(const struct vm *vm)
{
    char inodes[32];
    snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)vm->start.child.disk_inodes);
    const char *const argv[] = {"mke2fs",
                                "-q",
                                "-F",
                                "-t",
                                "ext4",
                                "-m",
                                "0",
                                "-N",
                                inodes,
                                "-O",
                                "^has_journal",
                                "-E",
                                "lazy_itable_init=1,root_owner=0:0,nodiscard",
                                VM_DISK_FILE,
                                NULL};
    int error = make_file();
    if (error)
        _exit(error);
    execv(MKE2FS, (char *const *)argv);
    _exit(errno);
}

/* Runs fn in a process of the tool's user, whose file the disk is. 0, what that ended with, or
 * -errno. */
static int run_as_tool(const struct vm *vm, void (*fn)(const struct vm *vm))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        become_tool(vm);
        fn(vm);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

void vm_make_disk(const struct vm *vm)
{
    if (vm->start.child.disk_from_fd)
        child_must(run_as_tool(vm, make_disk) ? -EIO : 0, "make the guest's disk", WALL_DISK);
}

static void copy_disk(const struct vm *vm)
{
    int fd = open(VM_DISK_FILE, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_copy_sparse(vm->disk_fd, fd);
    if (r < 0)
        _exit(-r);
}

void vm_copy_disk(const struct vm *vm)
{
    int r = vm->start.child.disk_from_fd ? run_as_tool(vm, copy_disk) : 0;
    child_must(r > 0 ? -r : r, "copy the disk of the machine", WALL_DISK);
}

static int save_to_fd = -1;

static void save_disk(const struct vm *vm)
{
    (void)vm;
    int fd = open(VM_DISK_FILE, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_copy_sparse(fd, save_to_fd);
    if (r < 0)
        _exit(-r);
}

int vm_save_disk(const struct vm *vm, int to_fd)
{
    save_to_fd = to_fd;
    int r = run_as_tool(vm, save_disk);
    return r > 0 ? -r : r;
}
