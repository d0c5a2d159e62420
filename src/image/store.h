/* SPDX-License-Identifier: Apache-2.0 */
/* The store of unpacked images, on disk as
 *
 *     store/HEX/rootfs/     complete, synced, renamed into place; never changed afterwards
 *     store/HEX/disk        the same as a file system in a file, where one was made of it
 *     store/HEX/image.json  struct image_info; its mtime is the last use
 *     names/ENCODED         a name's digest: 64 hex digits and a newline
 *     tmp/RANDOM/           half-done work
 *
 * Everything becomes visible by one rename after a sync, so a crash at any point leaves an image
 * whole or not there, and what it leaves in tmp is swept at the next start. Calls of several
 * processes at once are safe; sweeping is for when no other process works in the store. */
#pragma once

#include "image/image.h"

struct image_store;

#define IMAGE_DISK_NAME "disk"
#define IMAGE_NAME_MAX  240 /* bytes of a name as encoded; it is a file's name */

/* dir_fd is borrowed and duplicated; what is missing in it is made (0700). */
int image_store_open(int dir_fd, struct image_store **ret, struct error *err);
void image_store_close(struct image_store *s); /* NULL is fine */
/* Removes everything in tmp. */
int image_store_sweep(struct image_store *s, struct error *err);

/* Removes one work directory that a dead process left. */
int image_store_discard(struct image_store *s, const char *work, struct error *err);

/* A work directory: tmp/NAME. Only its part "image/" is committed. image_from_*() gets the
 * descriptor of image_work_fd(); anything else (a download) may lie beside it in
 * image_work_dir_fd().
 */
struct image_work;
int image_work_begin(struct image_store *s, struct image_work **ret, struct error *err);
int image_work_fd(const struct image_work *w);
int image_work_dir_fd(const struct image_work *w);
const char *image_work_name(const struct image_work *w); /* below tmp/ */
/* Removes what was not committed, frees. NULL is fine. */
void image_work_end(struct image_work *w);
static inline void cleanup_image_work(struct image_work **w)
{
    image_work_end(*w);
}
#define _cleanup_image_work_ __attribute__((cleanup(cleanup_image_work)))

/* Makes the work visible as info->digest; sets created_ns. Where the store has that digest already
 * the work is dropped, info becomes what the store knows of it, and that is success. */
int image_store_commit(struct image_store *s, struct image_work *w, struct image_info *info,
                       struct error *err);

/* ERROR_NOT_FOUND where there is no such image. ret may be NULL. */
int image_store_find(struct image_store *s, const char *digest, struct image_info *ret,
                     struct error *err);
/* Sets the last use to now. */
int image_store_touch(struct image_store *s, const char *digest, struct error *err);
/* Takes away the image and every name that leads to it. Whether a sandbox uses it is the caller's
 * question. */
int image_store_remove(struct image_store *s, const char *digest, struct error *err);

struct image_list {
    struct image_info *items; /* most recently used first */
    size_t count;
};
void image_list_done(struct image_list *l);
#define _cleanup_image_list_ __attribute__((cleanup(image_list_done)))
int image_store_list(struct image_store *s, struct image_list *ret, struct error *err);

/* Gives an image that is there a name, or moves the name. */
int image_store_name(struct image_store *s, const char *name, const char *digest,
                     struct error *err);
int image_store_unname(struct image_store *s, const char *name, struct error *err);
/* All names that lead to the digest, sorted; a vector that the caller frees with strv_free(). */
int image_store_names(struct image_store *s, const char *digest, char ***ret, struct error *err);
/* From "sha256:HEX", "HEX" or a name to the digest of an image that is there. */
int image_store_resolve(struct image_store *s, const char *text, char ret[IMAGE_DIGEST_SIZE],
                        struct error *err);

/* The digests to remove, least recently used first, so that what stays is at most max_bytes. Those
 * that in_use() says are used are never in it, even if the rest then stays too large. A vector that
 * the caller frees with strv_free(). */
int image_store_victims(struct image_store *s, uint64_t max_bytes,
                        bool (*in_use)(void *arg, const char *digest), void *arg, char ***ret,
                        struct error *err);
