/* SPDX-License-Identifier: Apache-2.0 */
/* From verified layers to a root file system in the work directory. */
#pragma once

#include "image/meter.h"

struct layer {
    int fd;                          /* closed by layers_done() */
    char digest[IMAGE_DIGEST_SIZE];  /* of the file; "" if it is not known before */
    char diff_id[IMAGE_DIGEST_SIZE]; /* of the tar in it; "" if it is not known before */
    uint64_t size;
};

struct layers {
    struct layer *items;
    size_t count;
};

void layers_init(struct layers *l, size_t count); /* with no descriptors yet */
void layers_done(struct layers *l);
#define _cleanup_layers_ __attribute__((cleanup(layers_done)))

/* Reads each file whose digest is known, and compares. */
int layers_verify(struct layers *l, struct meter *m, struct error *err);
/* Does that first, then makes "rootfs" and unpacks them in order, hashing again what is
 * really read. On failure there is no rootfs. */
int layers_unpack(struct layers *l, int work_fd, struct meter *m, struct image_info *info,
                  struct error *err);
/* For other sources: an empty rootfs, and its end on failure. */
int layers_make_rootfs(int work_fd, struct error *err);
void layers_drop_rootfs(int work_fd);
