/* sbx delete: a sandbox with all that is in it. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

int cmd_delete(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (!a->text[FLAG_ID])
        return cli_fail_usage("delete: -id is missing");
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_sandbox_delete(s.client, a->text[FLAG_ID], &err) < 0)
        return cli_fail(&err);
    printf("deleted\n");
    return 0;
}
