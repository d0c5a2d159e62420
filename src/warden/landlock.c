/* See landlock.h. Raw system calls and our own constants, because the C library has no wrappers and
 * distribution headers lag behind kernels; rights that the running kernel does not know are
 * stripped by ABI. TCP ports are not restricted: the sandbox has a network namespace of its own. */
#include "warden/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1

#define FS_EXECUTE    (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE  (1ull << 2)
#define FS_READ_DIR   (1ull << 3)
#define FS_ABI1       ((1ull << 13) - 1) /* down to removing and making every kind of file */
#define FS_MAKE_CHAR  (1ull << 6)
#define FS_MAKE_BLOCK (1ull << 11)
#define FS_REFER      (1ull << 13) /* ABI 2 */
#define FS_TRUNCATE   (1ull << 14) /* ABI 3 */
#define FS_IOCTL_DEV  (1ull << 15) /* ABI 5 */

#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNAL               (1ull << 1)

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net; /* ABI 4 */
    uint64_t scoped;             /* ABI 6 */
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

static uint64_t known_rights(int abi)
{
    uint64_t rights = FS_ABI1;
    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

static size_t attr_size(int abi)
{
    return abi >= 6 ? sizeof(struct ruleset_attr) : abi >= 4 ? 16 : 8;
}

static int allow(int ruleset, const char *path, uint64_t rights)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    struct path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_allow_writing(int ruleset_fd, int abi, const char *path)
{
    return allow(ruleset_fd, path, known_rights(abi) & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK));
}

int landlock_open(int abi, const char *const *writable)
{
    uint64_t known = known_rights(abi);
    struct ruleset_attr attr = {
        .handled_access_fs = known,
        .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
    };
    _cleanup_close_ int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attr, attr_size(abi), 0);
    if (ruleset < 0)
        return -errno;
    uint64_t read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
    uint64_t device = (FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV) & known;
    int r = allow(ruleset, "/", read | (FS_REFER & known));
    r = r < 0 ? r : allow(ruleset, "/dev", device);
    r = r < 0 ? r : allow(ruleset, "/proc", (FS_WRITE_FILE | FS_TRUNCATE) & known);
    for (; r == 0 && *writable; writable++)
        r = landlock_allow_writing(ruleset, abi, *writable);
    return r < 0 ? r : fd_steal(&ruleset);
}

int landlock_restrict(int ruleset_fd)
{
    return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}
