/* SPDX-License-Identifier: Apache-2.0 */
/* sbx delete: a sandbox with all that is in it. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int run_delete(const struct args *a, struct session *s, struct sbx_error *err)
{
    if (sbx_sandbox_delete(s->client, a->id, err) < 0)
        return -1;
    printf("deleted\n");
    return 0;
}

const struct command command_delete = {
    .name = "delete",
    .group = GROUP_SANDBOX,
    .summary = "Delete a sandbox and everything in it",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID),
    .run_connected = run_delete,
};
