/* SPDX-License-Identifier: Apache-2.0 */
/* sbx status: one sandbox, or a table of all. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int show_one(struct session *s, const char *id, struct sbx_error *err)
{
    struct sbx_sandbox sb;
    if (sbx_sandbox_get(s->client, id, &sb, err) < 0)
        return -1;
    _cleanup_free_ char *name = printable(sb.id);
    _cleanup_free_ char *space = printable(sb.name_space ? sb.name_space : "");
    _cleanup_free_ char *pod = printable(sb.pod_name ? sb.pod_name : "");
    _cleanup_free_ char *phase = printable(sb.phase ? sb.phase : "");
    printf("id=%s namespace=%s pod=%s phase=%s\n", name, space, pod, phase);
    sbx_sandbox_done(&sb);
    return 0;
}

static int show_all(struct session *s, struct sbx_error *err)
{
    static const char *const titles[] = {"ID", "AGE", "STATE", "ALLOCATED", "LAST_EXEC_TIME"};
    _cleanup_json_ json_t *list = NULL;
    if (session_call(s, "GET", "/sandboxes", NULL, &list, err) < 0)
        return -1;
    struct table t;
    table_init(&t, ELEMENTS(titles), titles);
    size_t i;
    json_t *sb;
    json_array_foreach(list, i, sb)
    {
        char *cells[] = {cell(sb, "id"), cell(sb, "age"), cell(sb, "state"), cell(sb, "allocated"),
                         cell(sb, "last_exec_time")};
        table_add(&t, cells);
    }
    table_print(&t);
    return 0;
}

static int run_status(const struct args *a, struct session *s, struct sbx_error *err)
{
    return a->id ? show_one(s, a->id, err) : show_all(s, err);
}

const struct command command_status = {
    .name = "status",
    .group = GROUP_SANDBOX,
    .summary = "Show the state of one sandbox, or a table of all",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION("id", id, "ID", "Show only this sandbox.")),
    .run_connected = run_status,
};
