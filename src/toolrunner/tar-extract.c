/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking. Every path is opened by openat2() beneath the root without following symlinks, so the
 * kernel itself refuses the tricks; what exists under an entry's name is unlinked, never written
 * through. */
#include "toolrunner/tar-extract.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/map.h"
#include "toolrunner/tar.h"

#define COPY_SIZE 65536
#define DIR_MODE  0755 /* of directories that entries need but the archive does not have */

/* The same, step by step, for kernels without openat2 (gVisor's): no step follows a link, and none
 * is "..", which tar.c does not let through either. */
static int walk_beneath(int root_fd, const char *path)
{
    _cleanup_close_ int at = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_free_ char *copy = xstrdup(path);
    char *save = NULL;
    if (at < 0)
        return -errno;
    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        if (strcmp(name, "..") == 0)
            return -EXDEV;
        int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return errno == ENOTDIR ? -ELOOP : -errno;
        fd_close(&at);
        at = next;
    }
    return fd_steal(&at);
}

static int open_beneath(int root_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS)
        return walk_beneath(root_fd, path);
    return fd < 0 ? -errno : fd;
}

/* *made_from becomes the length of the part of path that was the first to be made; 0: none. */
static int make_dirs(int root_fd, char *path, size_t *made_from)
{
    for (char *slash = path;;) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = 0;
        int fd = open_beneath(root_fd, path);
        if (fd == -ENOENT) {
            char *last = strrchr(path, '/');
            if (last)
                *last = 0;
            _cleanup_close_ int parent = open_beneath(root_fd, last ? path : "");
            if (last)
                *last = '/';
            if (parent < 0)
                return parent;
            if (mkdirat(parent, last ? last + 1 : path, DIR_MODE) == 0)
                *made_from = *made_from ? *made_from : strlen(path);
            else if (errno != EEXIST)
                return -errno;
        } else if (fd < 0) {
            return fd;
        } else {
            close(fd);
        }
        if (!slash)
            return 0;
        *slash++ = '/';
    }
}

/* Takes away what make_dirs() has made for an entry that then could not be unpacked. */
static void unmake_dirs(int root_fd, const char *path, size_t made_from)
{
    _cleanup_free_ char *dir = xstrdup(path);
    for (char *slash; made_from && (slash = strrchr(dir, '/'));) {
        *slash = 0;
        if (strlen(dir) < made_from)
            return;
        char *last = strrchr(dir, '/');
        _cleanup_free_ char *above = xstrndup(dir, last ? (size_t)(last - dir) : 0);
        _cleanup_close_ int parent = open_beneath(root_fd, above);
        if (parent >= 0)
            unlinkat(parent, last ? last + 1 : dir, AT_REMOVEDIR);
    }
}

/* The directory an entry is in, made if it has to be; *ret_name is its last part. */
static int open_parent(int root_fd, const char *path, const char **ret_name, size_t *made_from)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    _cleanup_free_ char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);
    int fd = open_beneath(root_fd, dir);
    if (fd != -ENOENT)
        return fd;
    int r = make_dirs(root_fd, dir, made_from);
    if (r < 0)
        return r;
    return open_beneath(root_fd, dir);
}

