/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, finding the directory of an entry, owners and modes. rootfs-make.c makes things,
 * rootfs-hide.c hides them. */
#include "image/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/below.h"
#include "image/meter.h"

#define BLOCK_BYTES 4096u

static const unsigned kept_ids[] = {65534, 1000, 0}; /* the last is what others become */

unsigned rootfs_squash_id(uint64_t id)
{
    for (size_t i = 0; i < ELEMENTS(kept_ids); i++)
        if (id == kept_ids[i])
            return kept_ids[i];
    return 0;
}

int rootfs_init(struct rootfs *r, int fd, struct meter *m, struct image_info *info,
                struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "stat the root file system");
    *r = (struct rootfs){
        .fd = fd, .ino = st.st_ino, .limits = &m->options->limits, .meter = m, .info = info};
    /* Whether all three owners can be given, tried on the root itself; its own is put back. */
    bool good = geteuid() == 0;
    for (size_t i = 0; good && i < ELEMENTS(kept_ids); i++)
        good = fchown(fd, kept_ids[i], kept_ids[i]) == 0;
    r->owners = fchown(fd, st.st_uid, st.st_gid) == 0 && good;
    return 0;
}

void rootfs_done(struct rootfs *r)
{
    place_set_done(&r->made);
    place_set_done(&r->pruned);
}

int rootfs_count_entry(struct rootfs *r, struct error *err)
{
    if (r->info->files >= r->limits->files)
        return error_set(err, ERROR_TOO_LARGE, 0, "more entries than images_max_files (%llu)",
                         (unsigned long long)r->limits->files);
    r->info->files++;
    return 0;
}

int rootfs_count_bytes(struct rootfs *r, uint64_t bytes, struct error *err)
{
    uint64_t left = r->limits->bytes - r->info->size_bytes;
    if (r->info->size_bytes > r->limits->bytes || bytes > left)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "more content than images_max_unpacked_bytes (%llu)",
                         (unsigned long long)r->limits->bytes);
    uint64_t blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    r->info->size_bytes += blocks < left ? blocks : left;
    return r->meter ? meter_claim(r->meter, blocks, err) : 0;
}

static const struct {
    int errnum;
    enum error_code code;
    const char *text;
} failures[] = {
    {EXDEV, ERROR_INVALID, "leads out of the image through a symbolic link"},
    {ELOOP, ERROR_INVALID, "leads through a symbolic link that leads nowhere"},
    {ENOTDIR, ERROR_INVALID, "is below something that is not a directory"},
    {ENAMETOOLONG, ERROR_TOO_LARGE, "is deeper than images_max_depth or too long"},
    {ENOENT, ERROR_INVALID, "is a hard link to what it replaces itself"},
    {EMLINK, ERROR_INVALID, "is one hard link more than the file system takes"},
    {EINVAL, ERROR_INVALID, "has a name that the file system refuses"},
};

int rootfs_fail(const char *name, int errnum, struct error *err)
{
    char q[NAME_QUOTED_SIZE];
    name_quote(name, q);
    for (size_t i = 0; i < ELEMENTS(failures); i++)
        if (failures[i].errnum == errnum)
            return error_set(err, failures[i].code, 0, "entry '%s' %s", q, failures[i].text);
    bool full = errnum == ENOSPC || errnum == EDQUOT;
    return error_set(err, full ? ERROR_NO_SPACE : ERROR_INTERNAL, errnum, "entry '%s'", q);
}

/* How deep a directory really is, where a link was on the way. */
static int check_real_depth(struct rootfs *r, int dir_fd)
{
    _cleanup_close_ int at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    struct stat st;
    for (uint64_t depth = 0; depth <= r->limits->depth; depth++) {
        if (at < 0 || fstat(at, &st) < 0)
            return -errno;
        if (st.st_ino == r->ino)
            return 0;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close(&at);
        at = up;
    }
    return -ENAMETOOLONG;
}

static int open_dir(struct rootfs *r, const char *path)
{
    int fd = below_open_plain(r->fd, path, O_PATH | O_DIRECTORY);
    if (fd != -ELOOP)
        return fd;
    fd = below_open(r->fd, path, O_PATH | O_DIRECTORY);
    int bad = fd < 0 ? 0 : check_real_depth(r, fd);
    if (bad < 0) {
        close(fd);
        return bad;
    }
    return fd;
}

