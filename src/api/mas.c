/* SPDX-License-Identifier: Apache-2.0 */
/* The MAS API: MAS tool calls over HTTP and, through the same calls, over lines. */
#include <string.h>

#include "api/handlers.h"
#include "api/sandbox-reply.h"
#include "base/alloc.h"
#include "base/json.h"
#include "sandbox/sandbox-policy.h"
#include "tool/network.h"

#define ALIAS_MAX 128

int handle_mas_health(struct api_request *req)
{
    api_reply(req, 200, json_pack("{s:s, s:s}", "status", "ok", "version", MAS_VERSION));
    return 0;
}

/* --- create */

static int check_alias(const char *alias, struct error *err)
{
    size_t n = strlen(alias);
    bool good = n >= 1 && n <= ALIAS_MAX;
    for (size_t i = 0; good && i < n; i++)
        good = alias[i] > ' ' && alias[i] < 0x7f && alias[i] != '/';
    if (!good || strstr(alias, ".."))
        return error_field(err, "sandbox_id",
                           "'sandbox_id' must be 1 to %d printable bytes without '/' and '..'",
                           ALIAS_MAX);
    return 0;
}

static int parse_resources_in(const json_t *res, struct spec *s, uint64_t *ret_timeout_ms,
                              struct error *err)
{
    double cpu = 0;
    int64_t memory = 0, disk = 0, timeout = 0;
    int r = json_member_number(res, "cpu", 0, 1024, &cpu, err);
    if (r < 0)
        return r;
    r = json_member_int(res, "mem_mb", 0, 1 << 24, &memory, err);
    if (r < 0)
        return r;
    r = json_member_int(res, "disk_mb", 0, 1 << 24, &disk, err);
    if (r < 0)
        return r;
    r = json_member_int(res, "timeout_ms", 0, INT64_MAX / 1000000, &timeout, err);
    if (r < 0)
        return r;
    /* 0 is how Go clients say "not set". */
    if (cpu > 0) {
        s->limits.cpu_millicores = cpu < 0.001 ? 1 : (uint32_t)(cpu * 1000);
        s->asked[WALL_CPU] = true;
    }
    if (memory) {
        s->limits.memory_bytes = (uint64_t)memory << 20;
        s->asked[WALL_MEMORY] = true;
    }
    if (disk) {
        s->limits.disk_bytes = (uint64_t)disk << 20;
        s->asked[WALL_DISK] = true;
    }
    *ret_timeout_ms = (uint64_t)timeout;
    return 0;
}

static int parse_resources(const json_t *body, struct spec *s, uint64_t *ret_timeout_ms,
                           struct error *err)
{
    json_t *res = NULL;
    int r = json_member_object(body, "resources", &res, err);
    return r <= 0 ? r
                  : error_within(err, parse_resources_in(res, s, ret_timeout_ms, err), "resources");
}

static json_t *view_created(struct sandbox *sb)
{
    const char *id = sandbox_alias(sb) ? sandbox_alias(sb) : sandbox_id(sb);
    return json_pack("{s:s, s:s}", "sandbox_id", id, "status", "ok");
}

static struct sandbox *create_from(struct api_request *req, struct spec *spec, struct error *err)
{
    const char *alias = NULL;
    struct sandbox_maker by;
    if (json_member_string(req->body, "sandbox_id", &alias, err) < 0)
        return NULL;
    if (alias && !*alias)
        alias = NULL;
    if (alias && check_alias(alias, err) < 0)
        return NULL;
    struct sandbox_policy *own = sandbox_policy_new();
    const struct policy *policies[] = {&own->policy};
    if (policy_parse_request(json_object_get(req->body, "policy"), &own->policy, err) < 0 ||
        parse_resources(req->body, spec, &own->timeout_ms, err) < 0 ||
        tool_narrow_spec(spec, &own->policy, req->services->tool.mounts_allow, err) < 0 ||
        network_from_policies(spec, policies, 1, err) < 0 ||
        network_admit(req->services->gate, req->who, spec, &by, err) < 0) {
        sandbox_policy_free(own);
        return NULL;
    }
    return sandbox_create_narrowed(req->services->manager, spec, &by, alias, own, err);
}

int handle_mas_create(struct api_request *req)
{
    _cleanup_spec_ struct spec spec;
    spec_copy(&spec, req->services->default_spec);
    struct sandbox *sb = create_from(req, &spec, req->err);
    if (!sb)
        return -1;
    sandbox_reply_ready(req, sb, 200, view_created);
    return 0;
}

/* --- execute */

struct execute {
    struct policy policy;
    struct tool_call *call;
    struct api_request *req;
    char *tool_call_id;
};

