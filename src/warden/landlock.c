/* SPDX-License-Identifier: Apache-2.0 */
/* See landlock.h. TCP ports are not restricted: the sandbox has a network namespace of its own.
 * Nothing in /proc can be written: a tool could set its oom_score_adj back to the daemon's, where
 * the daemon lacks the right to forbid that (CAP_SYS_RESOURCE), and outlive its runner and others.
 */
#include "warden/landlock.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/landlock.h"

static int allow_path(int ruleset, const char *path, uint64_t rights)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return landlock_ruleset_allow(ruleset, fd, rights);
}

int landlock_allow_writing(int ruleset_fd, int abi, const char *path)
{
    return allow_path(ruleset_fd, path,
                      landlock_known(abi).fs & ~(LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK));
}

int landlock_open(int abi, const char *const *writable)
{
    struct landlock_rights refused = landlock_known(abi);
    uint64_t known = refused.fs;
    refused.net = 0;
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    if (ruleset < 0)
        return ruleset;
    uint64_t read = LANDLOCK_EXECUTE | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR;
    uint64_t write = LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE;
    int r = allow_path(ruleset, "/", (read | LANDLOCK_REFER) & known);
    if (r < 0)
        return r;
    r = allow_path(ruleset, "/dev", (write | LANDLOCK_IOCTL_DEV) & known);
    if (r < 0)
        return r;
    for (; *writable; writable++) {
        r = landlock_allow_writing(ruleset, abi, *writable);
        if (r < 0)
            return r;
    }
    return fd_steal(&ruleset);
}
