/* SPDX-License-Identifier: Apache-2.0 */
/* The sbx API: sandboxes and streaming exec, as existing clients speak it. */
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/network-json.h"
#include "api/run-reply.h"
#include "api/sandbox-reply.h"
#include "api/spec-json.h"
#include "gateway/gateway-client.h"
#include "api/stream.h"
#include "api/view.h"
#include "api/volume-json.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "tool/run.h"

/* --- create */

static void push_env(struct spec *s, char *entry)
{
    size_t n = strv_length(s->env);
    s->env = xrealloc(s->env, (n + 2) * sizeof(*s->env));
    s->env[n] = entry;
    s->env[n + 1] = NULL;
}

static char *join_words(char *const *list)
{
    size_t len = 1;
    for (char *const *i = list; *i; i++)
        len += strlen(*i) + 1;
    char *text = xcalloc(1, len);
    for (char *const *i = list; *i; i++) {
        strcat(text, *i);
        if (i[1])
            strcat(text, ",");
    }
    return text;
}

/* Lists of this API are hosts, without the attributes that rules of the native one may have. */
static int check_plain_hosts(struct spec *s, struct error *err)
{
    int r = gateway_hosts_check(s->hosts, "allowed_hosts", err);
    if (r < 0)
        return r;
    r = gateway_hosts_check(s->denied_hosts, "disallowed_hosts", err);
    if (r < 0)
        return r;
    return network_json_check(s, "allowed_hosts", "disallowed_hosts", err);
}

/* With no allowed host every host is disallowed. Both lists are shown to commands. */
static int parse_hosts(const json_t *body, struct spec *s, struct error *err)
{
    _cleanup_strv_ char **allowed = NULL, **disallowed = NULL;
    int r = json_member_strv(body, "allowed_hosts", 256, &allowed, err);
    if (r < 0)
        return r;
    r = json_member_strv(body, "disallowed_hosts", 256, &disallowed, err);
    if (r < 0)
        return r;
    if (allowed && allowed[0]) {
        _cleanup_free_ char *list = join_words(allowed);
        push_env(s, xasprintf("SBX_ALLOWED_HOSTS=%s", list));
    }
    if (disallowed && disallowed[0]) {
        _cleanup_free_ char *list = join_words(disallowed);
        push_env(s, xasprintf("SBX_DISALLOWED_HOSTS=%s", list));
    }
    strv_free(s->hosts);
    strv_free(s->denied_hosts);
    s->hosts = steal_ptr(allowed);
    s->denied_hosts = steal_ptr(disallowed);
    struct error why = {0};
    if (check_plain_hosts(s, &why) < 0)
        return error_field(err, why.field, "%s: %s", why.field, why.message);
    return 0;
}

/* Of existing clients some send "" for the image they do not want to choose. */
static int parse_image(const json_t *body, struct spec *s, struct error *err)
{
    const char *image = json_string_value(json_object_get(body, "image"));
    return image && !*image ? 0 : spec_json_image(body, s, err);
}

static int parse_create(struct api_request *req, struct spec *s, const char **ret_name,
                        char ***ret_command, struct error *err)
{
    _cleanup_free_ char **env = NULL; /* its strings become the spec's */
    const json_t *body = req->body;
    int r = json_member_string(body, "id", ret_name, err);
    if (r < 0)
        return r;
    if (*ret_name && !**ret_name)
        *ret_name = NULL;
    if (*ret_name && (r = sandbox_name_check(*ret_name, err)) < 0)
        return r;
    if ((r = parse_image(body, s, err)) < 0 ||
        (r = volume_json_parse(&req->services->config, body, s, err)) < 0 ||
        (r = spec_json_limits(body, s, err)) < 0 || (r = parse_hosts(body, s, err)) < 0)
        return r;
    r = json_member_strv(body, "command", EXEC_WORDS_MAX, ret_command, err);
    if (r < 0)
        return r;
    r = spec_json_env(body, "env", &env, err);
    if (r < 0)
        return r;
    for (size_t i = 0; env && env[i]; i++)
        push_env(s, env[i]);
    return 0;
}

