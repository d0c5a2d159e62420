/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the host, opened by the warden for a child to attach; see mount.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/local/mount.h"

/* more: AT_RECURSIVE, or 0. */
static int clone_tree(int fd, bool read_only, bool devices, unsigned more)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | (devices ? 0 : MOUNT_ATTR_NODEV) |
                                          (read_only ? MOUNT_ATTR_RDONLY : 0)};
    _cleanup_close_ int tree =
        open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | more);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | more, &attr, sizeof(attr)) < 0)
        return -errno;
    return fd_steal(&tree);
}

/* The kernel copies only mounts of the namespace that the caller is in, so the warden enters the
 * host's view for the copy. The copy is attached nowhere, and gets its attributes before any other
 * process can have it. */
static int open_host(int host_ns_fd, int own_ns_fd, int dirfd, const char *subpath, bool read_only,
                     bool devices, unsigned more)
{
    if (setns(host_ns_fd, CLONE_NEWNS) < 0)
        return -errno;
    _cleanup_close_ int dir = mount_open_beneath(dirfd, subpath);
    int tree = dir < 0 ? dir : clone_tree(dir, read_only, devices, more);
    if (setns(own_ns_fd, CLONE_NEWNS) < 0) {
        /* Serving on from the host's view would give sandboxes the host's root. */
        log_error("cannot return to the template's mount namespace error=%s", strerror(errno));
        _exit(1);
    }
    return tree;
}

int mount_open_host(int host_ns_fd, int own_ns_fd, int dirfd, const char *subpath, bool read_only)
{
    return open_host(host_ns_fd, own_ns_fd, dirfd, subpath, read_only, false, 0);
}

int mount_clone_tree(int dirfd)
{
    return clone_tree(dirfd, true, false, AT_RECURSIVE);
}

int mount_open_host_devices(int host_ns_fd, int own_ns_fd, int dirfd)
{
    return open_host(host_ns_fd, own_ns_fd, dirfd, "", true, true, 0);
}
