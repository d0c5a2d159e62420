/* SPDX-License-Identifier: Apache-2.0 */
/* skill-file: one file operation of the actions API's filesystem skill, below a root and nowhere
 * else.
 *
 * The path is walked name by name from the root's descriptor and no name may be a link, so what is
 * checked is what is used: there is no moment in which another process could put a link in between,
 * and a name's extension is that of the file itself. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"

#define LIST_MAX 10000

struct place {
    const char *path;        /* as it was given, for messages */
    int dir;                 /* that name is in */
    char name[NAME_MAX + 1]; /* "." for the root itself */
    size_t max_bytes;
    char **extensions;
    size_t made_from; /* bytes of path up to the first directory that was made for it; 0: none */
};

/* --- finding it */

static bool is_plain(const char *name)
{
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* One step down. */
static int enter_place(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Whether a path can be walked, and which name is its last. Nothing is opened for it, so that a
 * path with a fault at its end is refused before its first directory is made. */
static int check_names(struct place *p, const char *path)
{
    _cleanup_free_ char *copy = xstrdup(path);
    p->path = path;
    strcpy(p->name, ".");
    if (path_check_length(path) < 0)
        return -ENAMETOOLONG;
    for (char *rest = copy, *name; (name = strsep(&rest, "/"));) {
        if (strcmp(name, "..") == 0)
            return -EINVAL;
        if (is_plain(name))
            strcpy(p->name, name);
    }
    return 0;
}

/* Goes to the directory that name is to be in. The one that p->name names is made where it is not
 * there and end, the bytes of the path up to its name's end, is not 0. */
static int step_down(struct place *p, size_t end)
{
    int next = enter_place(p->dir, p->name);
    if (next == -ENOENT && end) {
        bool made = mkdirat(p->dir, p->name, 0755) == 0;
        if (!made && errno != EEXIST)
            return -errno;
        if (made && !p->made_from)
            p->made_from = end;
        next = enter_place(p->dir, p->name);
    }
    if (next < 0)
        return next;
    close(p->dir);
    p->dir = next;
    return 0;
}

/* Opens the directory of the last name of a path that check_names() has seen; 0 or -errno. */
static int find_place(struct place *p, const char *root, const char *path, bool make)
{
    _cleanup_free_ char *copy = xstrdup(path);
    size_t end = 0;
    strcpy(p->name, ".");
    p->dir = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->dir < 0)
        return -errno;
    for (char *rest = copy, *name; (name = strsep(&rest, "/"));) {
        if (!is_plain(name))
            continue;
        int r = is_plain(p->name) ? step_down(p, make ? end : 0) : 0;
        if (r < 0)
            return r;
        strcpy(p->name, name);
        end = (size_t)(name - copy) + strlen(name);
    }
    return 0;
}

/* Takes away the directories that were made for p, the last first; one that something was put into
 * meanwhile stays. Each is found again from the root, without links. */
static void unmake_place(const struct place *p, const char *root)
{
    for (size_t end = strlen(p->path); p->made_from && end >= p->made_from; end--) {
        if (p->path[end] && p->path[end] != '/')
            continue;
        struct place made = {.dir = -1};
        _cleanup_free_ char *path = xstrndup(p->path, end);
        if (find_place(&made, root, path, false) >= 0)
            unlinkat(made.dir, made.name, AT_REMOVEDIR);
        fd_close(&made.dir);
    }
}

static bool extension_ok(const struct place *p)
{
    const char *dot = strrchr(p->name, '.');
    if (!dot)
        return true;
    for (char **e = p->extensions; *e; e++)
        if (strcasecmp(*e, dot) == 0)
            return true;
    return false;
}

static int check_file(const struct place *p)
{
    if (!is_plain(p->name))
        return builtin_failure_code("invalid_request", "'%s' names no file", p->path);
    if (!extension_ok(p))
        return builtin_failure_code("forbidden", "'%s': this extension is not allowed", p->path);
    return 0;
}

static int place_fail(const struct place *p, int errnum)
{
    if (errnum == ELOOP)
        return builtin_failure_code("forbidden", "'%s': links are not followed", p->path);
    return builtin_failure(errnum, "'%s'", p->path);
}

static ssize_t read_up_to(int fd, char *data, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, data + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : (ssize_t)len;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* All of fd, at most max_bytes. NULL after saying what is wrong. */
static char *read_whole(const struct place *p, int fd, size_t *ret_len)
{
    char *data = xcalloc(1, p->max_bytes + 1);
    ssize_t n = read_up_to(fd, data, p->max_bytes + 1);
    if (n >= 0 && (size_t)n <= p->max_bytes) {
        *ret_len = (size_t)n;
        return data;
    }
    free(data);
    if (n < 0)
        place_fail(p, (int)-n);
    else
        builtin_failure_code("too_large", "'%s': over %zu bytes", p->path, p->max_bytes);
    return NULL;
}

/* --- the operations; each returns the exit code */

static int do_read(const struct place *p)
{
    struct stat st;
    size_t len;
    _cleanup_close_ int fd =
        openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return place_fail(p, errno);
    if (S_ISDIR(st.st_mode))
        return place_fail(p, EISDIR);
    if (!S_ISREG(st.st_mode))
        return builtin_failure_code("invalid_request", "'%s': not a regular file", p->path);
    _cleanup_free_ char *data = read_whole(p, fd, &len);
    return !data || fd_write_all(1, data, len) < 0;
}

/* Readers see the old content or the new. */
static int replace_file(const struct place *p, const char *data, size_t len)
{
    char temp[64];
    struct stat st;
    if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -ELOOP;
    snprintf(temp, sizeof(temp), ".mas-%d-%llx", (int)getpid(),
             (unsigned long long)clock_mono_ns());
    _cleanup_close_ int fd =
        openat(p->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, data, len);
    if (r >= 0 && renameat(p->dir, temp, p->dir, p->name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(p->dir, temp, 0);
    return r;
}

static int do_write(const struct place *p)
{
    size_t len;
    _cleanup_free_ char *data = read_whole(p, 0, &len);
    if (!data)
        return 1;
    int r = replace_file(p, data, len);
    if (r < 0)
        return place_fail(p, -r);
    _cleanup_json_ json_t *o = json_pack("{s:I}", "bytes_written", (json_int_t)len);
    return builtin_print(o);
}

static int do_delete(const struct place *p)
{
    struct stat st;
    if (!is_plain(p->name))
        return builtin_failure_code("forbidden", "the root itself is not deleted");
    if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return place_fail(p, errno);
    bool dir = S_ISDIR(st.st_mode);
    if (!dir && check_file(p))
        return 1;
    if (unlinkat(p->dir, p->name, dir ? AT_REMOVEDIR : 0) < 0)
        return place_fail(p, errno);
    _cleanup_json_ json_t *o = json_pack("{s:b}", "deleted", 1);
    return builtin_print(o);
}

static int do_create_dir(const struct place *p)
{
    bool made = is_plain(p->name) && mkdirat(p->dir, p->name, 0755) == 0;
    int errnum = errno;
    if (!made && is_plain(p->name) && errnum != EEXIST)
        return place_fail(p, errnum);
    int fd = enter_place(p->dir, p->name);
    if (fd < 0)
        return place_fail(p, -fd);
    close(fd);
    _cleanup_json_ json_t *o = json_pack("{s:b}", "created", made);
    return builtin_print(o);
}

static json_t *entry_to_json(const char *name, const struct stat *st)
{
    char time[CLOCK_RFC3339_SIZE];
    bool lossy;
    clock_format_rfc3339(st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec, time);
    return json_pack("{s:o, s:s, s:I, s:s}", "name",
                     json_string_from_bytes(name, strlen(name), &lossy), "type",
                     S_ISREG(st->st_mode)   ? "file"
                     : S_ISDIR(st->st_mode) ? "directory"
                     : S_ISLNK(st->st_mode) ? "symlink"
                                            : "other",
                     "size", (json_int_t)st->st_size, "modified", time);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted; takes fd. NULL with errno set on failure. */
static char **read_names(int fd, size_t *ret_n)
{
    DIR *dir = fdopendir(fd);
    size_t n = 0;
    if (!dir) {
        close(fd);
        return NULL;
    }
    char **names = xcalloc(LIST_MAX + 1, sizeof(char *));
    for (struct dirent *e; n < LIST_MAX && (e = readdir(dir));)
        if (is_plain(e->d_name))
            names[n++] = xstrdup(e->d_name);
    closedir(dir);
    qsort(names, n, sizeof(char *), by_name);
    *ret_n = n;
    return names;
}

static int do_list(const struct place *p)
{
    struct stat st;
    size_t n = 0;
    _cleanup_close_ int fd = enter_place(p->dir, p->name);
    if (fd < 0)
        return place_fail(p, -fd);
    _cleanup_strv_ char **names = read_names(fcntl(fd, F_DUPFD_CLOEXEC, 0), &n);
    if (!names)
        return place_fail(p, errno);
    json_t *entries = json_array();
    _cleanup_json_ json_t *o =
        json_pack("{s:o, s:b}", "entries", entries, "truncated", n == LIST_MAX);
    for (size_t i = 0; i < n; i++)
        if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            json_array_append_new(entries, entry_to_json(names[i], &st));
    return builtin_print(o);
}

static const struct operation {
    const char *name;
    int (*run)(const struct place *p);
    int (*check)(const struct place *p); /* before a directory is made; or NULL */
    bool makes_parents;
} operations[] = {{"read", do_read, check_file, false},
                  {"list", do_list, NULL, false},
                  {"write", do_write, check_file, true},
                  {"delete", do_delete, NULL, false},
                  {"create_dir", do_create_dir, NULL, true}};

static int run_operation(const struct operation *o, struct place *p, const char *root,
                         const char *path)
{
    int r = check_names(p, path);
    if (r < 0)
        return place_fail(p, -r);
    if (o->check && o->check(p))
        return 1;
    r = find_place(p, root, path, o->makes_parents);
    int code = r < 0 ? place_fail(p, -r) : o->run(p);
    if (code)
        unmake_place(p, root);
    fd_close(&p->dir);
    return code;
}

int builtin_skill_file(int argc, char **argv)
{
    struct place p = {.dir = -1};
    char *end = NULL;
    if (argc < 5)
        return builtin_failure_code("invalid_request",
                                    "usage: skill-file OPERATION ROOT PATH MAX-BYTES [.EXT]...");
    p.max_bytes = strtoul(argv[4], &end, 10);
    p.extensions = argv + 5;
    for (size_t i = 0; i < ELEMENTS(operations); i++) {
        if (strcmp(operations[i].name, argv[1]) == 0)
            return run_operation(&operations[i], &p, argv[2], argv[3]);
    }
    return builtin_failure_code("invalid_request", "there is no operation '%s'", argv[1]);
}
