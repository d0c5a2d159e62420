/* SPDX-License-Identifier: Apache-2.0 */
/* The members of every body and the parameters of every query. A handler never sees a member that
 * is not here: one that is forgotten does not work at all, so that it cannot be forgotten. A test
 * compares the tables with docs/openapi.json and tries every route. */
#include "api/members.h"

#include <stdio.h>
#include <string.h>

#include "api/action.h"
#include "api/handlers.h"
#include "api/request.h"
#include "audit/kind.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "guard/approval.h"
#include "proto/policy-members.h"
#include "tool/skill.h"
#include "tool/tool.h"

#define IGNORED_MAX 1024 /* of the header */
#define CHOICES_MAX 512  /* bytes of a list of choices in a message */

/* --- the MAS API */

static const struct member *find_tool_args(const json_t *parent, const char *key)
{
    const char *name = json_string_value(json_object_get(parent, key));
    const struct tool *tool = name ? tool_find(name) : NULL;
    return tool ? tool->args : NULL;
}

static const struct member *find_args(const json_t *tool)
{
    return find_tool_args(tool, "name");
}

static const struct member *find_line_args(const json_t *request)
{
    return find_tool_args(request, "tool");
}

static const struct member resources[] = {{"cpu"}, {"mem_mb"}, {"disk_mb"}, {"timeout_ms"}, {0}};
static const struct member tool_of_call[] = {{"name"}, {"args", .find_inner = find_args}, {0}};
static const struct member trace[] = {{"run_id", MEMBER_TEXT}, {"step_id", MEMBER_TEXT}, {0}};
const struct member body_mas_create[] = {
    {"sandbox_id"}, POLICY_MEMBER, {"resources", MEMBER_GUARD, resources, NULL}, {0}};
const struct member body_mas_execute[] = {
    {"sandbox_id"}, {"tool_call_id"},          {"tool", .inner = tool_of_call},
    POLICY_MEMBER,  {"trace", .inner = trace}, {0}};
const struct member body_mas_destroy[] = {{"sandbox_id"}, {0}};
const struct member body_mas_line[] = {
    {"id"}, {"tool"}, {"args", .find_inner = find_line_args}, POLICY_MEMBER, {0}};

/* --- the sbx API */

static const struct member limits[] = {{"cpu_cores"},     {"memory_mb"},   {"disk_mb"},
                                       {"max_processes"}, {"io_mb_per_s"}, {0}};
const struct member body_sbx_create[] = {{"id"},
                                         {"image"},
                                         {"command"},
                                         {"volume_mode"},
                                         {"cache_mode"},
                                         {"cache_pvc_size"},
                                         {"cache_pvc_storage_class"},
                                         {"cache_pvc_access_mode"},
                                         {"env"},
                                         {"allowed_hosts"},
                                         {"disallowed_hosts"},
                                         {"limits", MEMBER_GUARD, limits, NULL},
                                         {0}};
const struct member body_sbx_exec[] = {
    {"command"}, {"async"}, {"timeout_seconds"}, {"on_output_limit"}, {0}};

/* --- the actions API */

/* An action's parameters are the arguments of what it runs. */
static const struct member *find_parameters(const json_t *action)
{
    static const struct member change[] = {{"change"}, {"skill_id"}, {0}};
    static const struct member file[] = {{"operation"}, {"path"}, {"content"}, {"sandbox_id"}, {0}};
    const char *type = json_string_value(json_object_get(action, "action_type"));
    const char *skill = json_string_value(json_object_get(action, "skill_id"));
    if (!type)
        return NULL;
    if (strcmp(type, action_type_name(ACTION_CONFIG_CHANGE)) == 0)
        return change;
    if (strcmp(type, action_type_name(ACTION_FILE_OPERATION)) == 0)
        return file;
    bool call = strcmp(type, action_type_name(ACTION_API_CALL)) == 0;
    if (!call && (!skill || !skill_exists(skill)))
        return NULL;
    const char *tool = call ? "http_client" : skill_tool(skill);
    return tool ? tool_find(tool)->args : file;
}

