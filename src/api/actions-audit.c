/* SPDX-License-Identifier: Apache-2.0 */
/* the actions API's view of the audit: the newest records, in its own words. */
#include <stdlib.h>
#include <string.h>

#include "api/action.h"
#include "api/handlers.h"
#include "api/internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/weak.h"
#include "audit/audit.h"
#include "tool/skill.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000

/* --- a record in the contract's words */

/* What a record says of a call's progress. The first row that fits counts; a record of a kind that
 * has no row tells of something that has happened. */
static const struct {
    const char *kind, *outcome; /* NULL means any */
    const char *status;
} statuses[] = {
    {"intent", NULL, "executing"},
    {"started", NULL, "executing"},
    {"exited", "completed", "completed"},
    {"exited", NULL, "failed"},
    {"done", NULL, "failed"},
    {"interrupted", NULL, "failed"},
    {"decision", "ask", "pending"},
    {"decision", NULL, "rejected"},
    {"refusal", NULL, "rejected"},
    {"approval", "pending", "pending"},
    {"approval", "confirmed", "pending"},
    {"approval", "approved", "approved"},
    {"approval", NULL, "rejected"},
    {"grant", "void", "rejected"},
    {"grant", NULL, "approved"},
    {"network", "connected", "completed"},
    {"network", "summary", "completed"},
    {"network", "entered", "completed"},
    {"network", "token_made", "completed"},
    {"network", "token_revoked", "completed"},
    {"network", "link_made", "completed"},
    {"network", NULL, "failed"},
    {"login_failure", NULL, "rejected"},
    {"damage", NULL, "failed"},
    {NULL, "failed", "failed"},
    {NULL, NULL, "completed"},
};

/* The type of what is no action: by its tool, else by its kind. */
static const struct {
    const char *tool, *kind; /* NULL means any; a tool that ends in '.' is a prefix */
    enum action_type type;
} types[] = {
    {"file.", NULL, ACTION_FILE_OPERATION},
    {"file_system", NULL, ACTION_FILE_OPERATION},
    {"http_client", NULL, ACTION_API_CALL},
    {"fetch", NULL, ACTION_API_CALL},
    {"web_search", NULL, ACTION_API_CALL},
    {"config_change", NULL, ACTION_CONFIG_CHANGE},
    {"", NULL, ACTION_SKILL_EXECUTION},
    {NULL, "file", ACTION_FILE_OPERATION},
    {NULL, "network", ACTION_API_CALL},
    {NULL, "login_failure", ACTION_API_CALL},
    {NULL, "sandbox", ACTION_SKILL_EXECUTION},
    {NULL, "intent", ACTION_SKILL_EXECUTION},
    {NULL, "started", ACTION_SKILL_EXECUTION},
    {NULL, "exited", ACTION_SKILL_EXECUTION},
    {NULL, "done", ACTION_SKILL_EXECUTION},
    {NULL, "interrupted", ACTION_SKILL_EXECUTION},
    {NULL, "decision", ACTION_SKILL_EXECUTION},
    {NULL, "refusal", ACTION_SKILL_EXECUTION},
    {NULL, "validation", ACTION_SKILL_EXECUTION},
    {NULL, NULL, ACTION_CONFIG_CHANGE}, /* of the daemon's own state */
};

static const char *status_of(const json_t *record)
{
    const char *kind = json_member_text(record, "kind"),
               *outcome = json_member_text(record, "outcome");
    const json_t *code = json_object_get(json_object_get(record, "details"), "exit_code");
    if (strcmp(kind, "exited") == 0 && json_integer_value(code) != 0)
        return "failed"; /* as its action has */
    size_t i = 0;
    while ((statuses[i].kind && strcmp(statuses[i].kind, kind) != 0) ||
           (statuses[i].outcome && strcmp(statuses[i].outcome, outcome) != 0))
        i++;
    return statuses[i].status;
}

static bool tool_is(const char *pattern, const char *tool)
{
    size_t n = strlen(pattern);
    bool prefix = n == 0 || pattern[n - 1] == '.';
    return *tool && (prefix ? strncmp(pattern, tool, n) == 0 : strcmp(pattern, tool) == 0);
}

static const char *type_of(const json_t *record)
{
    const char *kind = json_member_text(record, "kind"), *tool = json_member_text(record, "tool");
    size_t i = 0;
    while ((types[i].tool && !tool_is(types[i].tool, tool)) ||
           (types[i].kind && strcmp(types[i].kind, kind) != 0))
        i++;
    return action_type_name(types[i].type);
}

static json_t *skill_of(const json_t *record)
{
    const char *tool = json_member_text(record, "tool");
    return skill_exists(tool) ? json_string(tool) : json_null();
}

/* The record's own kind, which the contract has no member for, goes with the details. */
static json_t *details_of(const json_t *record)
{
    json_t *details = json_object_get(record, "details");
    json_t *o = details ? json_copy(details) : json_object();
    json_object_set(o, "kind", json_object_get(record, "kind"));
    return o;
}

static json_t *format_entry(struct actions *actions, const json_t *record)
{
    const char *id = json_string_value(json_object_get(record, "action"));
    _cleanup_json_ json_t *action = actions_describe(actions, id);
    json_t *o = json_object();
    json_object_set_new(o, "timestamp", json_string(json_member_text(record, "time")));
    json_object_set_new(o, "action_id", json_string(id ? id : json_member_text(record, "call")));
    json_object_set_new(
        o, "action_type",
        json_string(action ? json_member_text(action, "action_type") : type_of(record)));
    json_object_set_new(o, "skill_id",
                        action ? json_incref(json_object_get(action, "skill_id"))
                               : skill_of(record));
    json_object_set_new(o, "status", json_string(status_of(record)));
    json_object_set_new(o, "outcome", json_string(json_member_text(record, "outcome")));
    json_object_set_new(o, "details", details_of(record));
    return o;
}

static void on_page(void *data, const struct audit_page *page, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    struct error bad = {0};
    if (!req)
        return;
    if (err) {
        api_fail(req, err);
        return;
    }
    json_t *list = json_array();
    for (const char *p = page->text.data, *end = p + page->text.len; p && p < end;) {
        size_t n = strcspn(p, "\n");
        _cleanup_json_ json_t *record = json_parse_object(p, n, &bad);
        if (record)
            json_array_append_new(list, format_entry(req->api->actions, record));
        p += n + 1;
    }
    api_reply(req, 200, list);
}

int handle_actions_audit_logs(struct api_request *req)
{
    uint64_t limit = LIMIT_DEFAULT;
    if (api_query_number(req, "limit", 1, LIMIT_MAX, &limit, req->err) < 0)
        return -1;
    struct audit_filter f = {.limit = (size_t)limit, .newest_first = true};
    audit_query(gate_audit(req->services->gate), &f, on_page, api_later(req));
    return 0;
}
