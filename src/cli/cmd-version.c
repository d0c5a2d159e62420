/* SPDX-License-Identifier: Apache-2.0 */
/* sbx version: ours, and the daemon's if one answers. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define ANSWER_TIMEOUT_MS 2000

static int run_version(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_json_ json_t *status = NULL;
    printf("sbx %s\n", sbx_version());
    if (session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    sbx_client_set_timeout(s.client, ANSWER_TIMEOUT_MS);
    if (session_call(&s, "GET", "/v1/status", NULL, &status, &err) == 0) {
        _cleanup_free_ char *version = cell(status, "version");
        printf("mas-sandboxd %s at %s\n", version, sbx_client_address(s.client));
        return 0;
    }
    /* A daemon that was named and does not answer is a failure. */
    return a->addr ? cli_fail(&err) : 0;
}

const struct command command_version = {
    .name = "version",
    .group = GROUP_HOST,
    .summary = "Print the versions of sbx and of the daemon",
    .options = OPTIONS(OPTIONS_CONNECTION),
    .run = run_version,
};