const struct member body_actions_validate[] = {{"input"}, {"text"}, {0}};
const struct member body_actions_submit[] = {
    {"action_type"}, {"parameters", .find_inner = find_parameters}, {"skill_id"}, {0}};
const struct member body_actions_approve[] = {{"approved"}, {"user_id"}, {"reason"}, {0}};

/* --- native */

#define HIDDEN(name)                                                                               \
    {                                                                                              \
        name, MEMBER_HIDDEN, NULL, NULL                                                            \
    }

static const struct member mount[] = {{"source"}, {"target"}, {"read_only"}, {0}};
static const struct member network_rule[] = {{"host"},    {"cidr"},  {"ports"}, {"protocol"},
                                             {"methods"}, {"paths"}, {"name"},  {"ask"},
                                             {"for"},     {0}};
static const struct member network[] = {{"mode", MEMBER_TEXT},
                                        {"allow", MEMBER_LIST, network_rule},
                                        {"deny", MEMBER_LIST, network_rule},
                                        {"cidrs"},
                                        HIDDEN("enabled"),
                                        {"inject"},
                                        {"intercept"},
                                        {0}};
static const struct member file[] = {{"path"}, {"content"}, {"content_base64"}, {"mode"}, {0}};

/* The last four are refused in words of their own (spec-json.c). */
#define SPEC                                                                                       \
    {"runtime"}, {"oci_runtime"}, {"min_isolation"}, {"image"}, {"workdir"}, {"env"},              \
        {"limits", MEMBER_GUARD, limits, NULL}, {"mounts", MEMBER_LIST, mount},                    \
        {"network", MEMBER_OR_OTHER, network, NULL}, {"accept_weaker"}, HIDDEN("pool"),            \
        HIDDEN("snapshot"), HIDDEN("template"), HIDDEN("approval")
#define COMMAND                                                                                    \
    {"command"}, {"language"}, {"code"}, {"files", MEMBER_LIST, file}, {"stdin"}, {"cwd"},         \
        {"timeout_ms"}, {"stream"}, {"on_output_limit"},                                           \
    {                                                                                              \
        "max_output_bytes"                                                                         \
    }

const struct member body_run[] = {
    SPEC, COMMAND, HIDDEN("open_stdin"), HIDDEN("pty"), HIDDEN("rows"), HIDDEN("cols"), {0}};
const struct member body_sandbox[] = {SPEC, {"id"}, {0}};
const struct member body_exec[] = {COMMAND, {"env"},  {"async"}, {"open_stdin"},
                                   {"pty"}, {"rows"}, {"cols"},  {0}};
const struct member body_network[] = {{"allow", MEMBER_LIST, network_rule},
                                      {"deny", MEMBER_LIST, network_rule},
                                      {"drop"},
                                      {"mode"},
                                      {0}};
const struct member body_signal[] = {{"signal"}, {0}};
const struct member body_resize[] = {{"rows"}, {"cols"}, {0}};
const struct member body_attach[] = {{"type"}, {"rows"}, {"cols"}, {"signal"}, {0}};
const struct member body_snapshot[] = {{"name", MEMBER_TEXT}, {0}};
const struct member body_fork[] = {{"count", MEMBER_WHOLE}, {0}};
const struct member body_restore[] = {{"snapshot", MEMBER_TEXT}, {0}};
const struct member body_mkdir[] = {{"path"}, {"parents"}, {0}};
const struct member body_move[] = {{"from"}, {"to"}, {0}};
const struct member body_pull[] = {{"image"}, {"policy"}, {0}};

static const struct member quotas[] = {
    {"max_sandboxes"}, {"max_execs"}, {"requests_per_minute"}, {0}};
const struct member body_key[] = {
    {"name"}, {"roles"}, {"quotas", MEMBER_GUARD, quotas, NULL}, {"expires_in_s"}, {0}};
