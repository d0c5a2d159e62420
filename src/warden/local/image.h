/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes whose root is a stored image.
 *
 * Theory of operation. An image lies below the state directory as images/store/<digest>/rootfs, put
 * there by the image keeper, which has no rights, and never changes. The warden opens it by its
 * digest and makes a detached, read-only copy of that mount, whose three owners appear as the
 * sandbox's own. The sandbox's root is an overlay file system: below the image, above a directory
 * of its disk, so that what it changes is its own and in its budget. It is mounted with rights over
 * a user namespace of the sandbox's ids only: by a child itself, by a helper of the launcher for an
 * OCI runtime. What goes above is in builder/image.h. */
#pragma once

#include <stdint.h>

#include "builder/image.h"

struct id_range;

/* Owners of files in the store of a daemon that root started: the image's 0, 1000 and 65534. */
#define IMAGE_ROOT_ID   64216
#define IMAGE_TOOL_ID   64217
#define IMAGE_NOBODY_ID 64218

/* In the warden: a detached read-only copy of the image's mount, or -errno; -ENOENT: not there.
 * store_fd is the state directory in the host view. */
int image_open(int host_ns_fd, int own_ns_fd, int store_fd, const char *digest);
/* In the warden: makes its files appear as those of the sandbox with this block of ids. */
int image_map_owners(int tree_fd, int proc_fd, const struct id_range *ids, int64_t block);

/* In the child: makes the image the root of its mount namespace, with /proc, /dev, /.mas and the
 * parts of the disk as in any other. */
int image_root_enter(int tree_fd, struct image_upper *u);
/* In the child, after it: what permissions let the sandbox write may be written, but for the
 * system's own places. */
int image_root_allow_writing(int landlock_fd, int abi);
