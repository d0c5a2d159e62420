/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of the host's as an image: a copy, and the digest of a walk over that copy. Whose the
 * files are is not copied: the owners of a host mean nothing in a sandbox, and the user who copies
 * inside a user namespace does not even see them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/map.h"
#include "image/info.h"
#include "image/layers.h"
#include "image/meter.h"
#include "image/rootfs.h"
#include "image/tree.h"
#include "image/unpack.h"

#define CHUNK_BYTES (128u << 10)
#define XATTR_MAX   (64u << 10)

struct copier {
    struct rootfs root;
    struct meter meter;
    dev_t dev;
    struct map *linked; /* "inode" of files with more names than one, to the first name */
    char path[NAME_PATH_MAX];
    char *chunk;
};

static int copy_dir(struct copier *c, int dir_fd, unsigned depth, struct error *err);

static int copy_fail(struct copier *c, int errnum, struct error *err)
{
    return rootfs_fail(c->path, errnum, err);
}

static struct rootfs_meta meta_of(const struct stat *st)
{
    return (struct rootfs_meta){.mode = st->st_mode & 07777, .mtime = st->st_mtim};
}

static int copy_attribute(struct copier *c, int from, int to, const char *key, struct error *err)
{
    ssize_t n = fgetxattr(from, key, c->chunk, XATTR_MAX);
    if (n < 0)
        return 0; /* gone, or not for us */
    return rootfs_set_xattr(&c->root, to, c->path, key, c->chunk, (size_t)n, err);
}

/* Only user.* is copied. Attributes of security and system would carry rights or labels of this
 * host into the image, and a list too long for the buffer counts as none. */
static int copy_attributes(struct copier *c, int from, int to, struct error *err)
{
    char list[4096];
    ssize_t n = flistxattr(from, list, sizeof(list) - 1);
    int r = 0;
    list[n > 0 ? n : 0] = 0;
    for (char *p = list; r == 0 && n > 0 && p < list + n; p += strlen(p) + 1)
        if (!strncmp(p, "user.", 5))
            r = copy_attribute(c, from, to, p, err);
    return r;
}

static int copy_content(struct copier *c, int from, int to, struct error *err)
{
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = read(from, c->chunk, CHUNK_BYTES)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return copy_fail(c, errno, err);
        r = rootfs_count_bytes(&c->root, (uint64_t)n, err);
        int w = r < 0 ? 0 : fd_write_all(to, c->chunk, (size_t)n);
        if (w < 0)
            r = copy_fail(c, -w, err);
        if (r == 0)
            r = meter_add(&c->meter, (uint64_t)n, err);
    }
    return r;
}

/* The directory is live: its entry may have become a fifo or a link since it was listed.
 * O_NONBLOCK keeps a fifo from blocking the open, and what is not a regular file any more is
 * refused. */
static int copy_file(struct copier *c, int at, const char *base, struct error *err)
{
    struct stat st;
    _cleanup_close_ int from =
        openat(at, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return copy_fail(c, errno, err);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_CONFLICT, 0, "it changed while it was copied");
    _cleanup_close_ int to = rootfs_make_file(&c->root, c->path, err);
    if (to < 0)
        return to;
    const struct rootfs_meta m = meta_of(&st);
    int r = copy_content(c, from, to, err);
    if (r == 0)
        r = copy_attributes(c, from, to, err);
    if (r < 0)
        return r;
    return rootfs_finish(&c->root, to, c->path, &m, err);
}

/* A second name of a file stays one. */
static int copy_name(struct copier *c, int at, const char *base, const struct stat *st,
                     struct error *err)
{
    char key[32];
    snprintf(key, sizeof(key), "%llu", (unsigned long long)st->st_ino);
    const char *first = st->st_nlink > 1 ? map_find(c->linked, key) : NULL;
    if (first)
        return rootfs_make_hardlink(&c->root, c->path, first, err);
    if (st->st_nlink > 1)
        map_put(c->linked, key, xstrdup(c->path));
    return copy_file(c, at, base, err);
}

static int copy_link(struct copier *c, int at, const char *base, const struct stat *st,
                     struct error *err)
{
    char target[NAME_PATH_MAX];
    const struct rootfs_meta m = meta_of(st);
    ssize_t n = readlinkat(at, base, target, sizeof(target));
    if (n < 0 || n >= (ssize_t)sizeof(target))
        return copy_fail(c, n < 0 ? errno : ENAMETOOLONG, err);
    target[n] = 0;
    return rootfs_make_symlink(&c->root, c->path, target, &m, err);
}