const struct member body_traffic[] = {{"name"}, {"port"}, {"expires_in_s"}, {0}};
const struct member body_traffic_link[] = {{"port", MEMBER_WHOLE}, {0}};
const struct member body_secret[] = {{"value"}, {"hosts"}, {"header"}, {0}};
static const struct member session[] = {{"argv_prefix", MEMBER_TEXTS},
                                        {"rules", MEMBER_TEXTS},
                                        {"count", MEMBER_WHOLE},
                                        {"ttl_seconds", MEMBER_WHOLE},
                                        {0}};
const struct member body_decision[] = {
    {"reason"}, {"user_id"}, {"session", MEMBER_GUARD, session, NULL}, {0}};

/* --- queries */

#define SWITCH(name)                                                                               \
    {                                                                                              \
        name, MEMBER_SWITCH, NULL, NULL                                                            \
    }
#define CHOICE(name, at)                                                                           \
    {                                                                                              \
        name, 0, NULL, NULL, at                                                                    \
    }

static const char *order_at(size_t i)
{
    static const char *const orders[] = {"oldest", "newest"};
    return i < ELEMENTS(orders) ? orders[i] : NULL;
}

static const char *approval_state_at(size_t i)
{
    return i < _APPROVAL_STATE_MAX ? approval_state_name(i) : NULL;
}

#define PLACE                                                                                      \
    {"since"}, {"stdout_offset"},                                                                  \
    {                                                                                              \
        "stderr_offset"                                                                            \
    }
const struct member query_stream[] = {{"exec_id"}, PLACE, {0}};
const struct member query_ingest[] = {{"token"}, {0}};
const struct member query_logs[] = {PLACE, SWITCH("follow"), {0}};
const struct member query_attach[] = {{"since"}, {0}};
const struct member query_list[] = {{"limit"}, {"cursor"}, {0}};
const struct member query_stdin[] = {SWITCH("close"), {0}};
const struct member query_path[] = {{"path"}, {0}};
const struct member query_files[] = {{"path"}, SWITCH("recursive"), {0}};
const struct member query_read[] = {{"path"}, {"offset"}, {"length"}, {0}};
const struct member query_write[] = {{"path"}, {"mode"}, SWITCH("append"), {0}};
/* What was made before there was a key has an owner without a name. */
const struct member query_owner[] = {{"owner", MEMBER_MAY_BE_EMPTY}, {0}};
const struct member query_image[] = {{"image"}, {0}};
const struct member query_upload[] = {{"name"}, {"format"}, {0}};
const struct member query_approvals[] = {CHOICE("status", approval_state_at), {0}};
const struct member query_events[] = {{"since"}, {"types"}, SWITCH("follow"), {0}};
const struct member query_network_log[] = {{"since"}, {"limit"}, SWITCH("follow"), {0}};
const struct member query_limit[] = {{"limit"}, {0}};
const struct member query_since[] = {{"since"}, {0}};
const struct member query_audit[] = {
    {"since"},        {"until"}, {"limit"},   CHOICE("order", order_at),
    SWITCH("follow"), {"from"},  {"to"},      CHOICE("kind", audit_kind_at),
    {"key"},          {"call"},  {"action"},  {"sandbox"},
    {"exec"},         {"tool"},  {"outcome"}, {0}};

/* --- checking */

static bool is_switch(const char *value)
{
    static const char *const words[] = {"0", "1", "false", "true"};
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strcmp(value, words[i]) == 0)
            return true;
    return false;
}

/* A condition that can never hold would pass for one that nothing fits. */
static int check_choice(const struct member *m, const char *value, struct error *err)
{
    _cleanup_strbuf_ struct strbuf all = STRBUF_INIT(CHOICES_MAX);
    for (size_t i = 0; m->choice_at(i); i++) {
        if (strcmp(m->choice_at(i), value) == 0)
            return 0;
        strbuf_printf(&all, "%s%s", i ? ", " : "", m->choice_at(i));
    }
    const char *near = members_suggest_choice(m, value);
    if (near)
        return error_field(err, m->name, "'%s' cannot be '%.40s'; did you mean '%s'?", m->name,
                           value, near);
    return error_field(err, m->name, "'%s' cannot be '%.40s'; it is one of %s", m->name, value,
                       all.data);
}

