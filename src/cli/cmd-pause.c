/* SPDX-License-Identifier: Apache-2.0 */
/* sbx pause, sbx resume: stop all processes of a sandbox where they are, and let them go on. */
#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

static int run_pause(const struct args *a, struct session *s, struct sbx_error *err)
{
    return sbx_sandbox_pause(s->client, a->id, true, err) < 0 ? -1 : (puts("paused"), 0);
}

static int run_resume(const struct args *a, struct session *s, struct sbx_error *err)
{
    return sbx_sandbox_pause(s->client, a->id, false, err) < 0 ? -1 : (puts("resumed"), 0);
}

const struct command command_pause = {
    .name = "pause",
    .group = GROUP_SANDBOX,
    .summary = "Stop all processes of a sandbox until it is resumed",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID),
    .run_connected = run_pause,
};

const struct command command_resume = {
    .name = "resume",
    .group = GROUP_SANDBOX,
    .summary = "Continue the processes of a paused sandbox",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID),
    .run_connected = run_resume,
};
