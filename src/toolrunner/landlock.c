/* SPDX-License-Identifier: Apache-2.0 */
/* The Landlock domain of one command, entered by its process before execve(). Domains stack:
 * this one can only take away from what the runner's own domain and the mounts leave. */
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
    /* What is not there cannot be reached, and a rule for it is not missed. Made later, it is
     * refused, which is the safe side. */
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
    if (r < 0)
        return r;
    return grant_path(ruleset_fd, "/dev/pts", FS_USE & known, 0);
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

/* A file may move from one directory to another in a domain only if a rule says so, whatever else
 * the domain is about. */
static int grant_moves(int ruleset_fd)
{
    return grant_path(ruleset_fd, "/", LANDLOCK_REFER, 0);
}

static int grant_proxy(int ruleset_fd, uint16_t port)
{
    return landlock_ruleset_allow_port(ruleset_fd, port, LANDLOCK_CONNECT_TCP);
}

int landlock_enter(int abi, uint16_t proxy_port, const struct msg_spawn *msg)
{
    bool narrow = msg->flags & SPAWN_NARROW;
    /* A rule that the kernel cannot hold must not be dropped silently: the command is not
     * started. */
    if (abi < 1 || (proxy_port && abi < LANDLOCK_ABI_NET))
        return -ENOSYS;
    struct landlock_rights refused = landlock_known(abi);
    uint64_t known = refused.fs;
    refused.net = proxy_port ? LANDLOCK_CONNECT_TCP : 0;
    /* A command that keeps all of the file system is put into a domain all the same where it has a
     * proxy of its own. The domain must refuse at least one right; these are the ones that no
     * command of a sandbox has anyway. */
    if (!narrow)
        refused.fs = LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK | (known & LANDLOCK_REFER);
    _cleanup_close_ int fd = landlock_ruleset_open(abi, &refused);
    if (fd < 0)
        return fd;
    int r = narrow ? grant_system(fd, known) : known & LANDLOCK_REFER ? grant_moves(fd) : 0;
    if (r < 0)
        return r;
    r = narrow ? grant_listed(fd, msg, known) : 0;
    if (r < 0)
        return r;
    r = proxy_port ? grant_proxy(fd, proxy_port) : 0;
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return landlock_restrict(fd);
}
