/* File operations of the native API: fs-read, fs-write, fs-list, fs-stat, fs-mkdir, fs-remove and
 * fs-move. They run as the tool's user, who may do all of this with a shell as well: no check here
 * is a wall. Relative paths start at the working directory. */
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
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/replace-file.h"
#include "toolrunner/tree.h"

#define COPY_SIZE 65536

static int usage_failure(const char *text)
{
    return builtin_failure_code("invalid_request", "usage: %s", text);
}

/* Copies until the end or limit bytes. */
static int copy(int from, int to, uint64_t limit)
{
    static char chunk[COPY_SIZE];
    while (limit) {
        ssize_t n = read(from, chunk, limit < sizeof(chunk) ? (size_t)limit : sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, chunk, (size_t)n);
        if (r < 0)
            return r;
        limit -= (uint64_t)n;
    }
    return 0;
}

int builtin_fs_read(int argc, char **argv)
{
    uint64_t offset = 0, length = UINT64_MAX;
    if (argc < 2 || argc > 4 || (argc > 2 && decimal_parse(argv[2], &offset) < 0) ||
        (argc > 3 && decimal_parse(argv[3], &length) < 0) || offset > INT64_MAX)
        return usage_failure("fs-read PATH [OFFSET [LENGTH]]");
    _cleanup_close_ int fd = builtin_open_regular(argv[1], NULL);
    if (fd < 0)
        return 1;
    if (offset && lseek(fd, (off_t)offset, SEEK_SET) < 0)
        return builtin_failure(errno, "%s", argv[1]);
    int r = copy(fd, 1, length);
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

static int append_stdin(const char *path, mode_t mode)
{
    _cleanup_close_ int fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_APPEND, mode);
    return fd < 0 ? -errno : copy(0, fd, UINT64_MAX);
}

static int fill_from_stdin(int fd, void *arg)
{
    (void)arg;
    return copy(0, fd, UINT64_MAX);
}

int builtin_fs_write(int argc, char **argv)
{
    char real[PATH_MAX], *end;
    struct stat st;
    if (argc != 4 || (strcmp(argv[3], "append") && strcmp(argv[3], "truncate")))
        return usage_failure("fs-write PATH MODE append|truncate");
    unsigned long mode = strtoul(argv[2], &end, 8);
    if (end == argv[2] || *end || mode > 07777)
        return usage_failure("fs-write PATH MODE append|truncate");
    int r = tree_make_parents(argv[1], 0755);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
    const char *path = replace_target(argv[1], real);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return builtin_failure(EISDIR, "%s", argv[1]);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return builtin_failure_code("invalid_request", "%s: not a regular file", argv[1]);
    if (!*argv[1] || argv[1][strlen(argv[1]) - 1] == '/')
        return builtin_failure_code("invalid_request", "'%s' names no file", argv[1]);
    if (argv[3][0] == 'a')
        r = append_stdin(path, (mode_t)mode);
    else
        r = replace_file(path, (mode_t)mode, fill_from_stdin, NULL);
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
    return o;
}

static int list_one(const struct tree_entry *e, void *arg)
{
    json_array_append_new(arg, entry_to_json(e->dirfd, e->name, e->path, e->name, &e->st));
    return 0;
}

int builtin_fs_list(int argc, char **argv)
{
    bool recursive = argc == 3 && !strcmp(argv[2], "recursive");
    if (argc != 2 && !recursive)
        return usage_failure("fs-list PATH [recursive]");
    json_t *entries = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "entries", entries);
    int r = tree_walk(argv[1], recursive, TREE_ENTRIES_MAX, list_one, entries);
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
    bool parents = argc == 3 && !strcmp(argv[2], "parents");
    if (argc != 2 && !parents)
        return usage_failure("fs-mkdir PATH [parents]");
    int r = parents ? tree_make_parents(argv[1], 0755) : 0;
    if (r >= 0 && mkdir(argv[1], 0755) < 0)
        r = -errno;
    if (r == -EEXIST && parents && stat(argv[1], &st) == 0 && S_ISDIR(st.st_mode))
        r = 0;
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
    if (recursive)
        r = tree_remove(argv[1]);
    else if ((S_ISDIR(st.st_mode) ? rmdir(argv[1]) : unlink(argv[1])) < 0)
        r = -errno;
    return r < 0 ? builtin_failure(-r, "%s", argv[1]) : 0;
}

/* A rename that cannot be one, because the places are on different mounts. */
static int move_by_copy(const char *from, const char *to)
{
    struct stat st;
    _cleanup_close_ int source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (source < 0 || fstat(source, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EXDEV;
    _cleanup_free_ char *temp = xasprintf("%s.mas-XXXXXX", to);
    _cleanup_close_ int target = mkostemp(temp, O_CLOEXEC);
    if (target < 0)
        return -errno;
    int r = copy(source, target, UINT64_MAX);
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
    return r < 0 ? builtin_failure(-r, "%s to %s", argv[1], argv[2]) : 0;
}
