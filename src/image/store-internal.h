/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#pragma once

#include "image/store.h"

struct image_store {
    int store, names, tmp; /* the three directories */
};

/* Writes a file of its own in tmp, syncs it and renames it to name in dir_fd, which it syncs too.
 */
int store_write_file(struct image_store *s, int dir_fd, const char *name, const char *data,
                     size_t len);
/* Takes away every name that leads to the digest. */
int store_drop_names(struct image_store *s, const char *digest);
/* Calls each with every name in a directory but "." and "..", until one is not 0. */
int store_each(int dir_fd, int (*each)(void *arg, const char *name), void *arg);
