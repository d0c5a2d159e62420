/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API of Linux 5.2, for a C library that has no functions for it. */
#pragma once

#include <sys/mount.h>

#ifndef __GLIBC__
#include <sys/syscall.h>
#include <unistd.h>

#define MOVE_MOUNT_F_EMPTY_PATH 0x4
#define MOVE_MOUNT_T_EMPTY_PATH 0x40

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}
#endif
