/* SPDX-License-Identifier: Apache-2.0 */
/* sbx shell: a terminal in a sandbox. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/oneshot.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static char *const default_shell[] = {
    (char *)"/bin/sh", (char *)"-c",
    (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL};

static int run_shell(const struct args *a)
{
    if (!isatty(STDIN_FILENO))
        return cli_fail_usage("shell: standard input is not a terminal (see 'sbx help run')");
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    const char *given = a->id;
    _cleanup_free_ char *made = NULL;
    if (session_open(a, !given && !a->keep, &s, &err) < 0 ||
        (!given && oneshot_create(&s, a, &made, &err) < 0))
        return cli_fail(&err);
    int code = 0;
    char *const *argv = a->n_rest ? a->rest : default_shell;
    int r = oneshot_exec(&s, a, given ? given : made, argv, true, &code, &err);
    if (made)
        oneshot_end(&s, a, made);
    return r < 0 ? cli_fail(&err) : code;
}

const struct command command_shell = {
    .name = "shell",
    .group = GROUP_EVERYDAY,
    .usage = "[--] [COMMAND [ARGUMENT...]]",
    .summary = "Open a terminal in a sandbox",
    .details = "Without -id the sandbox is a new one, which is deleted at the end unless -keep is "
               "given. Without a COMMAND a login shell is started.",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTIONS_ONESHOT,
                       OPTION("id", id, "ID", "Use this sandbox instead of a new one.")),
    .max_rest = -1,
    .rest_is_argv = true,
    .run = run_shell,
};
