/* Owners of mounted host directories; see mount_map_owner() in mount.h. The kernel takes a mapping
 * in the form of a user namespace, so one is made for the purpose, with one id in it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/mount.h"

static int write_map(int proc_fd, pid_t pid, const char *file, uint32_t on_disk, uint32_t shown)
{
    char path[48], map[48];
    snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
    snprintf(map, sizeof(map), "%u %u 1\n", on_disk, shown);
    return fd_write_file_at(proc_fd, path, map);
}

static int open_map(int proc_fd, pid_t pid, const struct stat *st, uint32_t tool_id)
{
    char path[48];
    int r = write_map(proc_fd, pid, "uid_map", st->st_uid, tool_id);
    r = r < 0 ? r : write_map(proc_fd, pid, "gid_map", st->st_gid, tool_id);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A namespace outlives the process that was cloned to make it as long as it is open. */
static int make_map(int proc_fd, const struct stat *st, uint32_t tool_id)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid == 0)
        for (;;)
            pause();
    int fd = open_map(proc_fd, pid, st, tool_id);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return fd;
}

int mount_map_owner(int tree_fd, int proc_fd, uint32_t tool_id)
{
    struct stat st;
    if (fstat(tree_fd, &st) < 0)
        return -errno;
    if (st.st_uid == 0 || st.st_gid == 0)
        return -EPERM;
    _cleanup_close_ int map = make_map(proc_fd, &st, tool_id);
    if (map < 0)
        return map;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map};
    return mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}