static json_t *view_pod(struct sandbox *sb)
{
    return json_pack("{s:s, s:s, s:s}", "id", sandbox_id(sb), "namespace", sandbox_id(sb),
                     "pod_name", "sandbox");
}

/* The sandbox's own command starts with it, as a container's would. */
static void on_command_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    (void)data;
    (void)run;
    (void)e;
    (void)err;
}

static int start_command(struct api_request *req, struct sandbox *sb, struct error *err)
{
    static const struct run_events events = {.on_done = on_command_done};
    _cleanup_strv_ char **command = NULL;
    int r = json_member_strv(req->body, "command", EXEC_WORDS_MAX, &command, err);
    if (r < 0 || !command || !command[0])
        return r;
    struct run_request run = {.manager = req->services->manager,
                              .gate = req->services->gate,
                              .who = req->who,
                              .terms = &req->terms,
                              .sandbox = sb,
                              .call = {.tool = "exec", .capabilities = CAPABILITY_UNSAFE},
                              .exec = {.argv = command}};
    return run_start(&run, &events, NULL, err) ? 0 : -1;
}

int handle_sbx_create(struct api_request *req)
{
    _cleanup_spec_ struct spec spec;
    const char *name = NULL;
    _cleanup_strv_ char **command = NULL;
    spec_copy(&spec, req->services->default_spec);
    int r = parse_create(req, &spec, &name, &command, req->err);
    if (r < 0)
        return r;
    struct sandbox *found = command ? NULL : sandbox_of_key(req, &name);
    if (found)
        sandbox_reply_ready(req, found, 200, view_pod);
    else
        sandbox_reply_created(req, &spec, name, 200, view_pod, start_command);
    return 0;
}

/* --- get, list, delete */

static const char *state_to_phase(enum sandbox_state s)
{
    static const char *const phases[] = {"Pending", "Running", "Failed", "Terminating", "Unknown"};
    return phases[s];
}

static json_t *view_row(struct sandbox *sb)
{
    char age[CLOCK_DURATION_SIZE], last[CLOCK_RFC3339_SIZE] = "";
    int64_t seconds = (clock_real_ns() - sandbox_created_ns(sb)) / 1000000000;
    clock_format_duration(seconds > 0 ? seconds * 1000000000 : 0, age);
    if (sandbox_last_exec_ns(sb))
        clock_format_rfc3339(sandbox_last_exec_ns(sb), last);
    /* Every member of a row is a string in this contract, "allocated" too. */
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "id", sandbox_id(sb), "namespace",
                     sandbox_id(sb), "age", age, "state", sandbox_state_name(sandbox_state(sb)),
                     "allocated", "true", "last_exec_time", last);
}

int handle_sbx_list(struct api_request *req)
{
    struct manager *m = req->services->manager;
    size_t max = manager_counts(m)->sandboxes;
    struct sandbox **found = xcalloc(max, sizeof(struct sandbox *));
    size_t n = sandbox_list(m, identity_scope(req->who), NULL, found, max);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, view_row(found[i]));
    free(found);
    api_reply(req, 200, list);
    return 0;
}

int handle_sbx_get(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    json_t *o = view_pod(sb);
    json_object_set_new(o, "phase", json_string(state_to_phase(sandbox_state(sb))));
    api_reply(req, 200, o);
    return 0;
}

static json_t *view_deleted(struct sandbox *sb)
{
    (void)sb;
    return json_pack("{s:s}", "status", "deleted");
}

int handle_sbx_delete(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        sandbox_reply_deleted(req, sb, 200, view_deleted);
    return 0;
}

/* --- exec */

static json_t *view_started(struct exec *e, size_t max_output)
{
    (void)max_output;
    return json_pack("{s:s, s:s}", "exec_id", exec_id(e), "status", "running");
}