static void execute_free(struct execute *x)
{
    policy_done(&x->policy);
    free(x->tool_call_id);
    free(x);
}

static void on_execute_abort(struct api_request *req)
{
    struct execute *x = req->state;
    tool_call_abandon(x->call);
    execute_free(x);
}

static void on_tool_done(void *data, const struct tool_result *r)
{
    struct execute *x = data;
    struct api_request *req = x->req;
    bool ok = r->ok || tool_result_is_unsuccessful(r);
    json_t *o = json_object();
    if (x->tool_call_id)
        json_object_set_new(o, "tool_call_id", json_string(x->tool_call_id));
    json_object_set_new(o, "status", json_string(ok ? "ok" : "error"));
    if (r->result)
        json_object_set(o, "result", r->result);
    if (!ok)
        json_object_set_new(
            o, "error",
            json_pack("{s:s, s:o}", "code", r->code, "message", json_message(r->message)));
    if (r->approval_id)
        json_object_set_new(o, "approval_id", json_string(r->approval_id));
    json_object_set_new(o, "exit_code", json_integer(ok ? 0 : r->exit_code));
    /* Whole numbers, rounded up: clients of this contract decode both into integers. */
    json_object_set_new(
        o, "usage",
        json_pack("{s:I, s:I}", "cpu_ms",
                  (json_int_t)((r->usage.user_us + r->usage.system_us + 999) / 1000), "mem_mb",
                  (json_int_t)((r->usage.max_rss_kb + 1023) / 1024)));
    if (r->stderr_text && *r->stderr_text)
        json_object_set_new(o, "stderr", json_string(r->stderr_text));
    execute_free(x);
    api_reply(req, 200, o);
}

/* The MAS API answers 200 with the verdict inside, once the request itself could be read. No policy
 * has denied anything here: a sandbox that does not exist is a fault of the request. */
static void reply_invalid(struct execute *x, const struct error *err)
{
    struct tool_result r = {.code = "invalid_request", .message = err->message, .exit_code = 1};
    on_tool_done(x, &r);
}

int handle_mas_execute(struct api_request *req)
{
    json_t *tool = NULL;
    const char *id = NULL, *sandbox_name = NULL, *name = NULL;
    int r = json_member_object(req->body, "tool", &tool, req->err);
    if (r < 0)
        return r;
    if (!tool)
        return error_field(req->err, "tool", "'tool' is missing");
    r = json_member_string(tool, "name", &name, req->err);
    if (r < 0)
        return r;
    if (!name)
        return error_field(req->err, "tool", "'tool.name' is missing");
    r = json_member_string(req->body, "tool_call_id", &id, req->err);
    if (r < 0)
        return r;
    r = json_member_string(req->body, "sandbox_id", &sandbox_name, req->err);
    if (r < 0)
        return r;
    struct execute *x = new0(struct execute);
    r = policy_parse_request(json_object_get(req->body, "policy"), &x->policy, req->err);
    if (r < 0) {
        execute_free(x);
        return -1;
    }
    x->req = req;
    x->tool_call_id = id ? xstrdup(id) : NULL;
    struct tool_request tr = {.who = req->who,
                              .terms = &req->terms,
                              .name = name,
                              .args = json_object_get(tool, "args"),
                              .policy = &x->policy};
    if (sandbox_name && *sandbox_name) {
        tr.sandbox = api_lookup_sandbox(req, sandbox_name);
        if (!tr.sandbox) {
            error_set(req->err, ERROR_NOT_FOUND, 0, "there is no sandbox '%.80s'", sandbox_name);
            reply_invalid(x, req->err);
            return 0;
        }
    }
    req->state = x;
    req->on_abort = on_execute_abort;
    struct tool_call *call = tool_call_start(&req->services->tool, &tr, on_tool_done, x);
    if (call)
        x->call = call;
    return 0;
}

/* --- destroy */

static json_t *view_destroyed(struct sandbox *sb)
{
    (void)sb;
    return json_pack("{s:s}", "status", "ok");
}

int handle_mas_destroy(struct api_request *req)
{
    const char *id = NULL;
    int r = json_member_string(req->body, "sandbox_id", &id, req->err);
    if (r < 0)
        return r;
    if (!id)
        return error_field(req->err, "sandbox_id", "'sandbox_id' is missing");
    /* The contract has no error for a sandbox that is gone already, or never was: its clients
     * destroy what they may have made, some of them twice. */
    struct sandbox *sb = api_lookup_sandbox(req, id);
    if (sb)
        sandbox_reply_deleted(req, sb, 200, view_destroyed);
    else
        api_reply(req, 200, view_destroyed(NULL));
    return 0;
}
