/* SPDX-License-Identifier: Apache-2.0 */
/* See share.h. One request after another: read, done, answered. A row of the table says how much of
 * a request's own structure there must be; what follows it, names or data, each operation looks at
 * itself. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "vmm/share.h"

#define PROTOCOL_MINOR 31 /* of FUSE's version 7; the structures below are those of it */
#define CACHE_SECONDS  1  /* the host may change what the guest has seen */
#define NAME_MAX_      255
#define LISTING_BYTES  32768
#define MODE_MASK      01777 /* a guest makes no file on the host that changes its user */

struct handle {
    int fd; /* -1: free */
    bool is_dir;
    uint64_t node; /* that was opened; a removed file is found by it as long as it is open */
};

struct server {
    int dir_fd, port_fd;
    struct share_nodes *nodes;
    struct handle handles[SHARE_HANDLES_MAX];
    size_t in_len;  /* of the whole message */
    size_t out_len; /* of what follows the head of the answer */
    _Alignas(8) char in[SHARE_MESSAGE_MAX];
    _Alignas(8) char out[sizeof(struct fuse_out_header) + SHARE_DATA_MAX];
};

static const struct fuse_in_header *head_of(const struct server *s)
{
    return (const struct fuse_in_header *)(const void *)s->in;
}

static const void *body_of(const struct server *s)
{
    return s->in + sizeof(struct fuse_in_header);
}

static void *answer_of(struct server *s)
{
    return s->out + sizeof(struct fuse_out_header);
}

/* A name that begins so many bytes behind the head; *next, where it may be: what follows it. */
static int read_name(const struct server *s, size_t at, const char **ret, size_t *next)
{
    const char *name = (const char *)body_of(s) + at;
    size_t left = s->in_len - sizeof(struct fuse_in_header);
    const char *end = at < left ? memchr(name, 0, left - at) : NULL;
    if (!end)
        return -EINVAL;
    if (next)
        *next = at + (size_t)(end - name) + 1;
    *ret = name;
    return 0;
}

/* The name of a file in a directory, which nothing else than that can be. */
static int read_file_name(const struct server *s, size_t at, const char **ret, size_t *next)
{
    int r = read_name(s, at, ret, next);
    if (r < 0)
        return r;
    size_t len = strlen(*ret);
    if (len > NAME_MAX_)
        return -ENAMETOOLONG;
    bool good = len && strcmp(*ret, ".") != 0 && strcmp(*ret, "..") != 0 && !strchr(*ret, '/');
    return good ? 0 : -EINVAL;
}

/* --- files by their numbers */

