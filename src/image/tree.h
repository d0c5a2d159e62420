/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a root file system that another process has written.
 *
 * The unpacker reads hostile bytes, so the worker believes nothing of what it says about its work.
 * This walk is the worker's own: it follows no link, and whatever a root file system may not hold
 * ends it. The process that wrote the tree must have ended before. */
#pragma once

#include "image/image.h"

/* Counts "rootfs" in a work directory against the limits into files and size_bytes of *info.
 * Refused are anything beside rootfs, nodes that are neither file, directory nor symbolic link,
 * setuid and setgid bits, owners that no sandbox has, and extended attributes that a file system
 * above would obey. With `hash`, info->digest becomes the digest of a sorted walk over names,
 * kinds, modes and content. */
int image_tree_check(int work_fd, bool hash, const struct image_options *o, struct image_info *info,
                     struct error *err);

/* The names in a directory, sorted, and not many more than max of them. The caller frees *ret with
 * strv_free(). */
int tree_names(int dir_fd, uint64_t max, char ***ret, size_t *ret_count);
