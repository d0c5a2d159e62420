/* SPDX-License-Identifier: Apache-2.0 */
/* The file_system tool of the MAS API. The paths a call may touch are also a Landlock domain around
 * this process (SPAWN_NARROW); the check here gives the answer its words. */
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
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/replace-file.h"
#include "toolrunner/tool.h"
#include "toolrunner/tree.h"

#define FILE_SIZE_MAX (10 * 1024 * 1024)

struct request {
    const char *action, *path, *content;
    bool append, recursive;
    char real[PATH_MAX]; /* path with symlinks resolved; its last parts may not exist */
};

/* Resolves the longest part that exists and appends the rest, in which ".." cannot hide. */
static int path_resolve(const char *path, char out[PATH_MAX])
{
    _cleanup_free_ char *head = xstrdup(path);
    size_t len = strlen(head);
    while (len > 1 && head[len - 1] == '/')
        head[--len] = 0;
    if (realpath(head, out))
        return 0;
    if (errno != ENOENT)
        return -errno;
    char *slash = strrchr(head, '/');
    const char *name = slash ? slash + 1 : head;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return -EINVAL;
    _cleanup_free_ char *last = xstrdup(name);
    struct stat st;
    if (lstat(head, &st) == 0)
        return -ELOOP; /* a symlink to nowhere: where it leads cannot be checked */
    if (slash)
        slash[slash == head] = 0;
    char parent[PATH_MAX];
    int r = path_resolve(slash ? head : ".", parent);
    if (r < 0)
        return r;
    int n = snprintf(out, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", last);
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static bool path_inside(const char *path, const char *dir)
{
    char real[PATH_MAX];
    if (path_resolve(dir, real) < 0)
        return false;
    size_t len = strlen(real);
    if (len == 1)
        return true;
    return !strncmp(path, real, len) && (path[len] == 0 || path[len] == '/');
}

static bool path_allowed(const char *path, json_t *allowed)
{
    size_t i;
    json_t *dir;
    if (!allowed)
        return true;
    json_array_foreach(allowed, i, dir)
    {
        if (json_is_string(dir) && path_inside(path, json_string_value(dir)))
            return true;
    }
    return false;
}

static json_t *fail_errno(struct tool_failure *f, const char *what, const char *path, int errnum)
{
    tool_fail(f, "tool_failed", "%s %s: %s", what, path, strerror(errnum));
    if (!f->result)
        f->result = json_pack("{s:b, s:s}", "success", 0, "error", f->message);
    return NULL;
}

static json_t *fail_with(struct tool_failure *f, const char *message)
{
    tool_fail(f, "tool_failed", "%s", message);
    f->result = json_pack("{s:b, s:s}", "success", 0, "error", message);
    return NULL;
}

static json_t *action_read(struct request *q, struct tool_failure *f)
{
    _cleanup_close_ int fd = open(q->real, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_errno(f, "read", q->path, errno);
    if (S_ISDIR(st.st_mode))
        return fail_errno(f, "read", q->path, EISDIR);
    if (!S_ISREG(st.st_mode))
        return fail_with(f, "not a regular file");
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_SIZE_MAX);
    int r = st.st_size > FILE_SIZE_MAX ? -EFBIG : fd_read_file_at(AT_FDCWD, q->real, &b);
    if (r == -EFBIG)
        return fail_with(f, "file too large: the limit is 10 MiB");
    if (r < 0)
        return fail_errno(f, "read", q->path, -r);
    bool lossy;
    json_t *content = json_string_from_bytes(b.data ? b.data : "", b.len, &lossy);
    json_t *result = json_pack("{s:b, s:o}", "success", 1, "content", content);
    if (lossy)
        json_object_set_new(result, "message", json_string("not UTF-8: other bytes became U+FFFD"));
    return result;
}

static int fill_from_text(int fd, void *arg)
{
    return fd_write_all(fd, arg, strlen(arg));
}

/* A device, a fifo or the like stays what it is. */
static int write_special(const char *path, const char *text, size_t len)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd_write_all(fd, text, len);
}

static json_t *action_write(struct request *q, struct tool_failure *f)
{
    size_t len = strlen(q->content);
    struct stat st;
    if (q->append && stat(q->real, &st) == 0 && (size_t)st.st_size + len > FILE_SIZE_MAX)
        len = FILE_SIZE_MAX + 1;
    if (len > FILE_SIZE_MAX)
        return fail_with(f, "file too large: the limit is 10 MiB");
    bool exists = stat(q->real, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return fail_errno(f, "write", q->path, EISDIR);
    if (exists && access(q->real, W_OK) < 0) /* which a replacement would not mind */
        return fail_errno(f, "write", q->path, errno);
    int r;
    if (exists && !S_ISREG(st.st_mode))
        r = write_special(q->real, q->content, len);
    else
        r = (q->append ? append_file : replace_file)(q->real, exists ? st.st_mode & 07777 : 0644,
                                                     fill_from_text, (void *)q->content);
    if (r < 0)
        return fail_errno(f, "write", q->path, -r);
    char message[64];
    snprintf(message, sizeof(message), "%s %zu bytes", q->append ? "appended" : "wrote", len);
    return json_pack("{s:b, s:s}", "success", 1, "message", message);
}

static int add_file(const struct tree_entry *e, void *arg)
{
    char time[CLOCK_RFC3339_SIZE];
    bool lossy;
    clock_format_rfc3339(e->st.st_mtim.tv_sec * 1000000000ll + e->st.st_mtim.tv_nsec, time);
    json_array_append_new(arg, json_pack("{s:o, s:o, s:I, s:b, s:s}", "name",
                                         json_string_from_bytes(e->name, strlen(e->name), &lossy),
                                         "path",
                                         json_string_from_bytes(e->path, strlen(e->path), &lossy),
                                         "size", (json_int_t)e->st.st_size, "is_dir",
                                         S_ISDIR(e->st.st_mode), "mod_time", time));
    return 0;
}

static json_t *action_list(struct request *q, struct tool_failure *f)
{
    json_t *files = json_array();
    json_t *result = json_pack("{s:b, s:o}", "success", 1, "files", files);
    int r = tree_walk(q->real, q->recursive, TREE_ENTRIES_MAX, add_file, files);
    if (r < 0) {
        json_decref(result);
        return fail_errno(f, "list", q->path, -r);
    }
    if (r > 0)
        json_object_set_new(result, "message", json_string("truncated: too many entries"));
    return result;
}

static json_t *action_delete(struct request *q, struct tool_failure *f)
{
    struct stat st;
    if (lstat(q->real, &st) < 0)
        return fail_errno(f, "delete", q->path, errno);
    int r;
    if (q->recursive)
        r = tree_remove(q->real);
    else
        r = (S_ISDIR(st.st_mode) ? rmdir(q->real) : unlink(q->real)) < 0 ? -errno : 0;
    if (r == -ENOTEMPTY && !q->recursive)
        return fail_with(f,
                         "the directory is not empty; with \"recursive\": true all in it goes too");
    if (r < 0)
        return fail_errno(f, "delete", q->path, -r);
    return json_pack("{s:b, s:s}", "success", 1, "message", "deleted");
}

static const struct {
    const char *name;
    json_t *(*run)(struct request *q, struct tool_failure *f);
} actions[] = {
    {"read", action_read},
    {"write", action_write},
    {"list", action_list},
    {"delete", action_delete},
};

static int request_parse(const json_t *args, struct request *q, struct error *err)
{
    if (json_member_string(args, "action", &q->action, err) < 0 ||
        json_member_string(args, "path", &q->path, err) < 0 ||
        json_member_string(args, "content", &q->content, err) < 0 ||
        json_member_bool(args, "append", &q->append, err) < 0 ||
        json_member_bool(args, "recursive", &q->recursive, err) < 0)
        return -EINVAL;
    if (!q->action)
        return error_field(err, "action", "action is required");
    if (!q->path || !*q->path)
        return error_field(err, "path", "path is required");
    return 0;
}

/* A delete means the name itself, also when it is a symlink: only its directory is resolved. */
static int request_resolve(struct request *q)
{
    struct stat st;
    bool is_link = lstat(q->path, &st) == 0 && S_ISLNK(st.st_mode);
    if (strcmp(q->action, "delete") || !is_link)
        return path_resolve(q->path, q->real);
    _cleanup_free_ char *copy = xstrdup(q->path);
    char *slash = strrchr(copy, '/');
    _cleanup_free_ char *name = xstrdup(slash ? slash + 1 : copy);
    if (slash)
        slash[slash == copy] = 0;
    char parent[PATH_MAX];
    int r = path_resolve(slash ? copy : ".", parent);
    if (r < 0)
        return r;
    int n = snprintf(q->real, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", name);
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

json_t *tool_file_system(const json_t *args, json_t *allowed_paths, struct tool_failure *f)
{
    _cleanup_free_ struct request *q = new0(struct request);
    struct error err = {0};
    q->content = "";
    if (request_parse(args, q, &err) < 0)
        return tool_fail(f, "invalid_request", "%s", err.message);
    int r = request_resolve(q);
    if (r < 0 && r != -EACCES)
        return fail_errno(f, q->action, q->path, -r);
    if (r < 0 || !path_allowed(q->real, allowed_paths))
        return tool_fail(f, "policy_denied", "path not allowed");
    for (size_t i = 0; i < ELEMENTS(actions); i++) {
        if (!strcmp(actions[i].name, q->action))
            return actions[i].run(q, f);
    }
    return tool_fail(f, "invalid_request", "unknown action '%.40s'", q->action);
}