/* mode: of a file that is made, 0 where flags ask for none. */
static int open_path(int dir_fd, const char *path, int flags, mode_t mode)
{
    const struct open_how how = {
        .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

static int open_node(const struct server *s, uint64_t id, int flags)
{
    char path[PATH_MAX];
    int r = share_nodes_path(s->nodes, id, path, sizeof(path));
    return r < 0 ? r : open_path(s->dir_fd, path, flags, 0);
}

static int open_dir(const struct server *s, uint64_t id)
{
    return open_node(s, id, O_PATH | O_DIRECTORY);
}

/* The directory that a request is about, and the name in it that the request has at this place. */
static int open_named(const struct server *s, size_t at, const char **ret_name, size_t *next)
{
    int r = read_file_name(s, at, ret_name, next);
    return r < 0 ? r : open_dir(s, head_of(s)->nodeid);
}

/* A regular file, by a descriptor that only names it: opening a fifo or a device would have effects
 * on the host, so what it is comes first. Takes path_fd, which may be an error. The writes
 * themselves say whether they append (do_write), so no descriptor does. */
static int open_regular(int path_fd, int flags)
{
    char path[32];
    struct stat st;
    _cleanup_close_ int named = path_fd;
    if (named < 0)
        return named;
    if (fstat(named, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISLNK(st.st_mode) ? -ELOOP : -EACCES;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", named);
    int fd = open(path, (flags & (O_ACCMODE | O_TRUNC)) | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static int open_file(const struct server *s, uint64_t id, int flags)
{
    return open_regular(open_node(s, id, O_PATH), flags);
}

/* A file of that name that there is already is opened, unless the guest wants none to be there. */
static int create_file(int dir_fd, const char *name, int flags, mode_t mode)
{
    int fd = open_path(dir_fd, name, (flags & O_ACCMODE) | O_CREAT | O_EXCL, mode);
    if (fd != -EEXIST || flags & O_EXCL)
        return fd;
    return open_regular(open_path(dir_fd, name, O_PATH, 0), flags);
}

/* The directory that a node is in, and its name there. */
static int open_place(const struct server *s, uint64_t id, const char **ret_name)
{
    uint64_t dir;
    int r = share_nodes_place(s->nodes, id, &dir, ret_name);
    return r < 0 ? r : dir ? open_dir(s, dir) : open_path(s->dir_fd, ".", O_PATH | O_DIRECTORY, 0);
}

static struct handle *find_handle(struct server *s, uint64_t number, bool is_dir)
{
    struct handle *h = number < SHARE_HANDLES_MAX ? &s->handles[number] : NULL;
    return h && h->fd >= 0 && h->is_dir == is_dir ? h : NULL;
}

static struct handle *find_handle_of(struct server *s, uint64_t node)
{
    for (size_t i = 0; i < SHARE_HANDLES_MAX; i++)
        if (s->handles[i].fd >= 0 && s->handles[i].node == node)
            return &s->handles[i];
    return NULL;
}

/* The file that a request is about: the one that it has open, or the one at its number; one that
 * was removed, by any descriptor of it. The caller closes it. */
static int open_known(struct server *s, const struct handle *open)
{
    int fd = open ? -ESTALE : open_node(s, head_of(s)->nodeid, O_PATH);
    if (fd != -ESTALE)
        return fd;
    open = open ? open : find_handle_of(s, head_of(s)->nodeid);
    if (!open)
        return -ESTALE;
    fd = fcntl(open->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* Takes fd. */
static int answer_open(struct server *s, int fd, bool is_dir, uint64_t node,
                       struct fuse_open_out *ret)
{
    for (uint64_t i = 0; i < SHARE_HANDLES_MAX; i++) {
        if (s->handles[i].fd >= 0)
            continue;
        s->handles[i] = (struct handle){fd, is_dir, node};
        *ret = (struct fuse_open_out){.fh = i};
        return 0;
    }
    close(fd);
    return -ENFILE;
}

/* --- what the guest is shown */

static void fill_attributes(const struct stat *st, struct fuse_attr *ret)
{
    *ret = (struct fuse_attr){.ino = st->st_ino,
                              .size = (uint64_t)st->st_size,
                              .blocks = (uint64_t)st->st_blocks,
                              .atime = (uint64_t)st->st_atim.tv_sec,
                              .mtime = (uint64_t)st->st_mtim.tv_sec,
                              .ctime = (uint64_t)st->st_ctim.tv_sec,
                              .atimensec = (uint32_t)st->st_atim.tv_nsec,
                              .mtimensec = (uint32_t)st->st_mtim.tv_nsec,
                              .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
                              .mode = st->st_mode,
                              .nlink = (uint32_t)st->st_nlink,
                              .uid = st->st_uid,
                              .gid = st->st_gid,
                              .blksize = (uint32_t)st->st_blksize};
}

static int answer_attributes(struct server *s, const struct stat *st)
{
    struct fuse_attr_out *o = answer_of(s);
    *o = (struct fuse_attr_out){.attr_valid = CACHE_SECONDS};
    fill_attributes(st, &o->attr);
    s->out_len = sizeof(*o);
    return 0;
}

/* The file of a name in a directory that is open: its number, which the guest gives back some day.
 */
static int answer_entry(struct server *s, int dir_fd, const char *name)
{
    struct fuse_entry_out *o = answer_of(s);
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    uint64_t id = share_nodes_find(s->nodes, head_of(s)->nodeid, name);
    if (!id)
        return -ENFILE;
    *o = (struct fuse_entry_out){.nodeid = id,
                                 .generation = share_nodes_generation(s->nodes, id),
                                 .entry_valid = CACHE_SECONDS,
                                 .attr_valid = CACHE_SECONDS};
    fill_attributes(&st, &o->attr);
    s->out_len = sizeof(*o);
    return 0;
}

/* --- operations; each returns 0 or -errno, with out_len set where there is more to say */

static int do_init(struct server *s)
{
    const struct fuse_init_in *i = body_of(s);
    struct fuse_init_out *o = answer_of(s);
    if (i->major != FUSE_KERNEL_VERSION || i->minor < PROTOCOL_MINOR)
        return -EPROTO;
    *o = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
                                .minor = PROTOCOL_MINOR,
                                .max_readahead = i->max_readahead,
                                .flags = i->flags & (FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC |
                                                     FUSE_MAX_PAGES | FUSE_ASYNC_READ),
                                .max_background = 16,
                                .congestion_threshold = 12,
                                .max_write = SHARE_DATA_MAX,
                                .time_gran = 1,
                                .max_pages = SHARE_DATA_MAX / 4096};
    s->out_len = sizeof(*o);
    return 0;
}

static int do_lookup(struct server *s)
{
    const char *name;
    _cleanup_close_ int dir = open_named(s, 0, &name, NULL);
    return dir < 0 ? dir : answer_entry(s, dir, name);
}

static int do_getattr(struct server *s)
{
    const struct fuse_getattr_in *i = body_of(s);
    const struct handle *h =
        i->getattr_flags & FUSE_GETATTR_FH ? find_handle(s, i->fh, false) : NULL;
    struct stat st;
    _cleanup_close_ int fd = open_known(s, h);
    if (fd < 0)
        return fd;
    return fstat(fd, &st) < 0 ? -errno : answer_attributes(s, &st);
}

/* Of a descriptor that may only name a file: chmod() has no other way that follows no link. */
static int set_mode(int fd, mode_t mode)
{
    char path[32];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -EOPNOTSUPP;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return chmod(path, mode & MODE_MASK) < 0 ? -errno : 0;
}

/* named may only name the file; open is a handle of it, or NULL. */
static int set_size(int named, const struct handle *open, uint64_t size)
{
    if (size > INT64_MAX)
        return -EINVAL;
    _cleanup_close_ int fd = open ? -1 : open_regular(fcntl(named, F_DUPFD_CLOEXEC, 0), O_WRONLY);
    if (!open && fd < 0)
        return fd;
    return ftruncate(open ? open->fd : fd, (off_t)size) < 0 ? -errno : 0;
}

static struct timespec time_of(uint32_t valid, uint32_t set, uint32_t now, uint64_t sec,
                               uint32_t nsec)
{
    if (valid & now)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    if (!(valid & set))
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    return (struct timespec){(time_t)sec, (long)nsec};
}

static int do_setattr(struct server *s)
{
    const struct fuse_setattr_in *i = body_of(s);
    const struct handle *h = i->valid & FATTR_FH ? find_handle(s, i->fh, false) : NULL;
    struct stat st;
    _cleanup_close_ int fd = open_known(s, h);
    int r = fd < 0 || !(i->valid & FATTR_MODE) ? fd : set_mode(fd, i->mode);
    r = r < 0 || !(i->valid & FATTR_SIZE) ? r : set_size(fd, h, i->size);
    if (r < 0)
        return r;
    if (i->valid & (FATTR_UID | FATTR_GID) &&
        fchownat(fd, "", i->valid & FATTR_UID ? i->uid : (uid_t)-1,
                 i->valid & FATTR_GID ? i->gid : (gid_t)-1, AT_EMPTY_PATH) < 0)
        return -errno;
    const struct timespec times[] = {
        time_of(i->valid, FATTR_ATIME, FATTR_ATIME_NOW, i->atime, i->atimensec),
        time_of(i->valid, FATTR_MTIME, FATTR_MTIME_NOW, i->mtime, i->mtimensec)};
    if (i->valid & (FATTR_ATIME | FATTR_MTIME) && utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
        return -errno;
    return fstat(fd, &st) < 0 ? -errno : answer_attributes(s, &st);
}

static int do_readlink(struct server *s)
{
    _cleanup_close_ int fd = open_node(s, head_of(s)->nodeid, O_PATH);
    if (fd < 0)
        return fd;
    ssize_t n = readlinkat(fd, "", answer_of(s), PATH_MAX);
    if (n < 0)
        return errno == ENOENT ? -EINVAL : -errno; /* it is no link */
    s->out_len = (size_t)n;
    return 0;
}

static int do_symlink(struct server *s)
{
    const char *name, *target;
    size_t next;
    _cleanup_close_ int dir = open_named(s, 0, &name, &next);
    int r = dir < 0 ? dir : read_name(s, next, &target, NULL);
    if (r < 0)
        return r;
    return symlinkat(target, dir, name) < 0 ? -errno : answer_entry(s, dir, name);
}

/* No devices: they could not be used on this mount, but perhaps elsewhere. */
static int do_mknod(struct server *s)
{
    const struct fuse_mknod_in *i = body_of(s);
    const char *name;
    mode_t kind = i->mode & S_IFMT;
    if (kind != S_IFREG && kind != S_IFIFO && kind != S_IFSOCK)
        return -EPERM;
    _cleanup_close_ int dir = open_named(s, sizeof(*i), &name, NULL);
    if (dir < 0)
        return dir;
    mode_t mode = i->mode & ~i->umask & MODE_MASK;
    return mknodat(dir, name, kind | mode, 0) < 0 ? -errno : answer_entry(s, dir, name);
}

static int do_mkdir(struct server *s)
{
    const struct fuse_mkdir_in *i = body_of(s);
    const char *name;
    _cleanup_close_ int dir = open_named(s, sizeof(*i), &name, NULL);
    if (dir < 0)
        return dir;
    mode_t mode = i->mode & ~i->umask & MODE_MASK;
    return mkdirat(dir, name, mode) < 0 ? -errno : answer_entry(s, dir, name);
}

static int remove_name(struct server *s, int flags)
{
    const char *name;
    _cleanup_close_ int dir = open_named(s, 0, &name, NULL);
    if (dir < 0)
        return dir;
    if (unlinkat(dir, name, flags) < 0)
        return -errno;
    share_nodes_remove(s->nodes, head_of(s)->nodeid, name);
    return 0;
}

static int do_unlink(struct server *s)
{
    return remove_name(s, 0);
}

static int do_rmdir(struct server *s)
{
    return remove_name(s, AT_REMOVEDIR);
}

static int rename_names(struct server *s, uint64_t to_id, size_t at, unsigned flags)
{
    const char *name, *to_name;
    size_t next;
    int r = read_file_name(s, at, &name, &next);
    r = r < 0 ? r : read_file_name(s, next, &to_name, NULL);
    if (r < 0)
        return r;
    if (flags & ~(unsigned)RENAME_NOREPLACE)
        return -EINVAL;
    _cleanup_close_ int dir = open_dir(s, head_of(s)->nodeid);
    _cleanup_close_ int to = open_dir(s, to_id);
    if (dir < 0 || to < 0)
        return dir < 0 ? dir : to;
    if (renameat2(dir, name, to, to_name, flags) < 0)
        return -errno;
    share_nodes_rename(s->nodes, head_of(s)->nodeid, name, to_id, to_name);
    return 0;
}

static int do_rename(struct server *s)
{
    const struct fuse_rename_in *i = body_of(s);
    return rename_names(s, i->newdir, sizeof(*i), 0);
}

static int do_rename2(struct server *s)
{
    const struct fuse_rename2_in *i = body_of(s);
    return rename_names(s, i->newdir, sizeof(*i), i->flags);
}

static int do_link(struct server *s)
{
    const struct fuse_link_in *i = body_of(s);
    const char *name, *old_name;
    int r = read_file_name(s, sizeof(*i), &name, NULL);
    if (r < 0)
        return r;
    _cleanup_close_ int old = open_place(s, i->oldnodeid, &old_name);
    _cleanup_close_ int dir = open_dir(s, head_of(s)->nodeid);
    if (old < 0 || dir < 0)
        return old < 0 ? old : dir;
    return linkat(old, old_name, dir, name, 0) < 0 ? -errno : answer_entry(s, dir, name);
}

static int do_open(struct server *s)
{
    const struct fuse_open_in *i = body_of(s);
    int fd = open_file(s, head_of(s)->nodeid, (int)i->flags);
    if (fd < 0)
        return fd;
    s->out_len = sizeof(struct fuse_open_out);
    return answer_open(s, fd, false, head_of(s)->nodeid, answer_of(s));
}

static int do_opendir(struct server *s)
{
    int fd = open_node(s, head_of(s)->nodeid, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    s->out_len = sizeof(struct fuse_open_out);
    return answer_open(s, fd, true, head_of(s)->nodeid, answer_of(s));
}

static int do_create(struct server *s)
{
    const struct fuse_create_in *i = body_of(s);
    const char *name;
    _cleanup_close_ int dir = open_named(s, sizeof(*i), &name, NULL);
    if (dir < 0)
        return dir;
    _cleanup_close_ int fd = create_file(dir, name, (int)i->flags, i->mode & ~i->umask & MODE_MASK);
    if (fd < 0)
        return fd;
    int r = answer_entry(s, dir, name);
    if (r < 0)
        return r;
    const struct fuse_entry_out *entry = answer_of(s);
    s->out_len += sizeof(struct fuse_open_out);
    r = answer_open(s, fd_steal(&fd), false, entry->nodeid,
                    (struct fuse_open_out *)((char *)answer_of(s) + sizeof(*entry)));
    if (r < 0) /* the guest hears of no number that it could give back */
        share_nodes_forget(s->nodes, entry->nodeid, 1);
    return r;
}

static int do_read(struct server *s)
{
    const struct fuse_read_in *i = body_of(s);
    const struct handle *h = find_handle(s, i->fh, false);
    size_t size = i->size < SHARE_DATA_MAX ? i->size : SHARE_DATA_MAX;
    if (!h || i->offset > INT64_MAX)
        return h ? -EINVAL : -EBADF;
    ssize_t n = pread(h->fd, answer_of(s), size, (off_t)i->offset);
    if (n < 0)
        return -errno;
    s->out_len = (size_t)n;
    return 0;
}

/* What goes to the end of the file is written there whatever the guest takes for it, because the
 * host may append, too. But pages of a mapping have their places, by whatever file they come. */
static int do_write(struct server *s)
{
    const struct fuse_write_in *i = body_of(s);
    struct fuse_write_out *o = answer_of(s);
    const struct handle *h = find_handle(s, i->fh, false);
    if (!h || i->offset > INT64_MAX ||
        i->size > s->in_len - sizeof(struct fuse_in_header) - sizeof(*i))
        return h ? -EINVAL : -EBADF;
    bool appends = i->flags & O_APPEND && !(i->write_flags & FUSE_WRITE_CACHE);
    struct iovec data = {.iov_base = s->in + sizeof(struct fuse_in_header) + sizeof(*i),
                         .iov_len = i->size};
    ssize_t n = pwritev2(h->fd, &data, 1, (off_t)i->offset, appends ? RWF_APPEND : 0);
    if (n < 0)
        return -errno;
    *o = (struct fuse_write_out){.size = (uint32_t)n};
    s->out_len = sizeof(*o);
    return 0;
}

/* As the kernel lists them, with the places where to go on. */
static int do_readdir(struct server *s)
{
    struct entry {
        uint64_t ino;
        int64_t off;
        uint16_t len;
        uint8_t type;
        char name[];
    };
    static _Alignas(8) char listing[LISTING_BYTES];
    const struct fuse_read_in *i = body_of(s);
    const struct handle *h = find_handle(s, i->fh, true);
    size_t room = i->size < SHARE_DATA_MAX ? i->size : SHARE_DATA_MAX;
    if (!h || lseek(h->fd, (off_t)i->offset, SEEK_SET) < 0)
        return h ? -errno : -EBADF;
    long n = syscall(SYS_getdents64, h->fd, listing, sizeof(listing));
    if (n < 0)
        return -errno;
    for (long at = 0; at < n;) {
        const struct entry *e = (const struct entry *)(void *)(listing + at);
        struct fuse_dirent *d = (struct fuse_dirent *)(void *)((char *)answer_of(s) + s->out_len);
        size_t len = strlen(e->name), size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);
        if (s->out_len + size > room)
            break;
        memset(d, 0, size);
        d->ino = e->ino;
        d->off = (uint64_t)e->off;
        d->namelen = (uint32_t)len;
        d->type = e->type;
        memcpy(d->name, e->name, len);
        s->out_len += size;
        at += e->len;
    }
    return 0;
}

static int release_handle(struct server *s, bool is_dir)
{
    const struct fuse_release_in *i = body_of(s);
    struct handle *h = find_handle(s, i->fh, is_dir);
    if (h)
        fd_close(&h->fd);
    return h ? 0 : -EBADF;
}

static int do_release(struct server *s)
{
    return release_handle(s, false);
}

static int do_releasedir(struct server *s)
{
    return release_handle(s, true);
}

static int do_flush(struct server *s)
{
    (void)s;
    return 0;
}

static int do_fsync(struct server *s)
{
    const struct fuse_fsync_in *i = body_of(s);
    const struct handle *h = find_handle(s, i->fh, false);
    return !h ? -EBADF : fsync(h->fd) < 0 ? -errno : 0;
}

static int do_fsyncdir(struct server *s)
{
    const struct fuse_fsync_in *i = body_of(s);
    const struct handle *h = find_handle(s, i->fh, true);
    return !h ? -EBADF : fsync(h->fd) < 0 ? -errno : 0;
}

static int do_statfs(struct server *s)
{
    struct fuse_statfs_out *o = answer_of(s);
    struct statvfs fs;
    _cleanup_close_ int fd = open_path(s->dir_fd, ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    if (fstatvfs(fd, &fs) < 0)
        return -errno;
    *o = (struct fuse_statfs_out){.st = {.blocks = fs.f_blocks,
                                         .bfree = fs.f_bfree,
                                         .bavail = fs.f_bavail,
                                         .files = fs.f_files,
                                         .ffree = fs.f_ffree,
                                         .bsize = (uint32_t)fs.f_bsize,
                                         .namelen = NAME_MAX_,
                                         .frsize = (uint32_t)fs.f_frsize}};
    s->out_len = sizeof(*o);
    return 0;
}

static int do_forget(struct server *s)
{
    const struct fuse_forget_in *i = body_of(s);
    share_nodes_forget(s->nodes, head_of(s)->nodeid, i->nlookup);
    return 0;
}

static int do_batch_forget(struct server *s)
{
    const struct fuse_batch_forget_in *i = body_of(s);
    const struct fuse_forget_one *one = (const struct fuse_forget_one *)(i + 1);
    size_t left = s->in_len - sizeof(struct fuse_in_header) - sizeof(*i);
    for (size_t k = 0; k < i->count && (k + 1) * sizeof(*one) <= left; k++)
        share_nodes_forget(s->nodes, one[k].nodeid, one[k].nlookup);
    return 0;
}

/* --- messages */

static const struct operation {
    uint32_t opcode;
    size_t size; /* of what follows the head at least */
    int (*fn)(struct server *s);
    bool silent; /* it has no answer */
} operations[] = {
    {FUSE_INIT, offsetof(struct fuse_init_in, flags2), do_init, false},
    {FUSE_LOOKUP, 1, do_lookup, false},
    {FUSE_FORGET, sizeof(struct fuse_forget_in), do_forget, true},
    {FUSE_BATCH_FORGET, sizeof(struct fuse_batch_forget_in), do_batch_forget, true},
    {FUSE_INTERRUPT, 0, do_flush, true},
    {FUSE_GETATTR, sizeof(struct fuse_getattr_in), do_getattr, false},
    {FUSE_SETATTR, sizeof(struct fuse_setattr_in), do_setattr, false},
    {FUSE_READLINK, 0, do_readlink, false},
    {FUSE_SYMLINK, 1, do_symlink, false},
    {FUSE_MKNOD, sizeof(struct fuse_mknod_in), do_mknod, false},
    {FUSE_MKDIR, sizeof(struct fuse_mkdir_in), do_mkdir, false},
    {FUSE_UNLINK, 1, do_unlink, false},
    {FUSE_RMDIR, 1, do_rmdir, false},
    {FUSE_RENAME, sizeof(struct fuse_rename_in), do_rename, false},
    {FUSE_RENAME2, sizeof(struct fuse_rename2_in), do_rename2, false},
    {FUSE_LINK, sizeof(struct fuse_link_in), do_link, false},
    {FUSE_OPEN, sizeof(struct fuse_open_in), do_open, false},
    {FUSE_CREATE, sizeof(struct fuse_create_in), do_create, false},
    {FUSE_READ, sizeof(struct fuse_read_in), do_read, false},
    {FUSE_WRITE, sizeof(struct fuse_write_in), do_write, false},
    {FUSE_FLUSH, sizeof(struct fuse_flush_in), do_flush, false},
    {FUSE_RELEASE, sizeof(struct fuse_release_in), do_release, false},
    {FUSE_FSYNC, sizeof(struct fuse_fsync_in), do_fsync, false},
    {FUSE_OPENDIR, sizeof(struct fuse_open_in), do_opendir, false},
    {FUSE_READDIR, sizeof(struct fuse_read_in), do_readdir, false},
    {FUSE_RELEASEDIR, sizeof(struct fuse_release_in), do_releasedir, false},
    {FUSE_FSYNCDIR, sizeof(struct fuse_fsync_in), do_fsyncdir, false},
    {FUSE_STATFS, 0, do_statfs, false},
};

static const struct operation *find_operation(uint32_t opcode)
{
    for (size_t i = 0; i < ELEMENTS(operations); i++)
        if (operations[i].opcode == opcode)
            return &operations[i];
    return NULL;
}

static int receive_exactly(const struct server *s, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(s->port_fd, (char *)data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        done += (size_t)n;
    }
    return 0;
}

static int receive_message(struct server *s)
{
    const struct fuse_in_header *h = head_of(s);
    int r = receive_exactly(s, s->in, sizeof(*h));
    if (r < 0)
        return r;
    if (h->len < sizeof(*h) || h->len > sizeof(s->in))
        return -EPROTO;
    s->in_len = h->len;
    return receive_exactly(s, s->in + sizeof(*h), h->len - sizeof(*h));
}

static int send_answer(struct server *s, int error)
{
    struct fuse_out_header *o = (struct fuse_out_header *)(void *)s->out;
    size_t len = error ? 0 : s->out_len;
    *o = (struct fuse_out_header){
        .len = (uint32_t)(sizeof(*o) + len), .error = error, .unique = head_of(s)->unique};
    return fd_write_all(s->port_fd, s->out, sizeof(*o) + len);
}

static int serve_one(struct server *s)
{
    int r = receive_message(s);
    if (r < 0)
        return r;
    const struct operation *op = find_operation(head_of(s)->opcode);
    size_t body = s->in_len - sizeof(struct fuse_in_header);
    s->out_len = 0;
    r = !op ? -ENOSYS : body < op->size ? -EINVAL : op->fn(s);
    return op && op->silent ? 0 : send_answer(s, r);
}

void share_serve(int dir_fd, int port_fd)
{
    struct server *s = new0(struct server);
    s->dir_fd = dir_fd;
    s->port_fd = port_fd;
    s->nodes = share_nodes_new();
    for (size_t i = 0; i < SHARE_HANDLES_MAX; i++)
        s->handles[i].fd = -1;
    while (serve_one(s) >= 0)
        ;
    for (size_t i = 0; i < SHARE_HANDLES_MAX; i++)
        fd_close(&s->handles[i].fd);
    share_nodes_free(s->nodes);
    free(s);
}
