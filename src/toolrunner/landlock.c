/* Landlock by raw system calls: the C library of Debian 12 has none, its headers stop at ABI 2. */
#include "toolrunner/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "proto/message.h"

#define FS_READ      (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_READ_RUN  (FS_READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define FS_ALL_ABI1  ((1ull << 13) - 1)
#define FS_REFER     (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE  (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV (1ull << 15) /* ABI 5 */
#define FS_ON_FILE                                                                                 \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE |   \
     FS_TRUNCATE | FS_IOCTL_DEV)
#define FS_DEVICES   (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define SCOPE_SOCKET 1ull /* ABI 6 */
#define SCOPE_SIGNAL 2ull

struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net; /* ABI 4 */
    uint64_t scoped;      /* ABI 6 */
};

static const char *const system_dirs[] = {
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/proc", "/dev",
};
static const char *const devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
};

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t rights_known(int abi)
{
    uint64_t rights = FS_ALL_ABI1;
    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

static size_t ruleset_size(int abi)
{
    return abi >= 6 ? sizeof(struct ruleset) : abi >= 4 ? 16 : 8;
}

static int grant_fd(int ruleset_fd, int fd, uint64_t rights)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rights &= FS_ON_FILE;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    long r = syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    return r < 0 ? -errno : 0;
}

static int grant_path(int ruleset_fd, const char *path, uint64_t rights, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    return grant_fd(ruleset_fd, fd, rights);
}

static int grant_system(int ruleset_fd, uint64_t known)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ELEMENTS(system_dirs); i++)
        r = grant_path(ruleset_fd, system_dirs[i], FS_READ_RUN, 0);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(devices); i++)
        r = grant_path(
            ruleset_fd, devices[i],
            (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) & known, 0);
    if (r >= 0)
        r = grant_path(ruleset_fd, "/dev/pts",
                       (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV) & known, 0);
    return r;
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
    uint64_t known = rights_known(abi);
    struct ruleset attr = {
        .handled_fs = narrow ? known : FS_DEVICES,
        .scoped = abi >= 6 ? SCOPE_SIGNAL | SCOPE_SOCKET : 0,
    };
    _cleanup_close_ int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, ruleset_size(abi), 0);
    if (fd < 0)
        return -errno;
    int r = narrow ? grant_system(fd, known) : 0;
    if (r >= 0 && narrow)
        r = grant_listed(fd, msg, known);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}
