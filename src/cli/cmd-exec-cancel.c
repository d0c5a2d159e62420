/* SPDX-License-Identifier: Apache-2.0 */
/* sbx exec-cancel: ends an exec. */
#include <stdio.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int run_exec_cancel(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct sbx_exec_status st;
    if (sbx_exec_cancel(s->client, a->id, a->exec_id, &st, err) < 0)
        return -1;
    _cleanup_free_ char *status = printable(st.status);
    printf("exec_id=%s status=%s\n", a->exec_id, status);
    sbx_exec_status_done(&st);
    return 0;
}

const struct command command_exec_cancel = {
    .name = "exec-cancel",
    .group = GROUP_SANDBOX,
    .summary = "End a running exec",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_EXEC_ID),
    .run_connected = run_exec_cancel,
};
