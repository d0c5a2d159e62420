/* SPDX-License-Identifier: Apache-2.0 */
/* One tar archive as a layer over a root file system; image_unpack_layer() with the parts that its
 * callers here share. */
#pragma once

#include "image/meter.h"

struct unpack_result {
    char digest[IMAGE_DIGEST_SIZE];  /* of the file as it came */
    char diff_id[IMAGE_DIGEST_SIZE]; /* of the tar in it */
};

/* The rootfs is below m's info: sizes and files are counted there. */
int unpack_layer(int rootfs_fd, int tar_fd, struct meter *m, struct image_info *info,
                 struct unpack_result *ret, struct error *err);
/* What a tar can be at most before what is in it is over the limits. */
uint64_t unpack_largest_tar(const struct image_limits *l);
/* An error that names the entry, whatever it was about. */
void unpack_name_entry(const char *name, struct error *err);
