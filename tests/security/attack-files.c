/* SPDX-License-Identifier: Apache-2.0 */
/* Files, mounts and namespaces. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

#define BUFFER_SIZE 4096

static int wait_child(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int attack_read(char **args)
{
    char text[BUFFER_SIZE];
    int fd = open(args[0], O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ENODATA; /* masked */
    fwrite(text, 1, (size_t)n, stdout);
    return 0;
}

static int attack_write(char **args)
{
    int fd = open(args[0], O_WRONLY);
    if (fd < 0)
        return -errno;
    return attack_result(write(fd, args[1], strlen(args[1])));
}

static int attack_create(char **args)
{
    int fd = open(args[0], O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? -errno : 0;
}

static int attack_link(char **args)
{
    return attack_result(link(args[0], args[1]));
}

static int attack_symlink_read(char **args)
{
    char target[256] = "";
    if (symlink(args[0], args[1]) < 0 && errno != EEXIST)
        return -errno;
    if (readlink(args[1], target, sizeof(target) - 1) < 0)
        return -errno;
    return attack_read(args + 1);
}

static int attack_list(char **args)
{
    int fd = open(args[0], O_RDONLY | O_DIRECTORY);
    char entries[BUFFER_SIZE];
    if (fd < 0)
        return -errno;
    return attack_result(syscall(SYS_getdents64, fd, entries, sizeof(entries)));
}

static int attack_mknod(char **args)
{
    mode_t type = strcmp(args[1], "b") == 0 ? S_IFBLK : S_IFCHR;
    if (mknod(args[0], type | 0666, makedev((unsigned)atoi(args[2]), (unsigned)atoi(args[3]))) < 0)
        return -errno;
    return 0;
}

static int attack_handle(char **args)
{
    struct {
        struct file_handle h;
        char bytes[128];
    } handle = {.h.handle_bytes = 128};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, args[0], &handle.h, &mount_id, 0) < 0)
        return -errno;
    int dir = open(args[0], O_RDONLY);
    return attack_result(open_by_handle_at(dir, &handle.h, O_RDONLY));
}

static int attack_mount(char **args)
{
    const char *data = args[3] ? args[3] : NULL;
    return attack_result(mount(args[0], args[1], args[2], 0, data));
}

static int attack_bind(char **args)
{
    return attack_result(mount(args[0], args[1], NULL, MS_BIND, NULL));
}

static int attack_remount(char **args)
{
    return attack_result(mount(NULL, args[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int attack_umount(char **args)
{
    return attack_result(umount2(args[0], MNT_DETACH));
}

static int attack_new_mount_api(char **args)
{
    (void)args;
    int fs = fsopen("tmpfs", 0);
    if (fs < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return attack_result(fsmount(fs, 0, 0));
}

static int attack_open_tree(char **args)
{
    int tree = open_tree(AT_FDCWD, args[0], OPEN_TREE_CLONE);
    if (tree < 0)
        return -errno;
    return attack_result(move_mount(tree, "", AT_FDCWD, args[1], MOVE_MOUNT_F_EMPTY_PATH));
}

static int attack_pivot_root(char **args)
{
    if (mount("none", args[0], "tmpfs", 0, NULL) < 0 && errno != EPERM)
        return -errno;
    if (chdir(args[0]) < 0)
        return -errno;
    return attack_result(syscall(SYS_pivot_root, ".", "."));
}

static int attack_chroot(char **args)
{
    return attack_result(chroot(args[0]));
}

static int attack_unshare(char **args)
{
    return attack_result(unshare((int)strtol(args[0], NULL, 0)));
}

static int attack_clone(char **args)
{
    long pid = syscall(SYS_clone, strtol(args[0], NULL, 0) | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -errno : wait_child((pid_t)pid);
}

static int attack_clone3(char **args)
{
    struct clone_args a = {.flags = strtoull(args[0], NULL, 0), .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &a, sizeof(a));
    if (pid == 0)
        _exit(0);
    return pid < 0 ? -errno : wait_child((pid_t)pid);
}

static int attack_setns(char **args)
{
    int fd = open(args[0], O_RDONLY);
    if (fd < 0)
        return -errno;
    return attack_result(setns(fd, 0));
}

const struct attack attacks_on_files[] = {
    {"read", "PATH", attack_read},
    {"write", "PATH TEXT", attack_write},
    {"create", "PATH", attack_create},
    {"link", "FROM TO", attack_link},
    {"symlink-read", "TARGET LINK", attack_symlink_read},
    {"list", "DIR", attack_list},
    {"mknod", "PATH b|c MAJOR MINOR", attack_mknod},
    {"handle", "PATH", attack_handle},
    {"mount", "SOURCE TARGET TYPE [DATA]", attack_mount},
    {"bind", "SOURCE TARGET", attack_bind},
    {"remount", "TARGET", attack_remount},
    {"umount", "TARGET", attack_umount},
    {"new-mount-api", "", attack_new_mount_api},
    {"open-tree", "SOURCE TARGET", attack_open_tree},
    {"pivot-root", "DIR", attack_pivot_root},
    {"chroot", "DIR", attack_chroot},
    {"unshare", "FLAGS", attack_unshare},
    {"clone", "FLAGS", attack_clone},
    {"clone3", "FLAGS", attack_clone3},
    {"setns", "PATH", attack_setns},
    {NULL, NULL, NULL},
};
