/* sbx pause, sbx resume: stop all processes of a sandbox where they are, and let them go on. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int pause_or_resume(const struct args *a, bool on)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (!a->text[FLAG_ID])
        return cli_fail_usage(on ? "pause: -id is missing" : "resume: -id is missing");
    if (session_open(a, false, &s, &err) < 0 ||
        sbx_sandbox_pause(s.client, a->text[FLAG_ID], on, &err) < 0)
        return cli_fail(&err);
    puts(on ? "paused" : "resumed");
    return 0;
}

int cmd_pause(const struct args *a)
{
    return pause_or_resume(a, true);
}

int cmd_resume(const struct args *a)
{
    return pause_or_resume(a, false);
}
