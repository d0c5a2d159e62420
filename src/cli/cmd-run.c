/* SPDX-License-Identifier: Apache-2.0 */
/* sbx run: one command in a sandbox of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/oneshot.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int run_in_new_sandbox(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_free_ char *id = NULL;
    if (session_open(a, !a->keep, &s, &err) < 0 || oneshot_create(&s, a, &id, &err) < 0)
        return cli_fail(&err);
    int code = 0;
    int r = oneshot_exec(&s, a, id, a->rest, false, &code, &err);
    oneshot_end(&s, a, id);
    if (r == 0)
        return code;
    return strcmp(err.code, "broken_pipe") == 0 ? EXIT_BROKEN_PIPE : cli_fail(&err);
}

const struct command command_run = {
    .name = "run",
    .group = GROUP_EVERYDAY,
    .usage = "[--] COMMAND [ARGUMENT...]",
    .summary = "Run one command in a new sandbox",
    .details =
        "Standard input goes to the command, its output is printed as it is written, and sbx "
        "exits with the command's exit code. The sandbox is deleted afterwards. If no daemon "
        "is named by -addr or $MAS_SANDBOX_URL and none runs at the default addresses, sbx "
        "starts a private daemon for this command and stops it afterwards.",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTIONS_ONESHOT),
    .min_rest = 1,
    .max_rest = -1,
    .rest_is_argv = true,
    .run = run_in_new_sandbox,
};
