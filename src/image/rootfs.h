/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a root file system, one layer at a time.
 *
 * Names are clean paths (name.h). Parents are opened with the kernel's word that they are below the
 * root: links that stay below are followed, as every runtime does with "bin -> usr/bin", anything
 * that leads out is refused. The last component is never followed: what is there is replaced, or,
 * when old and new are directories, kept. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "image/name.h"
#include "image/place-set.h"

struct meter;

struct rootfs {
    int fd;
    ino_t ino;
    const struct image_limits *limits;
    struct meter *meter;           /* NULL: nothing is written */
    struct image_info *info;       /* size_bytes, files and skipped grow here */
    bool owners;                   /* files can be given their owners */
    struct place_set made, pruned; /* by this layer */
};

struct rootfs_meta {
    uint64_t uid, gid; /* as the image says */
    unsigned mode;
    struct timespec mtime;
};

int rootfs_init(struct rootfs *r, int fd, struct meter *m, struct image_info *info,
                struct error *err);
void rootfs_done(struct rootfs *r);

/* Counts one more entry, and content before it is written, which claims it. */
int rootfs_count_entry(struct rootfs *r, struct error *err);
int rootfs_count_bytes(struct rootfs *r, uint64_t bytes, struct error *err);

/* Each makes one thing and gives it meta. A directory's or file's descriptor comes back for content
 * and attributes; rootfs_finish() then sets owner, mode and time. */
int rootfs_make_dir(struct rootfs *r, const char *name, struct error *err);
int rootfs_make_file(struct rootfs *r, const char *name, struct error *err);
int rootfs_finish(struct rootfs *r, int fd, const char *name, const struct rootfs_meta *m,
                  struct error *err);
int rootfs_make_symlink(struct rootfs *r, const char *name, const char *target,
                        const struct rootfs_meta *m, struct error *err);
int rootfs_make_hardlink(struct rootfs *r, const char *name, const char *target, struct error *err);

/* Of the extended attributes only user.*, without those that file systems above would obey. One
 * that the file system cannot hold is left out. */
int rootfs_set_xattr(struct rootfs *r, int fd, const char *name, const char *key, const void *value,
                     size_t len, struct error *err);

/* Whether a file system above would take orders from the attribute. */
bool rootfs_obeyed_xattr(const char *key);

/* Whiteouts: takes away what lower layers have at a name, or in a directory; what this layer made
 * stays. A name that is not there is fine. */
int rootfs_hide(struct rootfs *r, const char *name, struct error *err);
int rootfs_hide_children(struct rootfs *r, const char *name, struct error *err);

/* The id that a sandbox has for an owner. */
unsigned rootfs_squash_id(uint64_t id);

/* For rootfs*.c: the directory of a name, made with its own parents when `make`; -ENOENT otherwise.
 * *ret_base points into name. */
int rootfs_open_parent(struct rootfs *r, const char *name, bool make, const char **ret_base,
                       struct error *err);
/* Fails about the entry: what errno means for it. */
int rootfs_fail(const char *name, int errnum, struct error *err);