static int copy_data(struct tar *t, int fd)
{
    static char chunk[COPY_SIZE];
    for (;;) {
        ssize_t n = tar_read(t, chunk, sizeof(chunk));
        if (n <= 0)
            return (int)n;
        int r = fd_write_all(fd, chunk, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int extract_file(struct tar *t, const struct tar_entry *e, int dir_fd, const char *name)
{
    _cleanup_close_ int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = copy_data(t, fd);
    if (r < 0) {
        unlinkat(dir_fd, name, 0); /* half of a file is none */
        return r;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = e->mtime}};
    if (fchmod(fd, e->mode) < 0)
        return -errno;
    futimens(fd, times);
    return 0;
}

static int extract_directory(const struct tar_entry *e, int dir_fd, const char *name)
{
    struct stat st;
    /* Ours to write into, whatever the archive says: there may be more to unpack below it. */
    if (mkdirat(dir_fd, name, e->mode | 0700) == 0)
        return 0;
    if (errno != EEXIST || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

static int extract_hardlink(const struct tar_entry *e, int root_fd, int dir_fd, const char *name)
{
    struct stat st;
    const char *slash = strrchr(e->link, '/'), *target = slash ? slash + 1 : e->link;
    _cleanup_free_ char *dir = xstrndup(e->link, slash ? (size_t)(slash - e->link) : 0);
    _cleanup_close_ int from = open_beneath(root_fd, dir);
    if (from < 0)
        return from;
    if (fstatat(from, target, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EPERM;
    return linkat(from, target, dir_fd, name, 0) < 0 ? -errno : 0;
}

static int extract_below(struct tar *t, const struct tar_entry *e, int root_fd, size_t *made_from)
{
    const char *name;
    _cleanup_close_ int dir_fd = open_parent(root_fd, e->path, &name, made_from);
    if (dir_fd < 0)
        return dir_fd;
    if (e->type == TAR_DIRECTORY)
        return extract_directory(e, dir_fd, name);
    if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    if (e->type == TAR_SYMLINK)
        return symlinkat(e->link, dir_fd, name) < 0 ? -errno : 0;
    if (e->type == TAR_HARDLINK)
        return extract_hardlink(e, root_fd, dir_fd, name);
    return extract_file(t, e, dir_fd, name);
}

static int extract_entry(struct tar *t, const struct tar_entry *e, int root_fd)
{
    size_t made_from = 0;
    int r = *e->path ? extract_below(t, e, root_fd, &made_from) : 0;
    if (r < 0)
        unmake_dirs(root_fd, e->path, made_from);
    return r;
}

static void explain_entry(struct tar *t, const struct tar_entry *e, int error)
{
    const char *text = error == -ELOOP || error == -EXDEV || error == -ENOTDIR
                           ? "its path goes through something that is not a directory"
                           : strerror(-error);
    snprintf(t->why, sizeof(t->why), "entry '%s': %s", e->path, text);
}

int tar_extract(struct tar *t, int root_fd)
{
    _cleanup_free_ struct tar_entry *e = new0(struct tar_entry);
    for (;;) {
        int r = tar_next(t, e);
        if (r <= 0)
            return r;
        t->why[0] = 0;
        r = extract_entry(t, e, root_fd);
        if (r < 0) {
            if (!t->why[0]) /* else the archive itself was at fault */
                explain_entry(t, e, r);
            return r;
        }
    }
}

/* --- whether it can be unpacked */

/* What the archive has brought so far, by its path. */
static char is_directory[] = "directory", is_file[] = "file", is_link[] = "link";

/* Where path or one above it is neither a directory nor missing: -errno; with makes also where the
 * last directory above it may not be written to, unless path is a directory already, which stays as
 * it is. 1 where path itself is there, with st. */
static int look_below(int root_fd, const char *path, bool makes, struct stat *st)
{
    const char *name;
    _cleanup_free_ char *dir = xstrdup(path);
    _cleanup_close_ int fd = -ENOENT;
    while (fd == -ENOENT && *dir) {
        char *slash = strrchr(dir, '/');
        *(slash ? slash : dir) = 0;
        fd = open_beneath(root_fd, dir);
    }
    if (fd < 0)
        return fd;
    name = path + strlen(dir) + (*dir != 0);
    bool there = !strchr(name, '/') && fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW) == 0;
    if (makes && !(there && S_ISDIR(st->st_mode)) && faccessat(fd, ".", W_OK | X_OK, 0) < 0)
        return -errno;
    return there;
}

/* A path through something that the archive itself has brought, and that is no directory. */
static bool passes_through(const struct map *seen, const char *path)
{
    _cleanup_free_ char *dir = xstrdup(path);
    for (char *slash; (slash = strrchr(dir, '/'));) {
        *slash = 0;
        const char *what = map_find(seen, dir);
        if (what && what != is_directory)
            return true;
    }
    return false;
}

static int check_place(const struct map *seen, const struct tar_entry *e, int root_fd)
{
    struct stat st;
    const char *what = map_find(seen, e->path);
    if (passes_through(seen, e->path)) /* what open_beneath() would say */
        return -ELOOP;
    int r = root_fd < 0 ? 0 : look_below(root_fd, e->path, true, &st);
    if (r < 0)
        return r;
    bool there = what || r > 0;
    bool dir = what ? what == is_directory : there && S_ISDIR(st.st_mode);
    if (there && dir != (e->type == TAR_DIRECTORY))
        return dir ? -EISDIR : -EEXIST;
    return 0;
}

static int check_hardlink(const struct map *seen, const struct tar_entry *e, int root_fd)
{
    struct stat st;
    const char *what = map_find(seen, e->link);
    if (what || passes_through(seen, e->link))
        return what == is_file ? 0 : what ? -EPERM : -ELOOP;
    int r = root_fd < 0 ? 0 : look_below(root_fd, e->link, false, &st);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    return S_ISREG(st.st_mode) ? 0 : -EPERM;
}

/* Notes what will be there: the entry, and directories that it needs. */
static void note_entry(struct map *seen, const struct tar_entry *e)
{
    char *what = e->type == TAR_DIRECTORY ? is_directory
                 : e->type == TAR_SYMLINK ? is_link
                                          : is_file;
    _cleanup_free_ char *dir = xstrdup(e->path);
    map_put(seen, e->path, what);
    for (char *slash; (slash = strrchr(dir, '/'));) {
        *slash = 0;
        map_put(seen, dir, is_directory);
    }
}

int tar_check(struct tar *t, int root_fd)
{
    _cleanup_free_ struct tar_entry *e = new0(struct tar_entry);
    struct map *seen = map_new();
    int r;
    while ((r = tar_next(t, e)) > 0) {
        if (!*e->path)
            continue;
        r = check_place(seen, e, root_fd);
        if (r >= 0 && e->type == TAR_HARDLINK)
            r = check_hardlink(seen, e, root_fd);
        if (r < 0) {
            explain_entry(t, e, r);
            break;
        }
        note_entry(seen, e);
    }
    map_free(seen);
    return r;
}
