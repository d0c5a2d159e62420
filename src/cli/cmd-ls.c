/* SPDX-License-Identifier: Apache-2.0 */
/* sbx ls: sandboxes, or files of one. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/transfer.h"
#include "libsbx/sbx.h"

#define PAGE_SIZE "100"

static int list_sandboxes(struct session *s, bool as_json, struct sbx_error *err)
{
    static const char *const titles[] = {"ID", "RUNTIME", "STATE", "CREATED"};
    struct table t;
    table_init(&t, ELEMENTS(titles), titles);
    _cleanup_json_ json_t *all = json_array();
    _cleanup_free_ char *cursor = xstrdup("");
    int r;
    do {
        _cleanup_free_ char *path =
            sbx_path_format(*cursor ? "/v1/sandboxes?limit=" PAGE_SIZE "&cursor=%s"
                                    : "/v1/sandboxes?limit=" PAGE_SIZE "%s",
                            cursor);
        _cleanup_json_ json_t *page = NULL;
        r = session_call(s, "GET", path, NULL, &page, err);
        if (r < 0)
            break;
        size_t i;
        json_t *sb;
        json_array_foreach(json_object_get(page, "sandboxes"), i, sb)
        {
            char *cells[] = {cell(sb, "id"), cell(sb, "runtime"), cell(sb, "state"),
                             cell(sb, "created_at")};
            table_add(&t, cells);
        }
        json_array_extend(all, json_object_get(page, "sandboxes"));
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        free(cursor);
        cursor = xstrdup(next ? next : "");
    } while (*cursor);
    if (r == 0 && as_json)
        print_json(all, JSON_INDENT(2));
    else if (r == 0)
        table_print(&t);
    return r;
}

/* As 'ls -F' would: "name/" for a directory, "name -> target" for a link. */
static char *shown_name(const json_t *f, bool whole_path)
{
    _cleanup_free_ char *name = cell(f, whole_path ? "path" : "name"), *type = cell(f, "type"),
                        *target = cell(f, "target");
    if (strcmp(type, "symlink") == 0)
        return xasprintf("%s -> %s", name, target);
    return xasprintf("%s%s", name, strcmp(type, "directory") == 0 ? "/" : "");
}

static void print_files(const json_t *answer, bool whole_paths)
{
    static const char *const titles[] = {"MODE", "SIZE", "MODIFIED", "NAME"};
    struct table t;
    table_init(&t, ELEMENTS(titles), titles);
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(answer, "entries"), i, f)
    {
        char *cells[] = {cell(f, "mode"), cell(f, "size"), cell(f, "mod_time"),
                         shown_name(f, whole_paths)};
        table_add(&t, cells);
    }
    table_print(&t);
    if (json_is_true(json_object_get(answer, "truncated")))
        cli_warn("there are more files than the daemon lists");
}

static int list_files(struct session *s, const struct remote *r, const struct args *a,
                      struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/files?path=%s&recursive=%s",
                                                r->id, r->path, a->recursive ? "1" : "0");
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "GET", path, NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        print_json(json_object_get(answer, "entries"), JSON_INDENT(2));
    else
        print_files(answer, a->recursive);
    return 0;
}

static int run_ls(const struct args *a, struct session *s, struct sbx_error *err)
{
    if (!a->n_rest)
        return list_sandboxes(s, a->json, err);
    _cleanup_remote_ struct remote r = {0};
    if (!remote_parse(a->rest[0], &r)) {
        r.id = xstrdup(a->rest[0]);
        r.path = transfer_remote_path("");
        r.relative = true;
    }
    return remote_settle(s, &r, err) < 0 ? -1 : list_files(s, &r, a, err);
}

const struct command command_ls = {
    .name = "ls",
    .group = GROUP_EVERYDAY,
    .usage = "[ID[:PATH]]",
    .summary = "List all sandboxes, or the files in one",
    .options = OPTIONS(OPTIONS_CONNECTION,
                       OPTION("r", recursive, NULL, "List what is in directories, too."),
                       OPTION_JSON, OPTION_APPROVAL),
    .max_rest = 1,
    .run_connected = run_ls,
};
