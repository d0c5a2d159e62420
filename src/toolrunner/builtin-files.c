/* SPDX-License-Identifier: Apache-2.0 */
/* File operations of the native API: fs-read, fs-write, fs-list, fs-stat, fs-mkdir, fs-remove and
 * fs-move. They run as the tool's user, who may do all of this with a shell as well: no check here
 * is a wall. Relative paths start at the working directory. */
#include <ctype.h>
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
#include "base/digits.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/replace-file.h"
#include "toolrunner/tree.h"

#define COPY_SIZE 65536

static int usage_failure(const char *text)
{
    return builtin_failure_code("invalid_request", "usage: %s", text);
}

/* Copies until the end or limit bytes; what is left of these is in *ret_left (may be NULL). */
static int copy_bytes(int from, int to, uint64_t limit, uint64_t *ret_left)
{
    static char chunk[COPY_SIZE];
    while (limit) {
        ssize_t n = read(from, chunk, limit < sizeof(chunk) ? (size_t)limit : sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        int r = fd_write_all(to, chunk, (size_t)n);
        if (r < 0)
            return r;
        limit -= (uint64_t)n;
    }
    if (ret_left)
        *ret_left = limit;
    return 0;
}

/* --- fs-read */

/* Which bytes. In a range (one of HTTP's: "A-B", "A-" or "-N") they are checked against the size.
 */
struct part {
    uint64_t offset, length;
    bool is_range, unsatisfiable;
};

static int range_parse(const char *text, uint64_t size, struct part *p)
{
    char first[24];
    uint64_t a = 0, b = UINT64_MAX;
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : sizeof(first);
    if (n >= sizeof(first) || (n == 0 && !dash[1]))
        return -EINVAL;
    memcpy(first, text, n);
    first[n] = 0;
    if ((n && decimal_parse(first, &a) < 0) || (dash[1] && decimal_parse(dash + 1, &b) < 0))
        return -EINVAL;
    if (n == 0) { /* the last b bytes */
        p->unsatisfiable = b == 0 || size == 0;
        a = b < size ? size - b : 0;
        b = UINT64_MAX;
    } else if (b < a) {
        return -EINVAL;
    } else {
        p->unsatisfiable = a >= size;
    }
    p->is_range = true;
    p->offset = a < size ? a : size; /* any number fits the head's line */
    p->length = b == UINT64_MAX || b >= size ? size - (a < size ? a : size) : b - a + 1;
    return 0;
}

/* Changes whenever the content does, as far as the file's times can tell. */
static void etag_format(const struct stat *st, char out[80])
{
    snprintf(out, 80, "\"%llx-%llx-%llx.%lx\"", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
             (unsigned long)st->st_mtim.tv_nsec);
}

/* Before the bytes, a line about them. Files of /proc have no size: the line does not name one for
 * these, and all there is to read follows. */
static int print_head(const struct stat *st, bool sized, const struct part *p)
{
    char etag[80];
    _cleanup_json_ json_t *o = json_object();
    if (sized) {
        etag_format(st, etag);
        json_object_set_new(o, "size", json_integer((json_int_t)st->st_size));
        json_object_set_new(o, "etag", json_string(etag));
        json_object_set_new(o, "offset", json_integer((json_int_t)p->offset));
        json_object_set_new(o, "length", json_integer((json_int_t)p->length));
        json_object_set_new(o, "range", json_boolean(p->is_range));
        json_object_set_new(o, "unsatisfiable", json_boolean(p->unsatisfiable));
    }
    return builtin_print(o);
}

/* "head" RANGE IF_RANGE: "" where there is none. An If-Range of another content means all of it. */
static int read_with_head(const char *path, int fd, const struct stat *st, struct part *p,
                          char *const *more)
{
    char etag[80];
    uint64_t left = 0, size = (uint64_t)st->st_size;
    char byte;
    bool sized = st->st_size > 0 || pread(fd, &byte, 1, 0) <= 0;
    etag_format(st, etag);
    bool same = !*more[1] || strcmp(more[1], etag) == 0;
    bool range = sized && *more[0] && same && range_parse(more[0], size, p) >= 0;
    if (!range && sized) {
        p->offset = p->offset < size ? p->offset : size;
        p->length = p->length < size - p->offset ? p->length : size - p->offset;
    }
    if (print_head(st, sized, p))
        return 1;
    if (p->unsatisfiable)
        return 0;
    if (p->offset && lseek(fd, (off_t)p->offset, SEEK_SET) < 0)
        return builtin_failure(errno, "%s", path);
    int r = copy_bytes(fd, 1, p->length, &left);
    if (r >= 0 && sized && left)
        return builtin_failure_code("conflict", "%.200s: became shorter while it was read", path);
    return r < 0 ? builtin_failure(-r, "%s", path) : 0;
}

int builtin_fs_read(int argc, char **argv)
{
    struct part p = {.length = UINT64_MAX};
    struct stat st;
    bool head = argc == 7 && !strcmp(argv[4], "head");
    if (argc < 2 || (argc > 4 && !head) || (argc > 2 && decimal_parse(argv[2], &p.offset) < 0) ||
        (argc > 3 && *argv[3] && decimal_parse(argv[3], &p.length) < 0) || p.offset > INT64_MAX)
        return usage_failure("fs-read PATH [OFFSET [LENGTH [head RANGE IF_RANGE]]]");
    _cleanup_close_ int fd = builtin_open_regular(argv[1], &st);
    if (fd < 0)
        return 1;
    if (head)
        return read_with_head(argv[1], fd, &st, &p, (char *const *)argv + 5);
    if (p.offset && lseek(fd, (off_t)p.offset, SEEK_SET) < 0)
        return builtin_failure(errno, "%s", argv[1]);
    int r = copy_bytes(fd, 1, p.length, NULL);
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

static int fill_from_stdin(int fd, void *arg)
{
    (void)arg;
    return copy_bytes(0, fd, UINT64_MAX, NULL);
}

int builtin_fs_write(int argc, char **argv)
{
    char *end;
    if (argc != 4 || (strcmp(argv[3], "append") && strcmp(argv[3], "truncate")))
        return usage_failure("fs-write PATH MODE append|truncate");
    unsigned long mode = strtoul(argv[2], &end, 8);
    if (end == argv[2] || *end || mode > 07777)
        return usage_failure("fs-write PATH MODE append|truncate");
    if (!path_names_entry(argv[1]))
        return builtin_failure_code("invalid_request", "'%.200s' names no file", argv[1]);
    int r = path_check_length(argv[1]);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
    r = (argv[3][0] == 'a' ? append_file : replace_file)(argv[1], (mode_t)mode, fill_from_stdin,
                                                         NULL);
    if (r == -EINVAL)
        return builtin_failure_code("invalid_request", "%s: not a regular file", argv[1]);
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

static const char *type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    case S_IFIFO:
        return "fifo";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static json_t *text_to_json(const char *text)
{
    bool lossy;
    return json_string_from_bytes(text, strlen(text), &lossy);
}

/* A path that is not UTF-8 shows with U+FFFD, by which it cannot be named: so it is printed a
 * second time, in the form that a query takes. */
static void add_encoded(json_t *entry, const char *path)
{
    bool lossy;
    json_decref(json_string_from_bytes(path, strlen(path), &lossy));
    if (!lossy)
        return;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(3 * strlen(path) + 1);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        bool plain = isalnum(*p) || strchr("/-._~", *p);
        strbuf_printf(&b, plain && *p < 0x80 ? "%c" : "%%%02X", *p);
    }
    json_object_set_new(entry, "path_encoded", json_string(b.data));
}

static json_t *entry_to_json(int dir_fd, const char *name, const char *path, const char *shown,
                             const struct stat *st)
{
    char time[CLOCK_RFC3339_SIZE], mode[8], target[PATH_MAX];
    clock_format_rfc3339(st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec, time);
    snprintf(mode, sizeof(mode), "%04o", (unsigned)st->st_mode & 07777);
    json_t *o = json_pack("{s:o, s:o, s:s, s:I, s:s, s:s}", "name", text_to_json(name), "path",
                          text_to_json(path), "type", type_name(st->st_mode), "size",
                          (json_int_t)st->st_size, "mode", mode, "mod_time", time);
    ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir_fd, shown, target, sizeof(target) - 1) : -1;
    if (n >= 0) {
        target[n] = 0;
        json_object_set_new(o, "target", text_to_json(target));
    }
    add_encoded(o, path);
    return o;
}

struct listing {
    json_t *entries;
    bool recursive;
};

/* What is in a directory that may not be read is not listed, and the answer says so. */
static int list_one(const struct tree_entry *e, void *arg)
{
    struct listing *l = arg;
    json_t *entry = entry_to_json(e->dirfd, e->name, e->path, e->name, &e->st);
    if (l->recursive && S_ISDIR(e->st.st_mode) && faccessat(e->dirfd, e->name, R_OK | X_OK, 0) < 0)
        json_object_set_new(entry, "unreadable", json_true());
    json_array_append_new(l->entries, entry);
    return 0;
}

int builtin_fs_list(int argc, char **argv)
{
    bool recursive = argc == 3 && !strcmp(argv[2], "recursive");
    if (argc != 2 && !recursive)
        return usage_failure("fs-list PATH [recursive]");
    struct listing l = {json_array(), recursive};
    _cleanup_json_ json_t *o = json_pack("{s:o}", "entries", l.entries);
    int r = tree_walk(argv[1], recursive, TREE_ENTRIES_MAX, list_one, &l);
    if (r == -ENOTDIR)
        return builtin_failure_code("conflict", "%s: not a directory", argv[1]);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
    json_object_set_new(o, "truncated", json_boolean(r > 0));
    return builtin_print(o);
}

int builtin_fs_stat(int argc, char **argv)
{
    struct stat st;
    if (argc != 2)
        return usage_failure("fs-stat PATH");
    if (lstat(argv[1], &st) < 0)
        return builtin_failure(errno, "%s", argv[1]);
    const char *slash = strrchr(argv[1], '/');
    const char *name = slash && slash[1] ? slash + 1 : argv[1];
    _cleanup_json_ json_t *o = entry_to_json(AT_FDCWD, name, argv[1], argv[1], &st);
    return builtin_print(o);
}

int builtin_fs_mkdir(int argc, char **argv)
{
    struct stat st;
    _cleanup_made_ struct tree_made made = {0};
    bool parents = argc == 3 && !strcmp(argv[2], "parents");
    if (argc != 2 && !parents)
        return usage_failure("fs-mkdir PATH [parents]");
    int r = parents ? tree_make_parents(argv[1], 0755, &made) : 0;
    if (r >= 0 && mkdir(argv[1], 0755) < 0)
        r = -errno;
    if (r == -EEXIST && parents && stat(argv[1], &st) == 0 && S_ISDIR(st.st_mode))
        r = 0;
    if (r < 0)
        tree_unmake(&made);
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

int builtin_fs_remove(int argc, char **argv)
{
    struct stat st;
    bool recursive = argc == 3 && !strcmp(argv[2], "recursive");
    if (argc != 2 && !recursive)
        return usage_failure("fs-remove PATH [recursive]");
    if (lstat(argv[1], &st) < 0)
        return builtin_failure(errno, "%s", argv[1]);
    int r = 0;
    if (recursive && S_ISDIR(st.st_mode))
        r = tree_remove(argv[1]);
    else if ((S_ISDIR(st.st_mode) ? rmdir(argv[1]) : unlink(argv[1])) < 0)
        r = -errno;
    if (r == -EINVAL)
        return builtin_failure_code("invalid_request",
                                    "'%.200s' does not end in the name of what is to be removed",
                                    argv[1]);
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

/* Whether the directory that path is in lets its name go. */
static int check_removable(const char *path)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* A rename that cannot be one, because the places are on different mounts. */
static int move_by_copy(const char *from, const char *to)
{
    struct stat st;
    int r = check_removable(from); /* before there is a copy of it */
    if (r < 0)
        return r;
    _cleanup_close_ int source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (source < 0 || fstat(source, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EXDEV;
    _cleanup_free_ char *temp = xasprintf("%s.mas-XXXXXX", to);
    _cleanup_close_ int target = mkostemp(temp, O_CLOEXEC);
    if (target < 0)
        return -errno;
    r = copy_bytes(source, target, UINT64_MAX, NULL);
    if (r >= 0 && (fchmod(target, st.st_mode & 0777) < 0 || rename(temp, to) < 0))
        r = -errno;
    if (r < 0) {
        unlink(temp);
        return r;
    }
    return unlink(from) < 0 ? -errno : 0;
}

int builtin_fs_move(int argc, char **argv)
{
    if (argc != 3)
        return usage_failure("fs-move FROM TO");
    int r = rename(argv[1], argv[2]) < 0 ? -errno : 0;
    if (r == -EXDEV)
        r = move_by_copy(argv[1], argv[2]);
    if (r == -EXDEV)
        return builtin_failure_code("conflict", "%s: only files can be moved between mounts",
                                    argv[1]);
    if (r == -EINVAL)
        return builtin_failure_code("invalid_request",
                                    "%s: a directory cannot be moved into itself", argv[1]);
    return r < 0 ? builtin_failure(-r, "%s to %s", argv[1], argv[2]) : 0;
}
