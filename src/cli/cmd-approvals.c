/* SPDX-License-Identifier: Apache-2.0 */
/* sbx approvals: list, show, approve, reject, watch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/approval-show.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define NS_PER_S    1000000000LL
#define SUMMARY_MAX 60 /* bytes */

/* What would run, on one line. */
static char *call_summary(const json_t *approval)
{
    const json_t *argv = json_object_get(approval, "argv");
    size_t i;
    json_t *item;
    char *line = cell(approval, "tool");
    json_array_foreach(argv, i, item)
    {
        _cleanup_free_ char *word = printable(json_string_value(item));
        char *longer = xasprintf("%s %s", line, word);
        free(line);
        line = longer;
    }
    if (strlen(line) > SUMMARY_MAX)
        strcpy(line + SUMMARY_MAX - 3 - utf8_incomplete_suffix(line, SUMMARY_MAX - 3), "...");
    return line;
}

static int approvals_list(const struct args *a, struct session *s, struct sbx_error *err)
{
    static const char *const titles[] = {"ID", "STATUS", "RISK", "RULE", "EXPIRES", "WHAT"};
    const char *status = a->status ? a->status : "pending";
    _cleanup_free_ char *path = strcmp(status, "all") == 0
                                    ? xstrdup("/v1/approvals")
                                    : sbx_path_format("/v1/approvals?status=%s", status);
    _cleanup_json_ json_t *answer = NULL;
    struct table t;
    size_t i;
    json_t *item;
    if (session_call(s, "GET", path, NULL, &answer, err) < 0)
        return -1;
    if (a->json) {
        print_json(json_object_get(answer, "approvals"), JSON_INDENT(2));
        return 0;
    }
    table_init(&t, ELEMENTS(titles), titles);
    json_array_foreach(json_object_get(answer, "approvals"), i, item)
    {
        char *cells[] = {cell(item, "id"),   cell(item, "status"),     cell(item, "risk"),
                         cell(item, "rule"), cell(item, "expires_at"), call_summary(item)};
        table_add(&t, cells);
    }
    table_print(&t);
    return 0;
}

static int approvals_show(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/approvals/%s", a->rest[0]);
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "GET", path, NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        print_json(answer, JSON_INDENT(2));
    else
        approval_print(answer);
    return 0;
}

/* --- deciding */

/* "20,1h" */
static int parse_session(const char *text, json_t **ret, struct sbx_error *err)
{
    char *end;
    int64_t ns = 0;
    long count = strtol(text, &end, 10);
    if (count < 1 || *end != ',' || clock_parse_duration(end + 1, &ns) < 0 || ns < NS_PER_S)
        return cli_set_error(err, "invalid_request", "-session wants COUNT,DURATION, as 20,1h");
    *ret = json_pack("{s:I, s:I}", "count", (json_int_t)count, "ttl_seconds",
                     (json_int_t)(ns / NS_PER_S));
    return 0;
}

static int decide_approval(struct session *s, const struct args *a, const char *verb,
                           struct sbx_error *err)
{
    _cleanup_free_ char *base = sbx_path_format("/v1/approvals/%s", a->rest[0]);
    _cleanup_free_ char *path = xasprintf("%s/%s", base, verb);
    _cleanup_json_ json_t *answer = NULL;
    json_t *session = NULL, *body = json_object();
    if (a->session && parse_session(a->session, &session, err) < 0) {
        json_decref(body);
        return -1;
    }
    if (session)
        json_object_set_new(body, "session", session);
    if (a->reason)
        json_object_set_new(body, "reason", json_message(a->reason));
    if (session_call(s, "POST", path, body, &answer, err) < 0)
        return -1;
    _cleanup_free_ char *status = cell(answer, "status");
    printf("%s\n",
           strcmp(status, "pending") == 0 ? "pending: a second approver is needed" : status);
    return 0;
}

static int approvals_approve(const struct args *a, struct session *s, struct sbx_error *err)
{
    return decide_approval(s, a, "approve", err);
}

static int approvals_reject(const struct args *a, struct session *s, struct sbx_error *err)
{
    return decide_approval(s, a, "reject", err);
}

/* --- watch */

static void print_event(const char *text, size_t len, bool as_json)
{
    _cleanup_json_ json_t *event = json_loadb(text, len, 0, NULL);
    const json_t *a = json_object_get(event, "approval");
    if (as_json) {
        print_json(event, JSON_COMPACT);
    } else {
        _cleanup_free_ char *type = cell(event, "type"), *id = cell(a, "id"),
                            *risk = cell(a, "risk"), *what = call_summary(a);
        printf("%s %s %s %s\n", type, id, risk, what);
    }
    fflush(stdout);
}

static int approvals_watch(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct sbx_ws_message m;
    enum sbx_ws_result r;
    struct sbx_ws *ws = sbx_ws_open(s->client, "/v1/approvals/events", err);
    if (!ws)
        return -1;
    while ((r = sbx_ws_receive(ws, -1, &m, err)) == SBX_WS_MESSAGE && !ferror(stdout))
        print_event(m.data, m.len, a->json);
    sbx_ws_free(ws);
    return r == SBX_WS_FAILED ? -1 : 0;
}

#define OPTION_REASON OPTION("reason", reason, "TEXT", "Tell the caller why.")
#define LIST_OPTIONS                                                                               \
    OPTIONS(OPTIONS_CONNECTION,                                                                    \
            OPTION("status", status, "NAME",                                                       \
                   "List what is pending (the default), approved, rejected, expired, used, void "  \
                   "or all."),                                                                     \
            OPTION_JSON)

static const struct command approvals_commands[] = {
    {.name = "approvals list",
     .summary = "List the calls that wait for a person's approval",
     .options = LIST_OPTIONS,
     .run_connected = approvals_list},
    {.name = "approvals ls",
     .summary = "Do the same as list",
     .options = LIST_OPTIONS,
     .run_connected = approvals_list},
    {.name = "approvals show",
     .usage = "ID",
     .summary = "Print everything that would run",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = approvals_show},
    {.name = "approvals approve",
     .usage = "ID",
     .summary = "Allow a call",
     .details = "Needs a key with the role approver that is not the key of the caller. A critical "
                "call needs two approvers.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_REASON,
                        OPTION("session", session, "COUNT,DURATION",
                               "Allow the same call this many times within this time, for example "
                               "20,1h. A critical call cannot be allowed this way.")),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = approvals_approve},
    {.name = "approvals reject",
     .usage = "ID",
     .summary = "Refuse a call",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_REASON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = approvals_reject},
    {.name = "approvals watch",
     .summary = "Print what is pending and every change, until it is interrupted",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = approvals_watch},
    {0}};

const struct command command_approvals = {
    .name = "approvals",
    .group = GROUP_HOST,
    .summary = "Approve or reject the calls that wait for a person",
    .commands = approvals_commands,
};
