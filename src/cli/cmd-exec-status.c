/* SPDX-License-Identifier: Apache-2.0 */
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

static int run_exec_status(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct sbx_exec_status st;
    if (sbx_exec_get(s->client, a->id, a->exec_id, &st, err) < 0)
        return -1;
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

const struct command command_exec_status = {
    .name = "exec-status",
    .group = GROUP_SANDBOX,
    .summary = "Show whether an exec is still running, and how it ended",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_EXEC_ID),
    .run_connected = run_exec_status,
};
