/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls over HTTP (POST /v1/sandbox/execute), and the choice between HTTP and a local daemon
 * that MAS_SANDBOX_MODE makes. */
#include "libsbx/internal.h"

#include <string.h>

#include "libsbx/tool.h"

#define DEFAULT_CALL_ID "call-1"

void sbx_tool_result_done(struct sbx_tool_result *r)
{
    free(r->result);
    free(r->error_code);
    free(r->error_message);
    *r = (struct sbx_tool_result){0};
}

static json_t *parse_argument(const char *text, const char *what, struct sbx_error *err)
{
    json_error_t e;
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (json_is_object(v))
        return v;
    libsbx_fail(err, "invalid_request", "the tool call's %s is not a JSON object%s%s", what,
                v ? "" : ": ", v ? "" : e.text);
    json_decref(v);
    return NULL;
}

int libsbx_tool_parts(const struct sbx_tool_call *call, struct tool_parts *ret,
                      struct sbx_error *err)
{
    if (!call->tool || !*call->tool)
        return libsbx_fail(err, "invalid_request", "the tool call names no tool");
    struct tool_parts p = {.id = call->id ? call->id : DEFAULT_CALL_ID};
    p.args = parse_argument(call->args ? call->args : "{}", "args", err);
    if (!p.args)
        return -1;
    if (call->policy) {
        p.policy = parse_argument(call->policy, "policy", err);
        if (!p.policy) {
            json_decref(p.args);
            return -1;
        }
    }
    *ret = p;
    return 0;
}

static char *format_request(const struct sbx_tool_call *call, struct sbx_error *err)
{
    struct tool_parts p;
    if (libsbx_tool_parts(call, &p, err) < 0)
        return NULL;
    _cleanup_json_ json_t *req =
        json_pack("{s:s, s:{s:s, s:o}, s:o*, s:s*}", "tool_call_id", p.id, "tool", "name",
                  call->tool, "args", p.args, "policy", p.policy, "sandbox_id", call->sandbox_id);
    if (!req) {
        libsbx_fail(err, "invalid_request", "the tool call's strings are not UTF-8");
        return NULL;
    }
    return libsbx_dump(req);
}

int sbx_tool_execute(struct sbx_client *c, const struct sbx_tool_call *call,
                     struct sbx_tool_result *ret, struct sbx_error *err)
{
    _cleanup_free_ char *body = format_request(call, err);
    struct sbx_response resp;
    if (!body || sbx_call(c, "POST", "/v1/sandbox/execute", body, &resp, err) < 0)
        return -1;
    _cleanup_json_ json_t *root = libsbx_parse(resp.body, resp.body_len, err);
    sbx_response_done(&resp);
    if (!root)
        return -1;
    const char *status = json_string_value(json_object_get(root, "status"));
    if (!status)
        return libsbx_fail(err, "internal", "the daemon's answer has no status");
    const json_t *e = json_object_get(root, "error"), *result = json_object_get(root, "result");
    struct sbx_tool_result r = {.ok = strcmp(status, "ok") == 0};
    libsbx_int_member(root, "exit_code", &r.exit_code);
    r.result = result ? libsbx_dump(result) : NULL;
    r.error_code = libsbx_dup_member(e, "code");
    r.error_message = libsbx_dup_member(e, "message");
    *ret = r;
    return 0;
}

int sbx_tool_execute_env(const struct sbx_tool_call *call, struct sbx_tool_result *ret,
                         struct sbx_error *err)
{
    const char *mode = getenv("MAS_SANDBOX_MODE");
    if (!mode || !*mode || strcmp(mode, "local") == 0)
        return sbx_tool_execute_local(NULL, call, ret, err);
    if (strcmp(mode, "http") != 0)
        return libsbx_fail(err, "invalid_request", "MAS_SANDBOX_MODE is '%s'; want http or local",
                           mode);
    struct sbx_client *c = sbx_client_new(NULL, NULL, err);
    if (!c)
        return -1;
    int r = sbx_tool_execute(c, call, ret, err);
    sbx_client_free(c);
    return r;
}