/* Its own mode and time come after what is in it. */
static int copy_subdir(struct copier *c, int at, const char *base, unsigned depth,
                       struct error *err)
{
    struct stat st;
    _cleanup_close_ int from = openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return copy_fail(c, errno, err);
    _cleanup_close_ int to = rootfs_make_dir(&c->root, c->path, err);
    if (to < 0)
        return to;
    const struct rootfs_meta m = meta_of(&st);
    int r = copy_attributes(c, from, to, err);
    fd_close(&to); /* one descriptor a level */
    /* Other file systems stay out: a mount below the directory becomes an empty directory. */
    if (r == 0 && st.st_dev == c->dev)
        r = copy_dir(c, from, depth + 1, err);
    if (r == 0)
        r = to = rootfs_make_dir(&c->root, c->path, err);
    if (r < 0)
        return r;
    return rootfs_finish(&c->root, to, c->path, &m, err);
}

static int copy_entry(struct copier *c, int at, const char *base, unsigned depth, struct error *err)
{
    struct stat st;
    int r = rootfs_count_entry(&c->root, err);
    if (r < 0)
        return r;
    if (fstatat(at, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return copy_fail(c, errno, err);
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return copy_name(c, at, base, &st, err);
    case S_IFDIR:
        return copy_subdir(c, at, base, depth, err);
    case S_IFLNK:
        return copy_link(c, at, base, &st, err);
    case S_IFCHR:
    case S_IFBLK:
        if (strncmp(c->path, "dev/", 4))
            return error_set(err, ERROR_INVALID, 0, "a device node outside of /dev");
    }
    c->root.info->skipped++;
    return 0;
}

static int copy_dir(struct copier *c, int dir_fd, unsigned depth, struct error *err)
{
    _cleanup_strv_ char **names = NULL;
    size_t count = 0, len = strlen(c->path);
    if (depth > c->root.limits->depth)
        return copy_fail(c, ENAMETOOLONG, err);
    int r = tree_names(dir_fd, c->root.limits->files, &names, &count);
    if (r < 0)
        return copy_fail(c, -r, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (len + strlen(names[i]) + 2 > sizeof(c->path) ||
            len + strlen(names[i]) + 1 > c->root.limits->path_bytes)
            return copy_fail(c, ENAMETOOLONG, err);
        snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", names[i]);
        r = copy_entry(c, dir_fd, names[i], depth, err);
        if (r < 0)
            unpack_name_entry(c->path, err);
        c->path[len] = 0;
    }
    return r;
}

static int copy_root(struct copier *c, int dir_fd, int rootfs, struct error *err)
{
    struct stat st;
    if (fstat(dir_fd, &st) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "stat the directory");
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERROR_INVALID, ENOTDIR, "an image from a directory");
    c->dev = st.st_dev;
    const struct rootfs_meta m = meta_of(&st);
    int r = copy_dir(c, dir_fd, 0, err);
    if (r < 0)
        return r;
    return rootfs_finish(&c->root, rootfs, ".", &m, err);
}

static int copy_tree(int dir_fd, int rootfs, const struct image_options *o, struct image_info *info,
                     struct error *err)
{
    struct copier c = {0};
    meter_init(&c.meter, o, info);
    int r = rootfs_init(&c.root, rootfs, &c.meter, info, err);
    if (r < 0)
        return r;
    c.linked = map_new();
    c.chunk = xcalloc(1, CHUNK_BYTES);
    r = meter_step(&c.meter, "copy", 0, err);
    if (r == 0)
        r = copy_root(&c, dir_fd, rootfs, err);
    size_t cursor = 0;
    for (void *name; (name = map_next(c.linked, &cursor));)
        free(name);
    map_free(c.linked);
    free(c.chunk);
    rootfs_done(&c.root);
    return r;
}

int image_from_dir(int dir_fd, int work_fd, const struct image_options *o, struct image_info *ret,
                   struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_close_ int rootfs = layers_make_rootfs(work_fd, err);
    if (rootfs < 0)
        return rootfs;
    int r = copy_tree(dir_fd, rootfs, o, &info, err);
    if (r == 0)
        r = image_tree_check(work_fd, true, o, &info, err);
    if (r < 0) {
        layers_drop_rootfs(work_fd);
        return r;
    }
    image_info_fill(&info);
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
