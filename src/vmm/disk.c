/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's disk as a file on the cell's, which limits it: a file system of the guest's own, made
 * by the host's mke2fs as the tool's user. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
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

/* Ends with an errno, or as mke2fs does. */
static void __attribute__((noreturn)) make_disk(const struct vm *vm)
{
    char inodes[32];
    uid_t id = vm_tool_id(vm);
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
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(errno);
    int error = make_file();
    if (error)
        _exit(error);
    execv(MKE2FS, (char *const *)argv);
    _exit(errno);
}

void vm_make_disk(const struct vm *vm)
{
    int status;
    if (!vm->start.child.disk_from_fd)
        return;
    pid_t pid = fork();
    if (pid == 0)
        make_disk(vm);
    child_must(pid < 0 || waitpid(pid, &status, 0) != pid ? -errno : 0, "make the guest's disk",
               WALL_DISK);
    child_must(status ? -EIO : 0, "make the guest's disk", WALL_DISK);
}
