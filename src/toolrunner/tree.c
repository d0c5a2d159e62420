/* SPDX-License-Identifier: Apache-2.0 */
/* Walks by directory descriptors, so that a name that is swapped for a symlink meanwhile leads
 * nowhere. */
#include "toolrunner/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/strbuf.h"

#define NAMES_MAX      (1u << 20) /* of one directory */
#define PATH_BYTES_MAX 65536

struct walk {
    bool recursive;
    size_t left;
    int (*visit)(const struct tree_entry *e, void *arg);
    void *arg;
    struct strbuf path;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int open_dir(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* All names but "." and "..", sorted. */
static int read_names(int dir_fd, char ***ret)
{
    int fd = open_dir(dir_fd, ".");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int saved = errno;
        fd_close(&fd);
        return -saved;
    }
    size_t n = 0, alloc = 64;
    char **names = xcalloc(alloc, sizeof(*names));
    for (struct dirent *d; n < NAMES_MAX && (d = readdir(dir));) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (n + 1 == alloc)
            names = xrealloc(names, (alloc *= 2) * sizeof(*names));
        names[n++] = xstrdup(d->d_name);
    }
    names[n] = NULL;
    closedir(dir);
    qsort(names, n, sizeof(*names), compare_names);
    *ret = names;
    return 0;
}

static int walk_dir(struct walk *w, int dir_fd, int depth);

static int walk_name(struct walk *w, int dir_fd, const char *name, int depth)
{
    struct tree_entry e = {.name = name, .path = w->path.data, .dirfd = dir_fd};
    /* Programs of the sandbox go on while this looks: a name that vanished is no failure, and
     * neither is a directory that became something else, or that this user may not open. */
    if (fstatat(dir_fd, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (w->left == 0)
        return 1;
    w->left--;
    int r = w->visit(&e, w->arg);
    if (r || !w->recursive || !S_ISDIR(e.st.st_mode))
        return r;
    _cleanup_close_ int fd = open_dir(dir_fd, name);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ? 0
                                                                                        : -errno;
    return walk_dir(w, fd, depth + 1);
}

static int walk_dir(struct walk *w, int dir_fd, int depth)
{
    _cleanup_strv_ char **names = NULL;
    if (depth > TREE_DEPTH_MAX)
        return -ENAMETOOLONG;
    int r = read_names(dir_fd, &names);
    size_t base = w->path.len;
    for (size_t i = 0; !r && names[i]; i++) {
        if (base && w->path.data[base - 1] != '/')
            strbuf_puts(&w->path, "/");
        if (strbuf_puts(&w->path, names[i]) < 0)
            r = -ENAMETOOLONG;
        else
            r = walk_name(w, dir_fd, names[i], depth);
        w->path.len = base;
        w->path.data[base] = 0;
    }
    return r;
}

int tree_walk(const char *path, bool recursive, size_t max,
              int (*visit)(const struct tree_entry *e, void *arg), void *arg)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct walk w = {recursive, max, visit, arg, STRBUF_INIT(PATH_BYTES_MAX)};
    strbuf_puts(&w.path, path);
    int r = walk_dir(&w, fd, 0);
    strbuf_done(&w.path);
    return r;
}

static int remove_at(int dir_fd, const char *name, int depth)
{
    _cleanup_strv_ char **names = NULL;
    if (unlinkat(dir_fd, name, 0) == 0)
        return 0;
    /* unlink() of a directory is EISDIR on Linux and EPERM by POSIX, but EPERM also means a file
     * that must not be removed: which of the two it was shows when it is opened as a directory. */
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    int saved = errno;
    if (depth > TREE_DEPTH_MAX)
        return -ENAMETOOLONG;
    _cleanup_close_ int fd = open_dir(dir_fd, name);
    if (fd < 0)
        return errno == ENOTDIR ? -saved : -errno;
    int r = read_names(fd, &names);
    for (size_t i = 0; r >= 0 && names[i]; i++) {
        r = remove_at(fd, names[i], depth + 1);
        if (r == -ENOENT)
            r = 0;
    }
    if (r < 0)
        return r;
    return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* --- whether all of a tree can be removed */

struct removal {
    dev_t dev;
    struct stat cwd;
};

/* A mount on another file system has another device; one of the same is found by openat2(). */
static bool is_mount(int dir_fd, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_XDEV};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
    return fd < 0 && errno == EXDEV;
}

static bool is_empty(int dir_fd, const char *name)
{
    _cleanup_strv_ char **names = NULL;
    _cleanup_close_ int fd = open_dir(dir_fd, name);
    return fd >= 0 && read_names(fd, &names) >= 0 && !names[0];
}

static int check_directory(int dir_fd, const char *name, const struct stat *st,
                           const struct removal *r)
{
    bool is_cwd = st->st_dev == r->cwd.st_dev && st->st_ino == r->cwd.st_ino;
    if (is_cwd || st->st_dev != r->dev || is_mount(dir_fd, name))
        return -EBUSY;
    if (faccessat(dir_fd, name, R_OK | X_OK, 0) < 0)
        return -errno;
    if (faccessat(dir_fd, name, W_OK, 0) < 0 && !is_empty(dir_fd, name))
        return -EACCES;
    return 0;
}

static int check_entry(const struct tree_entry *e, void *arg)
{
    return S_ISDIR(e->st.st_mode) ? check_directory(e->dirfd, e->name, &e->st, arg) : 0;
}

/* What the directory that it is in says: it must be ours to write, and so must be the entry where
 * the directory is one like /tmp. */
static int check_parent(int parent_fd, const struct stat *parent, const struct stat *st)
{
    uid_t me = geteuid();
    if (faccessat(parent_fd, ".", W_OK | X_OK, 0) < 0)
        return -errno;
    bool kept = (parent->st_mode & S_ISVTX) && me && st->st_uid != me && parent->st_uid != me;
    return kept ? -EPERM : 0;
}

static int check_removable(int parent_fd, const char *name, const char *path)
{
    struct stat st, parent;
    struct removal r = {0};
    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || fstat(parent_fd, &parent) < 0)
        return -errno;
    int e = check_parent(parent_fd, &parent, &st);
    if (e < 0 || !S_ISDIR(st.st_mode))
        return e;
    r.dev = parent.st_dev;
    if (stat(".", &r.cwd) < 0)
        r.cwd = (struct stat){0};
    e = check_directory(parent_fd, name, &st, &r);
    return e < 0 ? e : tree_walk(path, true, SIZE_MAX, check_entry, &r);
}

