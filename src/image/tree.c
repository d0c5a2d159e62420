/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include <dirent.h>
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
#include "image/below.h"
#include "image/hash.h"
#include "image/meter.h"
#include "image/rootfs.h"
#include "image/unpack.h"

#define CHUNK_BYTES (128u << 10)
#define DIR_BYTES   4096u

/* What is hashed first: no tar and no JSON starts so, and with it no other image has the digest. */
#define WALK_MARK_BYTES 512

struct walk {
    struct rootfs root; /* only what counts */
    struct meter meter;
    bool hashes;
    struct hash hash;
    struct map *linked; /* "inode" of files with more names than one, to the first name */
    char path[NAME_PATH_MAX];
    char *chunk;
};

static int walk_dir(struct walk *w, int dir_fd, unsigned depth, struct error *err);

/* --- the digest */

/* One record of the walk; fields cannot run into each other. */
static void hash_record(struct walk *w, char kind, unsigned mode, const void *data, size_t len)
{
    char head[64];
    int n = snprintf(head, sizeof(head), "%c %04o %zu ", kind, mode, len);
    if (!w->hashes)
        return;
    hash_update(&w->hash, head, (size_t)n);
    hash_update(&w->hash, w->path, strlen(w->path) + 1);
    hash_update(&w->hash, data, len);
}

