/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/replace-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "toolrunner/tree.h"

#define PARENTS_MODE 0755

static const char *replace_target(const char *path, char real[PATH_MAX])
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
        return real;
    return path;
}

/* A file without a name in the directory of path, or in the nearest one above it that is there. */
static int open_nameless(const char *path)
{
    _cleanup_free_ char *dir = xstrdup(path);
    for (;;) {
        char *slash = strrchr(dir, '/');
        if (slash)
            slash[slash == dir] = 0;
        int fd = open(slash ? dir : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != ENOENT || !slash || !dir[1])
            return fd < 0 ? -errno : fd;
    }
}

static int copy_to_end(int from, int to, off_t *ret_done)
{
    static char chunk[65536];
    *ret_done = 0;
    for (;;) {
        ssize_t n = pread(from, chunk, sizeof(chunk), *ret_done);
        if (n > 0)
            n = write(to, chunk, (size_t)n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        *ret_done += n;
    }
}

static int fill_from_nameless(int fd, void *arg)
{
    off_t done;
    return copy_to_end(*(const int *)arg, fd, &done);
}

static int write_in_place(const char *path, int how, mode_t mode, int (*fill)(int fd, void *arg),
                          void *arg)
{
    struct stat st;
    bool is_new = lstat(path, &st) < 0;
    _cleanup_close_ int fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | how, mode);
    int r = fd < 0 ? -errno : fill(fd, arg);
    if (r < 0 && fd >= 0 && is_new)
        unlink(path);
    return r;
}

/* A file without a name becomes path; for a moment it has a name of its own beside it. */
static int link_over(int fd, const char *path)
{
    char source[64];
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *temp = xasprintf("%.*s.mas-%d-%llx", slash ? (int)(slash + 1 - path) : 0,
                                          path, (int)getpid(), (unsigned long long)clock_mono_ns());
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, source, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) < 0)
        return -errno;
    if (rename(temp, path) == 0)
        return 0;
    int r = -errno;
    unlink(temp);
    return r;
}

/* The place of path may be another mount than where its content was collected ("a/../b/c"), and a
 * domain of Landlock may not let a file get there from another directory. */
static int put_nameless(int fd, const char *path, mode_t mode)
{
    if (fchmod(fd, mode) < 0)
        return -errno;
    int r = link_over(fd, path);
    return r == -EXDEV || r == -EACCES || r == -EPERM
               ? write_in_place(path, O_TRUNC, mode, fill_from_nameless, &fd)
               : r;
}

/* The file is as it was where not all of the content finds room, unless something else was written
 * to it meanwhile, which must not be cut off with ours. */
static int append_nameless(int from, const char *path)
{
    struct stat before, after;
    off_t done;
    _cleanup_close_ int to = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_APPEND);
    if (to < 0 || fstat(to, &before) < 0)
        return -errno;
    int r = copy_to_end(from, to, &done);
    if (r < 0 && fstat(to, &after) == 0 && after.st_size == before.st_size + done)
        (void)!ftruncate(to, before.st_size);
    return r;
}

/* Another writer may make the file meanwhile, whose bytes must not be replaced: only the first of
 * them gives it its name, and the others append. */
static int append_new(int fd, const char *path, mode_t mode)
{
    char source[64];
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    if (fchmod(fd, mode) < 0)
        return -errno;
    if (linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno == EEXIST || errno == EXDEV || errno == EACCES || errno == EPERM)
        return write_in_place(path, O_APPEND, mode, fill_from_nameless, &fd);
    return -errno;
}

struct storing {
    mode_t mode;
    bool append;
    int (*fill)(int fd, void *arg);
    void *arg;
};

/* Puts the content where it belongs; nameless is -1 where it could not be collected before, because
 * the directory is not ours to write or its file system has no O_TMPFILE. */
static int put_content(const struct storing *s, int nameless, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    path = replace_target(path, real);
    bool is_new = stat(path, &st) < 0;
    if (!is_new && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    if (nameless >= 0 && s->append)
        return is_new ? append_new(nameless, path, s->mode) : append_nameless(nameless, path);
    if (nameless >= 0)
        return put_nameless(nameless, path, s->mode);
    return write_in_place(path, s->append ? O_APPEND : O_TRUNC, s->mode, s->fill, s->arg);
}

/* What is at the place is looked at when its directories are there, and not before: "new/../link"
 * is then what it will be. */
static int store_file(const struct storing *s, const char *path)
{
    char real[PATH_MAX];
    _cleanup_made_ struct tree_made made = {0};
    /* Beside what it will replace, which a link may have put on another mount. */
    _cleanup_close_ int nameless = open_nameless(replace_target(path, real));
    int r = nameless < 0 ? 0 : s->fill(nameless, s->arg);
    if (r >= 0)
        r = tree_make_parents(path, PARENTS_MODE, &made);
    if (r >= 0)
        r = put_content(s, nameless, path);
    if (r < 0)
        tree_unmake(&made);
    return r;
}

int replace_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg)
{
    return store_file(&(struct storing){mode, false, fill, arg}, path);
}

int append_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg)
{
    return store_file(&(struct storing){mode, true, fill, arg}, path);
}
