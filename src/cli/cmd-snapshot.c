/* SPDX-License-Identifier: Apache-2.0 */
/* sbx snapshot, sbx fork, sbx restore: keep a sandbox as it is, copy it, put it back. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define MEGABYTES 1e6

static int print_answer(const json_t *answer)
{
    print_json(answer, JSON_INDENT(2));
    return 0;
}

static char *size_cell(const json_t *snapshot)
{
    return xasprintf("%.1f MB",
                     (double)json_integer_value(json_object_get(snapshot, "bytes")) / MEGABYTES);
}

static int snapshot_create(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL, *body = json_pack("{s:s}", "name", a->rest[0]);
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/snapshot", a->id);
    if (session_call(s, "POST", path, body, &answer, err) < 0)
        return -1;
    if (a->json)
        return print_answer(answer);
    _cleanup_free_ char *name = cell(answer, "name"), *size = size_cell(answer);
    printf("%s (%s)\n", name, size);
    return 0;
}

static int snapshot_ls(const struct args *a, struct session *s, struct sbx_error *err)
{
    static const char *const titles[] = {"NAME", "SANDBOX", "RUNTIME", "SIZE", "CREATED", "OWNER"};
    _cleanup_json_ json_t *answer = NULL;
    struct table t;
    size_t i;
    json_t *k;
    if (session_call(s, "GET", "/v1/snapshots", NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        return print_answer(answer);
    table_init(&t, ELEMENTS(titles), titles);
    json_array_foreach(json_object_get(answer, "snapshots"), i, k)
    {
        char *cells[] = {cell(k, "name"), cell(k, "sandbox"),    cell(k, "runtime"),
                         size_cell(k),    cell(k, "created_at"), cell(k, "owner")};
        table_add(&t, cells);
    }
    table_print(&t);
    return 0;
}

static int snapshot_rm(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    _cleanup_free_ char *path =
        a->owner ? sbx_path_format("/v1/snapshots/%s?owner=%s", a->rest[0], a->owner)
                 : sbx_path_format("/v1/snapshots/%s", a->rest[0]);
    return session_call(s, "DELETE", path, NULL, &answer, err) < 0 ? -1 : (puts("deleted"), 0);
}

static int run_fork(const struct args *a, struct session *s, struct sbx_error *err)
{
    size_t i;
    json_t *copy;
    _cleanup_json_ json_t *answer = NULL;
    _cleanup_json_ json_t *body =
        json_pack("{s:I}", "count", (json_int_t)(a->count ? a->count : 1));
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/fork", a->id);
    if (session_call(s, "POST", path, body, &answer, err) < 0)
        return -1;
    if (a->json)
        return print_answer(answer);
    json_array_foreach(json_object_get(answer, "sandboxes"), i, copy)
    {
        _cleanup_free_ char *id = cell(copy, "id");
        printf("id=%s\n", id);
    }
    return 0;
}

static int run_restore(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL, *body = json_pack("{s:s}", "snapshot", a->rest[0]);
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/restore", a->id);
    return session_call(s, "POST", path, body, &answer, err) < 0 ? -1 : (puts("restored"), 0);
}

static const struct command snapshot_commands[] = {
    {.name = "snapshot create",
     .usage = "NAME",
     .summary = "Keep a sandbox as it is now",
     .details = "Files, processes and their memory are kept; the sandbox goes on. Only virtual "
                "machines can be kept.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = snapshot_create},
    {.name = "snapshot ls",
     .summary = "List the snapshots that the daemon keeps",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = snapshot_ls},
    {.name = "snapshot rm",
     .usage = "NAME",
     .summary = "Remove a snapshot",
     .details = "A key that may see all sandboxes can remove those of every key, also of one that "
                "was revoked.",
     .options =
         OPTIONS(OPTIONS_CONNECTION,
                 OPTION("owner", owner, "KEY",
                        "The key whose snapshot it is, as 'snapshot ls' shows it; '' for one that "
                        "was made before there was a key. Needed where several have that name.")),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = snapshot_rm},
    {0}};

const struct command command_snapshot = {
    .name = "snapshot",
    .group = GROUP_SANDBOX,
    .summary = "Keep sandboxes as they are, list and remove what is kept",
    .commands = snapshot_commands,
};

const struct command command_fork = {
    .name = "fork",
    .group = GROUP_SANDBOX,
    .summary = "Make copies of a sandbox as it is now, and print their ids",
    .options =
        OPTIONS(OPTIONS_CONNECTION, OPTION_ID,
                OPTION("count", count, "N", "How many copies; the default is 1."), OPTION_JSON),
    .run_connected = run_fork,
};

const struct command command_restore = {
    .name = "restore",
    .usage = "NAME",
    .group = GROUP_SANDBOX,
    .summary = "Put a sandbox back to what a snapshot has",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID),
    .min_rest = 1,
    .max_rest = 1,
    .run_connected = run_restore,
};
