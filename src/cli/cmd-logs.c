/* SPDX-License-Identifier: Apache-2.0 */
/* sbx logs: the output of an exec, from its journal. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/events.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

/* RFC 3339 times in UTC compare as text, as far as seconds go. */
static int find_newest(struct session *s, const char *id, char **ret, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/execs", id);
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "GET", path, NULL, &answer, err) < 0)
        return -1;
    const char *newest = NULL, *newest_time = "";
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(answer, "execs"), i, e)
    {
        const char *exec_id = json_string_value(json_object_get(e, "exec_id"));
        const char *started = json_string_value(json_object_get(e, "started_at"));
        if (exec_id && started && strcmp(started, newest_time) >= 0) {
            newest = exec_id;
            newest_time = started;
        }
    }
    if (!newest)
        return cli_set_error(err, "not_found", "sandbox %s has no execs", id);
    *ret = xstrdup(newest);
    return 0;
}

static int run_logs(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_free_ char *exec_id = a->exec_id ? xstrdup(a->exec_id) : NULL;
    if (!exec_id && find_newest(s, a->id, &exec_id, err) < 0)
        return -1;
    struct event_printer p = {.raw = a->stream_raw};
    if (sbx_exec_logs(s->client, a->id, exec_id, a->follow, -1, event_print, &p, err) < 0)
        return -1;
    /* Showing a failed command's output is no failure. */
    return p.write_errno ? event_exit_code(&p) : 0;
}

const struct command command_logs = {
    .name = "logs",
    .group = GROUP_EVERYDAY,
    .summary = "Print the output of an exec",
    .options =
        OPTIONS(OPTIONS_CONNECTION, OPTION_ID,
                OPTION("exec-id", exec_id, "E",
                       "The id of the exec. The default is the newest one of the sandbox."),
                OPTION("f", follow, NULL, "Go on printing until the exec ends."),
                OPTION("stream-raw", stream_raw, NULL, "Print each event as a line of JSON.")),
    .run_connected = run_logs,
};
