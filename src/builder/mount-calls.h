/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API of Linux 5.2, for a C library that has no functions for it. */
#pragma once

#include <sys/mount.h>

#ifndef __GLIBC__
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_TREE_CLONE         1
#define OPEN_TREE_CLOEXEC       O_CLOEXEC
#define MOVE_MOUNT_F_EMPTY_PATH 0x4
#define MOVE_MOUNT_T_EMPTY_PATH 0x40

static inline int open_tree(int fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, fd, path, flags);
}

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

#define FSOPEN_CLOEXEC      1
#define FSMOUNT_CLOEXEC     1
#define FSCONFIG_SET_FLAG   0
#define FSCONFIG_SET_STRING 1
#define FSCONFIG_CMD_CREATE 6
#define MOUNT_ATTR_RDONLY   1
#define MOUNT_ATTR_NOSUID   2
#define MOUNT_ATTR_NODEV    4

#define MOUNT_ATTR_IDMAP 0x100000

struct mount_attr {
    unsigned long long attr_set, attr_clr, propagation, userns_fd;
};

static inline int mount_setattr(int fd, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, size);
}

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}
#endif
