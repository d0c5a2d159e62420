/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths a call reaches: those of the runner's file operations, of the tool file_system, and
 * of files that are written before a command. Here they are as the caller gave them; where they
 * lead is found out inside the sandbox (run-resolve.c). */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "tool/run-internal.h"

#define PATH_TEXT_MAX 65536
#define WORKDIR       "/workspace"

enum reach {
    REACH_WRITE = 1,         /* else it is read */
    REACH_TREE = 2,          /* and all that is below it, where it is a directory */
    REACH_TREE_IF_ASKED = 4, /* the same, where the last argument is "recursive" */
};

/* What each operation does with which of its arguments. What it both reads and writes is there
 * twice: a rule about either of them concerns it. */
static const struct operation {
    const char *name;
    char mode; /* how it treats a link at the end of its path, as fs-resolve has it */
    struct {
        int arg; /* 0 ends the list */
        unsigned reach;
    } paths[3];
} operations[] = {
    {"fs-read", 'r', {{1, 0}}},
    {"fs-lines", 'r', {{1, 0}}},
    {"fs-list", 'r', {{1, 0}}},
    {"fs-stat", 'l', {{1, 0}}},
    {"fs-search", 'r', {{1, REACH_TREE}}},
    {"fs-write", 'w', {{1, REACH_WRITE}}},
    {"fs-edit", 'w', {{1, 0}, {1, REACH_WRITE}}},
    {"fs-mkdir", 'w', {{1, REACH_WRITE}}},
    {"fs-remove", 'l', {{1, REACH_WRITE | REACH_TREE_IF_ASKED}}},
    {"fs-move",
     'l',
     {{1, REACH_TREE}, {1, REACH_WRITE | REACH_TREE}, {2, REACH_WRITE | REACH_TREE}}},
    {"tar-create", 'r', {{1, REACH_TREE}}},
    {"tar-extract", 'w', {{1, REACH_WRITE}}}, /* what is below is in the archive (run-names.c) */
};

static const struct operation *find_operation(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

/* Absolute, without ".", ".." and doubled slashes; links are not looked at. */
static char *normalize_path(const char *cwd, const char *path)
{
    struct strbuf b = STRBUF_INIT(PATH_TEXT_MAX);
    _cleanup_free_ char *whole = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", cwd, path);
    for (const char *p = whole; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (b.len && b.data[--b.len] != '/')
                ;
            if (b.data)
                b.data[b.len] = 0;
        } else if (n && !(n == 1 && p[0] == '.')) {
            strbuf_puts(&b, "/");
            strbuf_append(&b, p, n);
        }
        p += n;
    }
    if (!b.len)
        strbuf_puts(&b, "/");
    return strbuf_steal(&b);
}

struct path_list {
    struct rules_path *paths;
    size_t n;
};

static void add_path(struct path_list *l, const char *cwd, const char *path, bool write)
{
    if (path)
        l->paths[l->n++] =
            (struct rules_path){.path = normalize_path(cwd ? cwd : WORKDIR, path), .write = write};
}

static const char *tool_action(const struct gate_call *call)
{
    if (strcmp(call->tool, "file_system") != 0)
        return NULL;
    return json_string_value(json_object_get(call->args, "action"));
}

static const char *tool_path(const struct gate_call *call)
{
    return json_string_value(json_object_get(call->args, "path"));
}

static char tool_mode(const struct gate_call *call)
{
    const char *action = tool_action(call);
    if (!action || !tool_path(call))
        return 0;
    return strcmp(action, "read") == 0 || strcmp(action, "list") == 0 ? 'r'
           : strcmp(action, "delete") == 0                            ? 'l'
                                                                      : 'w';
}

/* Rules cannot deny what they are not shown, so a call with more paths than there is room for is
 * refused. */
int run_paths_fill(struct run *run, const char *workdir, struct error *err)
{
    struct gate_call *c = &run->call;
    struct rules_path *given = (struct rules_path *)c->paths;
    size_t most = run->n_files + c->n_paths + ELEMENTS(operations[0].paths) + 1;
    if (most > RUN_PATHS_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "a call that names %zu paths is too large",
                         run->n_files + c->n_paths);
    struct path_list l = {xcalloc(most, sizeof(*l.paths)), 0};
    for (size_t i = 0; i < c->n_paths; i++) {
        add_path(&l, c->cwd, given[i].path, given[i].write);
        free((char *)given[i].path);
    }
    free(given);
    /* They are written where the sandbox starts its commands, whatever directory this one has. */
    for (size_t i = 0; i < run->n_files; i++)
        add_path(&l, workdir, run->files[i].path, true);
    if (run->spec.builtin) {
        /* An operation that is not in the table names no path (tar-names, for one). */
        const struct operation *o = find_operation(run->spec.argv[0]);
        size_t n_args = strv_length(run->spec.argv);
        for (size_t i = 0; o && i < ELEMENTS(o->paths) && o->paths[i].arg; i++)
            if ((size_t)o->paths[i].arg < n_args)
                add_path(&l, c->cwd, run->spec.argv[o->paths[i].arg],
                         o->paths[i].reach & REACH_WRITE);
    }
    if (tool_action(c))
        add_path(&l, c->cwd, tool_path(c), tool_mode(c) != 'r');
    c->paths = l.paths;
    c->n_paths = run->n_given = l.n;
    return 0;
}

char run_paths_mode(const struct run *run)
{
    if (run->n_files)
        return 'w';
    if (!run->spec.builtin)
        return 0;
    const struct operation *o = find_operation(run->spec.argv[0]);
    /* The file skill follows no links by itself. */
    return o ? o->mode : tool_mode(&run->call);
}

const char *run_paths_given(const struct run *run, size_t i)
{
    if (run->n_files)
        return i < run->n_files ? run->files[i].path : NULL;
    const struct operation *o = find_operation(run->spec.argv[0]);
    if (o && i < ELEMENTS(o->paths) && o->paths[i].arg)
        return run->spec.argv[o->paths[i].arg];
    return o || i ? NULL : tool_path(&run->call);
}

bool run_paths_has_tree(const struct run *run, size_t i)
{
    const struct operation *o = run->n_files ? NULL : find_operation(run->spec.argv[0]);
    size_t n = strv_length(run->spec.argv);
    if (!o)
        return run_paths_mode(run) == 'l' &&
               json_is_true(json_object_get(run->call.args, "recursive"));
    if (i >= ELEMENTS(o->paths))
        return false;
    return o->paths[i].reach & REACH_TREE || (o->paths[i].reach & REACH_TREE_IF_ASKED &&
                                              strcmp(run->spec.argv[n - 1], "recursive") == 0);
}
