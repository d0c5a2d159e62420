/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "proto/message.h"

#define FS_READ     (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define FS_READ_RUN (FS_READ | LANDLOCK_EXECUTE)
#define FS_USE      (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_IOCTL_DEV)

static const char *const system_dirs[] = {
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/proc", "/dev",
};
static const char *const devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
};

static int grant_path(int ruleset_fd, const char *path, uint64_t rights, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    return landlock_ruleset_allow(ruleset_fd, fd, rights);
}

static int grant_system(int ruleset_fd, uint64_t known)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ELEMENTS(system_dirs); i++)
        r = grant_path(ruleset_fd, system_dirs[i], FS_READ_RUN, 0);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(devices); i++)
        r = grant_path(ruleset_fd, devices[i], (FS_USE | LANDLOCK_TRUNCATE) & known, 0);
    return r < 0 ? r : grant_path(ruleset_fd, "/dev/pts", FS_USE & known, 0);
}

/* The tool may have replaced a listed place by a symlink to one that is not: none is followed. */
static int grant_listed(int ruleset_fd, const struct msg_spawn *msg, uint64_t known)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < msg->n_paths; i++)
        r = grant_path(ruleset_fd, msg->paths[i].path, msg->paths[i].writable ? known : FS_READ_RUN,
                       RESOLVE_NO_SYMLINKS);
    return r;
}

int landlock_enter(int abi, bool narrow, const struct msg_spawn *msg)
{
    if (abi < 1)
        return -ENOSYS;
    struct landlock_rights refused = landlock_known(abi);
    uint64_t known = refused.fs;
    refused.net = 0;
    if (!narrow)
        refused.fs = LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK;
    _cleanup_close_ int fd = landlock_ruleset_open(abi, &refused);
    if (fd < 0)
        return fd;
    int r = narrow ? grant_system(fd, known) : 0;
    if (r >= 0 && narrow)
        r = grant_listed(fd, msg, known);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return landlock_restrict(fd);
}
