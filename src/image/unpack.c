/* SPDX-License-Identifier: Apache-2.0 */
/* A layer: entry after entry of a tar archive, each by its kind. */
#include "image/unpack.h"

#include <archive.h>

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/rootfs.h"
#include "image/tar.h"

#define WHITEOUT      ".wh."
#define WHITEOUT_META ".wh..wh."
#define OPAQUE        ".wh..wh..opq"

/* What a tar may be beyond its content: headers and padding of every entry, and some at its end. */
#define OVERHEAD_PER_FILE 4096u
#define OVERHEAD_FREE     (16u << 20)

struct unpacker {
    struct rootfs root;
    struct layer_stream *stream;
    struct tar_source *tar;
    uint64_t content; /* bytes of all files of this layer */
    struct archive_entry *entry;
    char name[NAME_PATH_MAX]; /* the entry's, clean */
    struct rootfs_meta meta;
};

static bool starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static int set_attributes(struct unpacker *u, int fd, struct error *err)
{
    const char *key;
    const void *value;
    size_t len;
    archive_entry_xattr_reset(u->entry);
    while (archive_entry_xattr_next(u->entry, &key, &value, &len) == ARCHIVE_OK) {
        int r = rootfs_set_xattr(&u->root, fd, u->name, key, value, len, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_at(int fd, const char *data, size_t len, uint64_t offset)
{
    while (len) {
        ssize_t n = pwrite(fd, data, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* libarchive gives a sparse file as pieces with offsets. Each must lie inside the size that was
 * counted against the limits, or an archive could write more than it has announced; a hole at
 * the end is made by the truncation. */
static int copy_content(struct unpacker *u, int fd, uint64_t size, struct error *err)
{
    const void *data;
    size_t len;
    uint64_t offset;
    int r;
    while ((r = tar_source_read(u->tar, &data, &len, &offset, err)) > 0) {
        if (offset > size || len > size - offset)
            return error_set(err, ERROR_INVALID, 0, "more content than its size says");
        r = write_at(fd, data, len, offset);
        if (r < 0)
            return rootfs_fail(u->name, -r, err);
    }
    if (r == 0 && ftruncate(fd, (off_t)size) < 0)
        return rootfs_fail(u->name, errno, err);
    return r;
}

/* The size is counted before anything is written, so that an archive that promises too much is
 * refused without filling the disk. */
static int make_file(struct unpacker *u, struct error *err)
{
    int64_t size = archive_entry_size(u->entry);
    if (size < 0)
        return error_set(err, ERROR_INVALID, 0, "a negative size");
    int r = rootfs_count_bytes(&u->root, (uint64_t)size, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = rootfs_make_file(&u->root, u->name, err);
    if (fd < 0)
        return fd;
    r = copy_content(u, fd, (uint64_t)size, err);
    u->content += (uint64_t)size;
    if (r == 0)
        r = layer_stream_check_content(u->stream, u->content, err);
    if (r == 0)
        r = set_attributes(u, fd, err);
    if (r < 0)
        return r;
    return rootfs_finish(&u->root, fd, u->name, &u->meta, err);
}

static int make_dir(struct unpacker *u, struct error *err)
{
    _cleanup_close_ int fd = rootfs_make_dir(&u->root, u->name, err);
    if (fd < 0)
        return fd;
    int r = set_attributes(u, fd, err);
    if (r < 0)
        return r;
    return rootfs_finish(&u->root, fd, u->name, &u->meta, err);
}

static int make_symlink(struct unpacker *u, struct error *err)
{
    const char *target = archive_entry_symlink(u->entry);
    return rootfs_make_symlink(&u->root, u->name, target ? target : "", &u->meta, err);
}

/* A layer from a machine carries its /dev; a sandbox has its own. */
static int leave_out_device(struct unpacker *u, struct error *err)
{
    if (!starts_with(u->name, "dev/"))
        return error_set(err, ERROR_INVALID, 0, "a device node outside of /dev");
    u->root.info->skipped++;
    return 0;
}

static int leave_out(struct unpacker *u, struct error *err)
{
    (void)err;
    u->root.info->skipped++;
    return 0;
}

static const struct {
    unsigned type;
    int (*make)(struct unpacker *u, struct error *err);
} kinds[] = {
    {AE_IFREG, make_file},        {AE_IFDIR, make_dir},         {AE_IFLNK, make_symlink},
    {AE_IFCHR, leave_out_device}, {AE_IFBLK, leave_out_device}, {AE_IFIFO, leave_out},
    {AE_IFSOCK, leave_out},
};

/* Whether some directory of the name is itself a whiteout. */
static const char *find_whiteout_dir(const char *name)
{
    for (const char *p = name, *slash; (slash = strchr(p, '/')); p = slash + 1)
        if (starts_with(p, WHITEOUT))
            return p;
    return NULL;
}

/* A whiteout says what lower layers have and this one has not. It hides only what came before
 * this layer, and never leads out of the directory that it stands in. */
static int apply_whiteout(struct unpacker *u, char *base, struct error *err)
{
    if (!strcmp(base, OPAQUE)) {
        if (base == u->name)
            return error_set(err, ERROR_INVALID, 0, "a whiteout of /");
        base[-1] = 0;
        return rootfs_hide_children(&u->root, u->name, err);
    }
    if (starts_with(base, WHITEOUT_META))
        return 0; /* notes of old storage drivers to themselves */
    const char *hidden = base + strlen(WHITEOUT);
    if (!*hidden || !strcmp(hidden, ".") || !strcmp(hidden, ".."))
        return error_set(err, ERROR_INVALID, 0, "a whiteout of a whole directory or of its parent");
    memmove(base, hidden, strlen(hidden) + 1);
    return rootfs_hide(&u->root, u->name, err);
}

/* The entry is counted first, also where it is left out below: an archive of millions of
 * whiteouts must meet the limit as well. */
static int unpack_entry(struct unpacker *u, const char *raw_name, struct error *err)
{
    int r = rootfs_count_entry(&u->root, err);
    if (r == 0)
        r = name_clean(raw_name, u->root.limits, "entry", u->name, err);
    if (r < 0)
        return r;
    const char *dir = find_whiteout_dir(u->name);
    if (dir && starts_with(dir, WHITEOUT_META))
        return 0;
    if (dir)
        return error_set(err, ERROR_INVALID, 0, "an entry below a whiteout");
    char *slash = strrchr(u->name, '/'), *base = slash ? slash + 1 : u->name;
    if (starts_with(base, WHITEOUT))
        return apply_whiteout(u, base, err);
    int64_t uid = archive_entry_uid(u->entry), gid = archive_entry_gid(u->entry);
    u->meta = (struct rootfs_meta){
        .uid = (uint64_t)uid,
        .gid = (uint64_t)gid,
        .mode = archive_entry_perm(u->entry),
        .mtime = {archive_entry_mtime(u->entry), archive_entry_mtime_nsec(u->entry)},
    };
    const char *link = archive_entry_hardlink(u->entry);
    if (link) {
        char target[NAME_PATH_MAX];
        r = name_clean(link, u->root.limits, "it is a hard link:", target, err);
        if (r < 0)
            return r;
        return rootfs_make_hardlink(&u->root, u->name, target, err);
    }
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (archive_entry_filetype(u->entry) == kinds[i].type)
            return kinds[i].make(u, err);
    return error_set(err, ERROR_INVALID, 0, "an entry of a kind that is not known");
}

/* Where the message has the name already it stays as it is. */
void unpack_name_entry(const char *name, struct error *err)
{
    char q[NAME_QUOTED_SIZE];
    if (err && !strstr(err->message, name_quote(name, q)))
        error_prefix(err, "entry '%s'", q);
}

static int unpack_all(struct unpacker *u, struct error *err)
{
    _cleanup_free_ char *last = xstrdup("");
    const char *name;
    int r;
    while ((r = tar_source_next(u->tar, &u->entry, &name, err)) > 0) {
        free(last);
        last = xstrdup(name);
        r = unpack_entry(u, last, err);
        if (r < 0)
            break;
    }
    if (r < 0 && *last)
        unpack_name_entry(last, err);
    return r;
}

uint64_t unpack_largest_tar(const struct image_limits *l)
{
    uint64_t overhead = l->files * OVERHEAD_PER_FILE + OVERHEAD_FREE;
    return l->bytes + overhead < l->bytes ? UINT64_MAX : l->bytes + overhead;
}

int unpack_layer(int rootfs_fd, int tar_fd, struct meter *m, struct image_info *info,
                 struct unpack_result *ret, struct error *err)
{
    const struct image_limits *l = &m->options->limits;
    _cleanup_layer_stream_ struct layer_stream *s = NULL;
    _cleanup_tar_source_ struct tar_source *tar = NULL;
    struct unpacker u = {0};
    int r = layer_stream_open(tar_fd, l->layer_bytes, unpack_largest_tar(l), m, &s, err);
    if (r == 0)
        r = tar_source_open(s, &tar, err);
    if (r == 0)
        r = rootfs_init(&u.root, rootfs_fd, m, info, err);
    if (r < 0)
        return r;
    u.tar = tar;
    u.stream = s;
    r = unpack_all(&u, err);
    rootfs_done(&u.root);
    if (r < 0)
        return r;
    return layer_stream_finish(s, ret->digest, ret->diff_id, err);
}

int image_unpack_layer(int rootfs_fd, int tar_fd, const struct image_options *o,
                       struct image_info *info, char ret_diff_id[IMAGE_DIGEST_SIZE],
                       struct error *err)
{
    struct meter m;
    struct unpack_result result;
    meter_init(&m, o, info);
    int r = unpack_layer(rootfs_fd, tar_fd, &m, info, &result, err);
    if (r == 0 && ret_diff_id)
        memcpy(ret_diff_id, result.diff_id, IMAGE_DIGEST_SIZE);
    return r;
}
