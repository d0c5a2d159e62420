/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of host directories, made by the warden for a child to attach (builder/mount.h). */
#pragma once

#include "builder/mount.h"

/* In the warden: opens subpath ("": itself) below dirfd (a directory of the host view) without
 * following any link, and returns a detached copy of that mount for a child to attach. Visits the
 * host view's namespace and comes back. */
int mount_open_host(int host_ns_fd, int own_ns_fd, int dirfd, const char *subpath, bool read_only);
/* The same of a directory of device nodes, which can be used there. */
int mount_open_host_devices(int host_ns_fd, int own_ns_fd, int dirfd);
/* The same of a directory of the namespace that the caller is in, read-only, with what is mounted
 * in it. */
int mount_clone_tree(int dirfd);
/* In the warden: makes files of the mounted directory's owner appear as the tool's, and what the
 * tool makes there the owner's. Not for a directory of root's: a tool that writes as the host's
 * root could leave a set-user-id program behind. tool_id is the tool's on the host. -EPERM for
 * root's, or what the file system says that cannot do it; the mount then stays as it is. */
int mount_map_owner(int tree_fd, int proc_fd, uint32_t tool_id);
/* The same for several ids: the owner of a file on disk, and the owner that it is shown with. */
struct mount_owner {
    uint32_t on_disk, shown;
};
int mount_map_owners(int tree_fd, int proc_fd, const struct mount_owner *owners, size_t n);
