/* sbx status: one sandbox, or a table of all. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int show_one(struct session *s, const char *id)
{
    struct sbx_error err;
    struct sbx_sandbox sb;
    if (sbx_sandbox_get(s->client, id, &sb, &err) < 0)
        return cli_fail(&err);
    _cleanup_free_ char *name = printable(sb.id);
    _cleanup_free_ char *space = printable(sb.name_space ? sb.name_space : "");
    _cleanup_free_ char *pod = printable(sb.pod_name ? sb.pod_name : "");
    _cleanup_free_ char *phase = printable(sb.phase ? sb.phase : "");
    printf("id=%s namespace=%s pod=%s phase=%s\n", name, space, pod, phase);
    sbx_sandbox_done(&sb);
    return 0;
}

static int show_all(struct session *s)
{
    static const char *const titles[] = {"ID", "AGE", "STATE", "ALLOCATED", "LAST_EXEC_TIME"};
    struct sbx_error err;
    _cleanup_json_ json_t *list = NULL;
    if (session_call(s, "GET", "/sandboxes", NULL, &list, &err) < 0)
        return cli_fail(&err);
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

int cmd_status(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    return a->text[FLAG_ID] ? show_one(&s, a->text[FLAG_ID]) : show_all(&s);
}
