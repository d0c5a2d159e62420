/* fs-resolve r|w|l PATH...: where an operation on each path would really happen. r reads what the
 * path leads to, w writes there, l works on a link itself. Answers the path without links and the
 * place that the operation may be held to: what is read, or the directory that is written in; and
 * whether it is a directory. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"

#define LINKS_MAX 40

/* Directory and last name of a path without a trailing slash. */
static void split(const char *path, char dir[PATH_MAX], char name[NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : path);
    if (!slash)
        strcpy(dir, ".");
    else
        snprintf(dir, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static int join(const char *dir, const char *name, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s%s%s", dir, strcmp(dir, "/") ? "/" : "", name);
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int resolve(const char *path, bool follow, int depth, char out[PATH_MAX]);

/* A link that leads to nothing: what would be made through it. */
static int resolve_link(const char *dir, const char *path, int depth, char out[PATH_MAX])
{
    char target[PATH_MAX], next[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n < 0 || depth == LINKS_MAX)
        return n < 0 ? -errno : -ELOOP;
    target[n] = 0;
    if (target[0] == '/')
        return resolve(target, true, depth + 1, out);
    int r = join(dir, target, next);
    return r < 0 ? r : resolve(next, true, depth + 1, out);
}

static int resolve(const char *path, bool follow, int depth, char out[PATH_MAX])
{
    char copy[PATH_MAX], dir[PATH_MAX], name[NAME_MAX + 1], real[PATH_MAX];
    struct stat st;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len == 0 || len >= PATH_MAX || depth > LINKS_MAX)
        return -ENAMETOOLONG;
    memcpy(copy, path, len);
    copy[len] = 0;
    if (follow && realpath(copy, out))
        return 0;
    split(copy, dir, name);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return realpath(copy, out) ? 0 : -errno;
    int r = resolve(dir, true, depth + 1, real);
    if (r < 0)
        return r;
    r = join(real, name, out);
    if (r >= 0 && follow && lstat(out, &st) == 0 && S_ISLNK(st.st_mode)) {
        memcpy(copy, out, PATH_MAX);
        return resolve_link(real, copy, depth, out);
    }
    return r;
}

/* What is read, be it there or not; for a write the nearest directory there is, because what is
 * missing below it would be made. */
static void find_anchor(const char *resolved, bool write, char out[PATH_MAX])
{
    struct stat st;
    char name[NAME_MAX + 1], dir[PATH_MAX];
    memcpy(out, resolved, PATH_MAX);
    if (!write)
        return;
    do {
        split(out, dir, name);
        memcpy(out, dir, PATH_MAX);
    } while (strcmp(out, "/") != 0 && lstat(out, &st) < 0);
}

int builtin_fs_resolve(int argc, char **argv)
{
    char path[PATH_MAX], anchor[PATH_MAX];
    if (argc < 3 || strlen(argv[1]) != 1 || !strchr("rwl", argv[1][0]))
        return builtin_failure_code("invalid_request", "usage: fs-resolve r|w|l PATH...");
    json_t *list = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "paths", list);
    for (int i = 2; i < argc; i++) {
        bool lossy[2];
        int r = resolve(argv[i], argv[1][0] != 'l', 0, path);
        if (r < 0)
            return builtin_failure(-r, "%s", argv[i]);
        find_anchor(path, argv[1][0] != 'r', anchor);
        struct stat st;
        bool is_dir = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
        json_t *entry = json_pack("{s:b, s:o, s:o}", "directory", is_dir, "path",
                                  json_string_from_bytes(path, strlen(path), &lossy[0]), "anchor",
                                  json_string_from_bytes(anchor, strlen(anchor), &lossy[1]));
        if (lossy[0] || lossy[1]) {
            json_decref(entry);
            return builtin_failure_code("invalid_request", "%s: leads to a name that is not UTF-8",
                                        argv[i]);
        }
        json_array_append_new(list, entry);
    }
    return builtin_print(o);
}