static int check_parameter(const struct api_request *req, size_t at, struct strbuf *ignored,
                           struct error *err)
{
    const struct member *table = req->route->query ? req->route->query : members_none;
    const char *value, *name = http_request_query_at(req->http, at, &value);
    const struct member *known = members_find(table, name);
    if (!known && req->route->style != STYLE_NATIVE) {
        members_tell(ignored, "", name);
        return 0;
    }
    if (!known) {
        const char *near = members_suggest(table, name);
        return error_field(err, name, "there is no parameter '%.80s' here%s%s%s", name,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (http_request_query(req->http, name) != value)
        return error_field(err, name, "the parameter '%s' comes twice", name);
    if ((known->flags & MEMBER_SWITCH) && !is_switch(value))
        return error_field(err, name, "the parameter '%s' is true or false, not '%.40s'", name,
                           value);
    if (!*value && req->route->style == STYLE_NATIVE && !(known->flags & MEMBER_MAY_BE_EMPTY))
        return error_field(err, name, "the parameter '%s' has no value", name);
    if (known->choice_at)
        return check_choice(known, value, err);
    return 0;
}

/* A condition that is not looked at would let a write through that its caller made depend on it. */
static int check_conditions(const struct http_request *http, struct error *err)
{
    static const char *const names[] = {"If-Match", "If-None-Match", "If-Unmodified-Since"};
    enum http_method method = http_request_method(http);
    if (method == HTTP_GET_ || method == HTTP_HEAD_)
        return 0;
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (http_request_header(http, names[i]))
            return error_set(err, ERROR_UNSUPPORTED, 0,
                             "%s is not supported with this method: nothing was changed", names[i]);
    return 0;
}

/* Whether a call that comes twice has done no more than one that came once. */
static bool is_repeatable(const struct api_request *req)
{
    switch (http_request_method(req->http)) {
    case HTTP_POST_:
    case HTTP_PATCH_:
        return req->route->flags & ROUTE_IDEMPOTENT;
    case HTTP_PUT_:
        return !api_query_switch(req, "append");
    default:
        return true;
    }
}

/* A caller that sends one repeats the call when no answer came, sure that it is done once. */
static int check_repeatable(const struct api_request *req, struct strbuf *ignored,
                            struct error *err)
{
    if (is_repeatable(req) || !http_request_header(req->http, "Idempotency-Key"))
        return 0;
    if (req->route->style == STYLE_NATIVE)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "Idempotency-Key is not supported here: nothing was done");
    members_tell(ignored, "", "Idempotency-Key");
    return 0;
}

int api_check_members(struct api_request *req, struct error *err)
{
    const char *value;
    if (req->route->handle == handle_refused)
        return 0; /* whatever it is asked with, that it does not exist is the answer */
    _cleanup_strbuf_ struct strbuf ignored = STRBUF_INIT(IGNORED_MAX);
    bool native = req->route->style == STYLE_NATIVE;
    const struct members_check how = {.ignored = native ? NULL : &ignored};
    int r = check_conditions(req->http, err);
    if (r < 0)
        return r;
    r = check_repeatable(req, &ignored, err);
    for (size_t i = 0; r >= 0 && http_request_query_at(req->http, i, &value); i++)
        r = check_parameter(req, i, &ignored, err);
    if (r >= 0 && req->body)
        r = members_check(&how, req->body, req->route->body ? req->route->body : members_none, "",
                          err);
    /* A request that is refused says what would have been ignored, too: its caller mends both. */
    if (ignored.len)
        http_response_header(req->http, "X-Mas-Ignored", ignored.data);
    return r;
}
