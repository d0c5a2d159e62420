/* sbx exec-cancel: ends an exec. */
#include <stdio.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

int cmd_exec_cancel(const struct args *a)
{
    struct sbx_error err;
    struct sbx_exec_status st;
    _cleanup_session_ struct session s = {0};
    const char *exec_id = a->text[FLAG_EXEC_ID];
    if (!a->text[FLAG_ID] || !exec_id)
        return cli_fail_usage("exec-cancel: -id or -exec-id is missing");
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_exec_cancel(s.client, a->text[FLAG_ID], exec_id, &st, &err) < 0)
        return cli_fail(&err);
    _cleanup_free_ char *status = printable(st.status);
    printf("exec_id=%s status=%s\n", exec_id, status);
    sbx_exec_status_done(&st);
    return 0;
}