static int hash_content(struct walk *w, int at, const char *base, struct error *err)
{
    struct hash content;
    char digest[IMAGE_DIGEST_SIZE];
    ssize_t n = 0;
    int r = 0;
    _cleanup_close_ int fd = openat(at, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return rootfs_fail(w->path, errno, err);
    hash_init(&content);
    while (r == 0 && (n = read(fd, w->chunk, CHUNK_BYTES)) > 0) {
        hash_update(&content, w->chunk, (size_t)n);
        r = meter_add(&w->meter, (uint64_t)n, err);
    }
    if (n < 0)
        r = rootfs_fail(w->path, errno, err);
    hash_final(&content, digest);
    hash_update(&w->hash, digest, strlen(digest));
    return r;
}

/* --- what may not be there */

static int check_kind(const struct stat *st, struct error *err)
{
    unsigned never = S_ISDIR(st->st_mode) ? S_ISUID | S_ISGID : S_ISUID | S_ISGID | S_ISVTX;
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
        return error_set(err, ERROR_INVALID, 0, "neither a file nor a directory nor a link");
    if (!S_ISLNK(st->st_mode) && (st->st_mode & never))
        return error_set(err, ERROR_INVALID, 0, "a mode that no image has (%04o)",
                         st->st_mode & 07777);
    if (geteuid() != 0) /* a user that cannot give files away owns them all */
        return 0;
    if (st->st_uid == rootfs_squash_id(st->st_uid) && st->st_gid == rootfs_squash_id(st->st_gid))
        return 0;
    return error_set(err, ERROR_INVALID, 0, "an owner that no sandbox has");
}

/* By its name from the current directory: there is no way to an attribute through a descriptor
 * that works for files whose mode lets their owner not read them. */
static int walk_attribute(struct walk *w, const char *base, const char *key, struct error *err)
{
    if (!strcmp(key, "security.capability") || rootfs_obeyed_xattr(key))
        return error_set(err, ERROR_INVALID, 0, "an attribute that no image has (%.60s)", key);
    if (strncmp(key, "user.", 5))
        return 0; /* labels and access lists of the host's own */
    ssize_t n = lgetxattr(base, key, w->chunk, CHUNK_BYTES);
    if (n < 0)
        return rootfs_fail(w->path, errno, err);
    hash_record(w, 'x', 0, key, strlen(key) + 1);
    hash_record(w, 'v', 0, w->chunk, (size_t)n);
    return rootfs_count_bytes(&w->root, (uint64_t)n, err);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int walk_attributes(struct walk *w, int at, const char *base, struct error *err)
{
    _cleanup_free_ char *list = NULL;
    _cleanup_free_ char **keys = NULL;
    size_t count = 0;
    ssize_t n = fchdir(at) < 0 ? -1 : llistxattr(base, NULL, 0);
    if (n > 0) {
        list = xcalloc(1, (size_t)n + 1);
        n = llistxattr(base, list, (size_t)n);
    }
    if (n < 0)
        return errno == ENOTSUP ? 0 : rootfs_fail(w->path, errno, err);
    if (n == 0)
        return 0;
    keys = xcalloc((size_t)n, sizeof(*keys));
    for (char *p = list; p < list + n; p += strlen(p) + 1)
        keys[count++] = p;
    qsort(keys, count, sizeof(*keys), compare_texts);
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = walk_attribute(w, base, keys[i], err);
    return r;
}

/* --- the walk */

/* What a file takes is its size, or more where blocks were kept beyond its end. */
static int walk_file(struct walk *w, int at, const char *base, const struct stat *st,
                     struct error *err)
{
    char key[32];
    uint64_t blocks = (uint64_t)st->st_blocks * 512, size = (uint64_t)st->st_size;
    snprintf(key, sizeof(key), "%llu", (unsigned long long)st->st_ino);
    const char *first = st->st_nlink > 1 ? map_find(w->linked, key) : NULL;
    if (first) {
        hash_record(w, 'h', 0, first, strlen(first));
        return 0;
    }
    if (st->st_nlink > 1)
        map_put(w->linked, key, xstrdup(w->path));
    int r = rootfs_count_bytes(&w->root, size > blocks ? size : blocks, err);
    hash_record(w, 'f', st->st_mode & 0777, "", 0);
    if (r == 0 && w->hashes)
        r = hash_content(w, at, base, err);
    if (r < 0)
        return r;
    return walk_attributes(w, at, base, err);
}

static int walk_link(struct walk *w, int at, const char *base, struct error *err)
{
    char target[NAME_PATH_MAX];
    ssize_t n = readlinkat(at, base, target, sizeof(target));
    if (n < 0)
        return rootfs_fail(w->path, errno, err);
    if ((uint64_t)n > w->root.limits->path_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0, "a link to more than images_max_path_bytes");
    hash_record(w, 'l', 0, target, (size_t)n);
    return 0;
}

/* Directories are hashed as their owner can use them: a process that cannot step over modes has
 * given itself that right (rootfs.c). */
static int walk_subdir(struct walk *w, int at, const char *base, const struct stat *st,
                       unsigned depth, struct error *err)
{
    hash_record(w, 'd', (st->st_mode & 01777) | 0700, "", 0);
    int r = rootfs_count_bytes(&w->root, DIR_BYTES, err);
    if (r == 0)
        r = walk_attributes(w, at, base, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? rootfs_fail(w->path, errno, err) : walk_dir(w, fd, depth + 1, err);
}

static int walk_entry(struct walk *w, int at, const char *base, unsigned depth, struct error *err)
{
    struct stat st;
    int r = rootfs_count_entry(&w->root, err);
    if (r == 0)
        r = meter_add(&w->meter, 0, err);
    if (r < 0)
        return r;
    if (fstatat(at, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return rootfs_fail(w->path, errno, err);
    r = check_kind(&st, err);
    if (r < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return walk_subdir(w, at, base, &st, depth, err);
    return S_ISLNK(st.st_mode) ? walk_link(w, at, base, err) : walk_file(w, at, base, &st, err);
}

int tree_names(int dir_fd, uint64_t max, char ***ret, size_t *ret_count)
{
    int own = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    char **names = xcalloc(1, sizeof(*names));
    size_t count = 0, room = 1;
    struct dirent *e;
    if (!d)
        goto failed;
    while (errno = 0, (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (count + 1 >= room)
            names = xrealloc(names, (room *= 2) * sizeof(*names));
        names[count++] = xstrdup(e->d_name);
        names[count] = NULL;
        if (count > max) /* the counter of entries says so, about the first that is too many */
            break;
    }
    if (errno)
        goto failed;
    closedir(d);
    qsort(names, count, sizeof(*names), compare_texts);
    *ret = names;
    *ret_count = count;
    return 0;
failed:;
    int r = -errno;
    if (d)
        closedir(d);
    else
        fd_close(&own);
    strv_free(names);
    return r;
}

static int walk_dir(struct walk *w, int dir_fd, unsigned depth, struct error *err)
{
    _cleanup_strv_ char **names = NULL;
    size_t count = 0, len = strlen(w->path);
    if (depth > w->root.limits->depth)
        return rootfs_fail(w->path, ENAMETOOLONG, err);
    int r = tree_names(dir_fd, w->root.limits->files, &names, &count);
    if (r < 0)
        return rootfs_fail(w->path, -r, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        if (len + strlen(names[i]) + 2 > sizeof(w->path))
            return rootfs_fail(w->path, ENAMETOOLONG, err);
        snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", names[i]);
        r = walk_entry(w, dir_fd, names[i], depth, err);
        if (r < 0)
            unpack_name_entry(w->path, err);
        w->path[len] = 0;
    }
    return r;
}

static int walk_root(struct walk *w, int rootfs, struct error *err)
{
    struct stat st;
    if (fstat(rootfs, &st) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "stat the root file system");
    int r = check_kind(&st, err);
    if (r == 0)
        r = meter_step(&w->meter, "verify", 0, err);
    if (w->hashes) {
        memset(w->chunk, '#', WALK_MARK_BYTES);
        hash_update(&w->hash, w->chunk, WALK_MARK_BYTES);
    }
    hash_record(w, 'd', (st.st_mode & 01777) | 0755, "", 0);
    if (r == 0)
        r = walk_attributes(w, rootfs, ".", err);
    if (r < 0)
        return r;
    return walk_dir(w, rootfs, 0, err);
}

/* Anything else in there would be stored with the image without being counted. */
static int open_rootfs(int work_fd, struct error *err)
{
    _cleanup_strv_ char **names = NULL;
    size_t count = 0;
    int r = tree_names(work_fd, 1, &names, &count);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "read the work directory");
    if (count != 1 || strcmp(names[0], "rootfs"))
        return error_set(err, ERROR_INTERNAL, 0,
                         "the unpacked tree is not exactly one root file system");
    int fd = below_open_plain(work_fd, "rootfs", O_RDONLY | O_DIRECTORY);
    return fd < 0 ? error_set(err, ERROR_INTERNAL, -fd, "open the root file system") : fd;
}

int image_tree_check(int work_fd, bool hash, const struct image_options *o, struct image_info *info,
                     struct error *err)
{
    _cleanup_close_ int rootfs = open_rootfs(work_fd, err);
    if (rootfs < 0)
        return rootfs;
    _cleanup_close_ int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    info->files = info->size_bytes = 0;
    _cleanup_free_ struct walk *w = new0(struct walk);
    w->root = (struct rootfs){.limits = &o->limits, .info = info};
    w->hashes = hash;
    meter_init(&w->meter, o, info);
    hash_init(&w->hash);
    w->linked = map_new();
    w->chunk = xcalloc(1, CHUNK_BYTES);
    int r = walk_root(w, rootfs, err);
    if (hash)
        hash_final(&w->hash, info->digest);
    hash_done(&w->hash);
    size_t cursor = 0;
    for (void *name; (name = map_next(w->linked, &cursor));)
        free(name);
    map_free(w->linked);
    free(w->chunk);
    if (before >= 0 && fchdir(before) < 0 && r == 0)
        r = error_set(err, ERROR_INTERNAL, errno, "go back to the directory before");
    return r;
}
