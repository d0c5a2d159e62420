/* sbx exec-status: how an exec is doing, as key=value lines. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static void print_text(const char *key, const char *value)
{
    if (!value)
        return;
    _cleanup_free_ char *clean = printable(value);
    printf("%s=%s\n", key, clean);
}

int cmd_exec_status(const struct args *a)
{
    struct sbx_error err;
    struct sbx_exec_status st;
    _cleanup_session_ struct session s = {0};
    if (!a->text[FLAG_ID] || !a->text[FLAG_EXEC_ID])
        return cli_fail_usage("exec-status: -id or -exec-id is missing");
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_exec_get(s.client, a->text[FLAG_ID], a->text[FLAG_EXEC_ID], &st, &err) < 0)
        return cli_fail(&err);
    print_text("sandbox_id", st.sandbox_id);
    print_text("exec_id", st.exec_id);
    print_text("status", st.status);
    if (st.has_exit_code)
        printf("exit_code=%d\n", st.exit_code);
    print_text("started_at", st.started_at);
    print_text("finished_at", st.finished_at);
    if (st.timeout_seconds)
        printf("timeout_seconds=%lld\n", st.timeout_seconds);
    print_text("error", st.error);
    sbx_exec_status_done(&st);
    return 0;
}