int tree_remove(const char *path)
{
    _cleanup_free_ char *bare = xstrdup(path);
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--)
        bare[n - 1] = 0;
    if (!path_names_entry(bare))
        return -EINVAL;
    char *slash = strrchr(bare, '/');
    const char *name = slash ? slash + 1 : bare;
    _cleanup_free_ char *parent = slash ? xstrndup(bare, (size_t)(slash - bare) + 1) : xstrdup(".");
    _cleanup_close_ int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = check_removable(fd, name, bare);
    if (r < 0)
        return r;
    return remove_at(fd, name, 0);
}

void tree_made_done(struct tree_made *made)
{
    for (size_t i = 0; i < made->n; i++)
        free(made->paths[i]);
    free(made->paths);
    *made = (struct tree_made){0};
}

void tree_unmake(struct tree_made *made)
{
    for (size_t i = made->n; i > 0; i--)
        rmdir(made->paths[i - 1]);
    tree_made_done(made);
}

static void made_note(struct tree_made *made, const char *path)
{
    made->paths = xrealloc(made->paths, (made->n + 1) * sizeof(*made->paths));
    made->paths[made->n++] = xstrdup(path);
}

int tree_make_parents(const char *path, mode_t mode, struct tree_made *made)
{
    _cleanup_free_ char *copy = xstrdup(path);
    int r = path_check_length(path);
    for (char *p = copy + 1; r >= 0 && *copy && (p = strchr(p, '/')); p++) {
        *p = 0;
        if (mkdir(copy, mode) == 0)
            made_note(made, copy);
        else if (errno != EEXIST && errno != EISDIR && errno != EROFS && errno != EACCES)
            r = -errno;
        *p = '/';
    }
    if (r < 0)
        tree_unmake(made);
    return r;
}
