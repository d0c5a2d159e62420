/* SPDX-License-Identifier: Apache-2.0 */
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

#define LINKS_MAX 40 /* as the kernel's */

/* A walk over the components of a path. place is absolute and without links. */
struct walk {
    char place[PATH_MAX];
    char rest[PATH_MAX]; /* what is still to be walked */
    int links;           /* followed so far */
    bool missing;        /* place is not there, nor is what comes below it */
};

/* Puts a link's target before the rest. */
static int walk_link(struct walk *w, const char *link)
{
    char target[PATH_MAX], next[2 * PATH_MAX];
    ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    target[n] = 0;
    if (target[0] == '/')
        strcpy(w->place, "/");
    n = snprintf(next, sizeof(next), "%s/%s", target, w->rest);
    if ((size_t)n >= sizeof(w->rest))
        return -ENAMETOOLONG;
    memcpy(w->rest, next, (size_t)n + 1);
    return 0;
}

/* "." and "..", which are only of a directory that is there. */
static int walk_dots(struct walk *w, bool up)
{
    struct stat st;
    if (w->missing || lstat(w->place, &st) < 0)
        return -ENOENT;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    char *slash = strrchr(w->place, '/');
    if (up)
        slash[slash == w->place] = 0;
    return 0;
}

/* The first component of the rest; a link is followed unless it is the last and follow is false. */
static int walk_step(struct walk *w, bool follow)
{
    char next[PATH_MAX];
    struct stat st;
    size_t len = strcspn(w->rest, "/");
    const char *tail = w->rest + len + strspn(w->rest + len, "/");
    if (len > NAME_MAX)
        return -ENAMETOOLONG;
    int n = snprintf(next, PATH_MAX, "%s%s%.*s", w->place, strcmp(w->place, "/") ? "/" : "",
                     (int)len, w->rest);
    bool up = len == 2 && memcmp(w->rest, "..", 2) == 0;
    bool dots = up || (len == 1 && w->rest[0] == '.');
    memmove(w->rest, tail, strlen(tail) + 1);
    if (len == 0)
        return 0;
    if (dots)
        return walk_dots(w, up);
    if (n >= PATH_MAX)
        return -ENAMETOOLONG;
    w->missing = w->missing || lstat(next, &st) < 0;
    if (!w->missing && S_ISLNK(st.st_mode) && (follow || *w->rest))
        return walk_link(w, next);
    strcpy(w->place, next);
    return 0;
}

/* Components that are missing stay as they are named: what would be made. Each step shortens the
 * rest or follows a link, so that it ends. */
static int resolve_path(const char *path, bool follow, char out[PATH_MAX])
{
    struct walk w = {.place = "/"};
    if (!*path || strlen(path) >= PATH_MAX)
        return *path ? -ENAMETOOLONG : -ENOENT;
    strcpy(w.rest, path);
    if (*path != '/' && !getcwd(w.place, sizeof(w.place)))
        return -errno;
    if (w.place[0] != '/')
        return -ENOENT; /* a working directory that the root does not lead to */
    while (*w.rest) {
        int r = walk_step(&w, follow);
        if (r < 0)
            return r;
    }
    memcpy(out, w.place, PATH_MAX);
    return 0;
}

/* What is read, be it there or not; for a write the nearest directory there is, because what is
 * missing below it would be made. */
static void find_anchor(const char *resolved, bool write, char out[PATH_MAX])
{
    struct stat st;
    memcpy(out, resolved, PATH_MAX);
    if (!write)
        return;
    do {
        char *slash = strrchr(out, '/');
        slash[slash == out] = 0;
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
        int r = resolve_path(argv[i], argv[1][0] != 'l', path);
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
