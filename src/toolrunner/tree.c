/* Walks by directory descriptors, so that a name that is swapped for a symlink meanwhile leads
 * nowhere. */
#include "toolrunner/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define DIR_FLAGS      (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
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

/* All names but "." and "..", sorted. */
static int read_names(int dir_fd, char ***ret)
{
    int fd = openat(dir_fd, ".", DIR_FLAGS);
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

static int walk_into(struct walk *w, int dir_fd, const char *name, int depth)
{
    _cleanup_close_ int fd = openat(dir_fd, name, DIR_FLAGS);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ? 0
                                                                                        : -errno;
    return walk_dir(w, fd, depth + 1);
}

static int walk_name(struct walk *w, int dir_fd, const char *name, int depth)
{
    struct tree_entry e = {.name = name, .path = w->path.data, .dirfd = dir_fd};
    if (fstatat(dir_fd, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (w->left == 0)
        return 1;
    w->left--;
    int r = w->visit(&e, w->arg);
    if (r || !w->recursive || !S_ISDIR(e.st.st_mode))
        return r;
    return walk_into(w, dir_fd, name, depth);
}

static int walk_dir(struct walk *w, int dir_fd, int depth)
{
    _cleanup_strv_ char **names = NULL;
    if (depth > TREE_DEPTH_MAX)
        return -ELOOP;
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
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    int saved = errno;
    if (depth > TREE_DEPTH_MAX)
        return -ELOOP;
    _cleanup_close_ int fd = openat(dir_fd, name, DIR_FLAGS);
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

int tree_remove(const char *path)
{
    return remove_at(AT_FDCWD, path, 0);
}

int tree_make_parents(const char *path, mode_t mode)
{
    _cleanup_free_ char *copy = xstrdup(path);
    for (char *p = copy + 1; *copy && (p = strchr(p, '/')); p++) {
        *p = 0;
        if (mkdir(copy, mode) < 0 && errno != EEXIST && errno != EISDIR && errno != EROFS &&
            errno != EACCES)
            return -errno;
        *p = '/';
    }
    return 0;
}