static int make_parent(struct rootfs *r, int at, const char *base, const char *name,
                       struct error *err)
{
    struct stat st;
    int bad = rootfs_count_entry(r, err);
    if (bad == 0)
        bad = rootfs_count_bytes(r, BLOCK_BYTES, err);
    if (bad < 0) {
        char q[NAME_QUOTED_SIZE];
        error_prefix(err, "entry '%s'", name_quote(name, q));
        return bad;
    }
    if (fstat(at, &st) < 0)
        return rootfs_fail(name, errno, err);
    /* There, but it could not be opened: a link that leads nowhere. */
    if (mkdirat(at, base, 0755) < 0)
        return rootfs_fail(name, errno == EEXIST ? ELOOP : errno, err);
    /* By its descriptor: the unpacker may say nothing of a file by its path. */
    _cleanup_close_ int fd = openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (r->owners && fchown(fd, 0, 0) < 0) || fchmod(fd, 0755) < 0) /* past the umask */
        return rootfs_fail(name, errno, err);
    place_set_add(&r->made, st.st_ino, base);
    return 0;
}

/* From the root down, making what is missing. path is cut and mended as it goes. */
static int make_parents(struct rootfs *r, char *path, const char *name, struct error *err)
{
    _cleanup_close_ int at = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
    char *base = path;
    while (base) {
        char *slash = strchr(base, '/');
        if (slash)
            *slash = 0;
        int next = open_dir(r, path);
        if (next == -ENOENT) {
            int bad = make_parent(r, at, base, name, err);
            if (bad < 0)
                return bad;
            next = open_dir(r, path);
        }
        if (next < 0)
            return rootfs_fail(name, -next, err);
        fd_close(&at);
        at = next;
        if (slash)
            *slash = '/';
        base = slash ? slash + 1 : NULL;
    }
    return fd_steal(&at);
}

int rootfs_open_parent(struct rootfs *r, const char *name, bool make, const char **ret_base,
                       struct error *err)
{
    char path[NAME_PATH_MAX];
    const char *slash = strrchr(name, '/');
    *ret_base = slash ? slash + 1 : name;
    size_t len = slash ? (size_t)(slash - name) : 0;
    memcpy(path, name, len);
    path[len] = 0;
    int fd = open_dir(r, path);
    if (fd == -ENOENT)
        return make ? make_parents(r, path, name, err) : -ENOENT;
    return fd < 0 ? rootfs_fail(name, -fd, err) : fd;
}

/* A process that cannot step over modes has to be able to get into its own directories. */
static unsigned final_mode(const struct rootfs *r, const struct stat *st, unsigned mode)
{
    if (!S_ISDIR(st->st_mode))
        return mode & 0777;
    if (st->st_ino == r->ino)
        mode |= 0555; /* a root that was packed from a private directory must still be readable by
                         all users */
    return (mode & 01777) | (r->owners ? 0 : 0700);
}

int rootfs_finish(struct rootfs *r, int fd, const char *name, const struct rootfs_meta *m,
                  struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 ||
        (r->owners && fchown(fd, rootfs_squash_id(m->uid), rootfs_squash_id(m->gid)) < 0) ||
        fchmod(fd, final_mode(r, &st, m->mode)) < 0)
        return rootfs_fail(name, errno, err);
    const struct timespec times[2] = {m->mtime, m->mtime};
    futimens(fd, times); /* a time that the file system cannot hold is no reason to fail */
    return 0;
}

/* overlayfs (mounted with userxattr), fuse-overlayfs and container tools take orders from these. */
static const char *const obeyed[] = {"user.overlay.", "user.fuseoverlayfs.", "user.containers."};

bool rootfs_obeyed_xattr(const char *key)
{
    for (size_t i = 0; i < ELEMENTS(obeyed); i++)
        if (!strncmp(key, obeyed[i], strlen(obeyed[i])))
            return true;
    return false;
}

int rootfs_set_xattr(struct rootfs *r, int fd, const char *name, const char *key, const void *value,
                     size_t len, struct error *err)
{
    if (strncmp(key, "user.", 5) || rootfs_obeyed_xattr(key))
        return 0;
    int bad = rootfs_count_bytes(r, len, err);
    if (bad < 0)
        return bad;
    /* Too long a name, too much for one file, no support: none of that is worth a failure. */
    if (fsetxattr(fd, key, value, len, 0) < 0 && (errno == EDQUOT || errno == EIO))
        return rootfs_fail(name, errno, err);
    return 0;
}
