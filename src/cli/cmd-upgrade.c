/* SPDX-License-Identifier: Apache-2.0 */
/* sbx upgrade: has the daemon go on with the mas-sandboxd that is installed now. */
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define POLL_MS 100
#define WAIT_MS 60000
/* Of one question: a connection that no control plane takes waits for ever. */
#define CALL_MS 5000

/* Whether another process than before answers. While there is none, connections wait. */
static bool has_successor(struct session *s, json_int_t before, json_int_t *ret_pid)
{
    struct sbx_error err;
    _cleanup_json_ json_t *status = NULL;
    if (session_call(s, "GET", "/v1/status", NULL, &status, &err) < 0)
        return false;
    *ret_pid = json_integer_value(json_object_get(status, "pid"));
    return *ret_pid != before;
}

static int run_upgrade(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    json_int_t pid = 0;
    (void)a;
    if (session_call(s, "POST", "/v1/upgrade", NULL, &answer, err) < 0)
        return -1;
    json_int_t before = json_integer_value(json_object_get(answer, "pid"));
    int64_t deadline = clock_mono_ms() + WAIT_MS;
    sbx_client_set_timeout(s->client, CALL_MS);
    while (!has_successor(s, before, &pid)) {
        if (clock_mono_ms() > deadline) {
            fprintf(stderr,
                    "sbx: no control plane has taken over in a minute: see the daemon's log\n");
            return 1;
        }
        usleep(POLL_MS * 1000);
    }
    printf("version=%s pid=%lld\n", json_string_value(json_object_get(answer, "version")),
           (long long)pid);
    return 0;
}

const struct command command_upgrade = {
    .name = "upgrade",
    .group = GROUP_HOST,
    .summary = "Let the daemon continue with the mas-sandboxd that is installed now",
    .details = "Sandboxes and the commands in them keep running. Needs the role admin. If the "
               "installed mas-sandboxd cannot take over, nothing changes and sbx says why.",
    .options = OPTIONS(OPTIONS_CONNECTION),
    .run_connected = run_upgrade,
};