static json_t *view_finished(struct exec *e, size_t max_output)
{
    json_t *o = view_result(e, max_output);
    /* The sbx API has six words for a status. */
    json_object_set_new(o, "status", json_string(exec_status_name(exec_status(e))));
    /* Its clients take an answer with an exec_id for one of an asynchronous command, and then
     * drop the output. */
    json_object_del(o, "exec_id");
    return o;
}

int handle_sbx_exec(struct api_request *req)
{
    const struct services *o = req->services;
    bool async = o->config.async_exec;
    int64_t seconds = 0;
    _cleanup_strv_ char **command = NULL;
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    int64_t max_seconds =
        o->config.exec_max_timeout_ms ? (int64_t)o->config.exec_max_timeout_ms / 1000 : 1 << 30;
    int r = json_member_strv(req->body, "command", EXEC_WORDS_MAX, &command, req->err);
    if (r < 0)
        return r;
    if (!command || !command[0])
        return error_field(req->err, "command", "'command' must be a list of at least one string");
    r = json_member_bool(req->body, "async", &async, req->err);
    if (r < 0)
        return r;
    r = json_member_int(req->body, "timeout_seconds", 0, max_seconds, &seconds, req->err);
    enum exec_on_limit on_limit = EXEC_LIMIT_DEFAULT;
    if (r < 0)
        return r;
    r = spec_json_on_limit(req->body, &on_limit, req->err);
    if (r < 0)
        return r;
    uint64_t timeout = seconds ? (uint64_t)seconds * 1000 : o->config.exec_timeout_ms;
    struct run_request run = {
        .manager = o->manager,
        .gate = o->gate,
        .who = req->who,
        .terms = &req->terms,
        .sandbox = sb,
        .call = {.tool = "exec", .capabilities = CAPABILITY_UNSAFE},
        .exec = {.argv = command,
                 .timeout_ms = timeout ? timeout : o->config.exec_max_timeout_ms,
                 .on_limit = on_limit}};
    run_reply(req, &run, async ? RUN_ASYNC : RUN_SYNC, async ? view_started : view_finished,
              o->max_output_bytes);
    return 0;
}

static json_t *view_status(const struct exec *e)
{
    const struct exec_result *r = exec_result(e);
    json_t *o = json_pack("{s:s, s:s, s:s}", "sandbox_id", sandbox_id(exec_sandbox(e)), "exec_id",
                          exec_id(e), "status", exec_status_name(exec_status(e)));
    if (r->has_exit_code)
        json_object_set_new(o, "exit_code", json_integer(r->exit_code));
    json_object_set_new(o, "started_at", view_time(exec_started_ns(e)));
    if (exec_finished_ns(e))
        json_object_set_new(o, "finished_at", view_time(exec_finished_ns(e)));
    if (exec_timeout_ms(e))
        json_object_set_new(o, "timeout_seconds",
                            json_integer((json_int_t)((exec_timeout_ms(e) + 999) / 1000)));
    if (*r->error)
        json_object_set_new(o, "error", json_message(r->error));
    if (exec_output_blocked(e))
        json_object_set_new(o, "output_blocked", json_true());
    return o;
}

int handle_sbx_exec_status(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    struct exec *e = sb ? api_find_exec(req, sb) : NULL;
    if (e)
        api_reply(req, 200, view_status(e));
    return 0;
}

int handle_sbx_exec_cancel(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    struct exec *e = sb ? api_find_exec(req, sb) : NULL;
    if (e)
        cancel_reply(req, e, view_status);
    return 0;
}

/* --- streams */

int handle_sbx_stream(struct api_request *req)
{
    const char *id = http_request_query(req->http, "exec_id");
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    struct exec *e = id ? exec_find(sb, id) : NULL;
    if (!id)
        error_field(req->err, "exec_id", "'exec_id' is missing in the query");
    else if (!e)
        error_set(req->err, ERROR_NOT_FOUND, 0, "sandbox %s has no exec '%.80s'", sandbox_id(sb),
                  id);
    struct stream_query q;
    if (!e || stream_query_parse(req, &q, req->err) < 0)
        return -1;
    q.follow = true;
    stream_open(req, e, &q, NULL, NULL);
    return 0;
}
