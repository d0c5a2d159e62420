/* SPDX-License-Identifier: Apache-2.0 */
/* The Landlock rules of a fenced sandbox (fence.h). Commands get less than their runner: of /proc
 * only what tells about the machine, because there is no way to grant a process its own directory
 * and not those of all others. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "warden/copy.h"
#include "warden/fence/fence.h"
#include "warden/local/root.h"

#define FS_READ     (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define FS_READ_RUN (FS_READ | LANDLOCK_EXECUTE)
#define FS_DEVICE   (LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE | LANDLOCK_IOCTL_DEV)

static const char *const devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
};

/* The runner makes terminals; a command could take all that the host has. */
static const char *const terminals[] = {"/dev/ptmx", "/dev/pts"};

static const char *const machine[] = {
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/max_map_count",
};
_Static_assert(ELEMENTS(machine) <= FENCE_PROC_MAX, "a descriptor for each");

static int allow_at(int ruleset, int dir_fd, const char *path, uint64_t rights)
{
    _cleanup_close_ int fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    return landlock_ruleset_allow(ruleset, fd, rights);
}

static int allow_all(int ruleset, const char *const *paths, size_t n, uint64_t rights)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = allow_at(ruleset, AT_FDCWD, paths[i], rights);
    return r;
}

static int allow_system(int ruleset)
{
    int r = 0;
    for (size_t i = 0; r == 0 && root_host_dirs[i]; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/%s", root_host_dirs[i]);
        r = allow_at(ruleset, AT_FDCWD, path, FS_READ_RUN);
    }
    return r;
}

struct etc_rules {
    int ruleset, fd;
};

static int on_etc(void *data, const char *name)
{
    const struct etc_rules *e = data;
    return allow_at(e->ruleset, e->fd, name, FS_READ);
}

static int allow_etc(int ruleset)
{
    _cleanup_close_ int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct etc_rules rules = {ruleset, etc};
    int r = 0;
    if (etc < 0)
        return errno == ENOENT ? 0 : -errno;
    for (size_t i = 0; r == 0 && root_etc_parts[i]; i++)
        r = copy_each(etc, root_etc_parts[i], on_etc, &rules);
    return r;
}

static int allow_proc(int ruleset, const struct fence_host *h, enum fence_whom whom)
{
    int r = 0;
    if (whom == FENCE_RUNNER)
        return allow_at(ruleset, AT_FDCWD, "/proc", FS_READ);
    for (size_t i = 0; r == 0 && i < FENCE_PROC_MAX; i++)
        if (h->proc_fds[i] >= 0)
            r = landlock_ruleset_allow(ruleset, h->proc_fds[i], LANDLOCK_READ_FILE);
    return r;
}

/* A rule is about an inode, and /proc makes a new one for a name that it has forgotten. */
int fence_rules_open_proc(struct fence_host *h)
{
    for (size_t i = 0; i < FENCE_PROC_MAX; i++) {
        _cleanup_close_ int fd = i < ELEMENTS(machine) ? open(machine[i], O_PATH | O_CLOEXEC) : -1;
        h->proc_fds[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FENCE_FD_MIN);
    }
    return access("/proc/self/stat", R_OK) < 0 ? -errno : 0;
}

int fence_rules_open(const struct fence_host *h, int abi, const char *box, enum fence_whom whom)
{
    struct landlock_rights refused = landlock_known(abi);
    uint64_t known = refused.fs;
    /* Signals are not scoped for commands: they may signal each other. The runner's Landlock domain
     * stops signals that leave the sandbox, and its user id stops those aimed at the runner. */
    if (whom == FENCE_COMMAND)
        refused.scoped = 0;
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    if (ruleset < 0)
        return ruleset;
    int r = allow_system(ruleset);
    if (r < 0)
        return r;
    r = allow_etc(ruleset);
    if (r < 0)
        return r;
    r = allow_all(ruleset, devices, ELEMENTS(devices), FS_DEVICE & known);
    if (r < 0)
        return r;
    r = allow_proc(ruleset, h, whom);
    if (r < 0)
        return r;
    if (whom == FENCE_RUNNER) {
        r = allow_all(ruleset, terminals, ELEMENTS(terminals), FS_DEVICE & known);
        if (r < 0)
            return r;
        r = landlock_ruleset_allow(ruleset, h->runner_fd, LANDLOCK_EXECUTE | LANDLOCK_READ_FILE);
        if (r < 0)
            return r;
    }
    r = allow_at(ruleset, AT_FDCWD, box, known & ~(LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK));
    if (r < 0)
        return r;
    return fd_steal(&ruleset);
}
