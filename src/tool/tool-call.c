/* SPDX-License-Identifier: Apache-2.0 */
/* One tool call: policies checked and turned into walls, the tool run, its answer made a result. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "gateway/gateway-client.h"
#include "sandbox/sandbox-policy.h"
#include "tool/network.h"
#include "tool/run.h"
#include "tool/tool.h"

#define TOOL_ANSWER_MAX (16 * 1024 * 1024) /* the JSON a tool may answer with */
#define TOOL_INPUT_MAX  (32 * 1024 * 1024)
#define TOOL_PATHS_MAX  512

struct tool_call {
    const struct tool_options *options;
    const struct tool *tool;
    bool lasting; /* runs in a sandbox that stays */
    void (*on_done)(void *data,
                    const struct tool_result *r); /* NULL if the caller does not wait any more */
    void *data;
    struct run *run;
};

/* What is gathered before the run starts; everything here is copied by run_start(). */
struct preparation {
    struct tool_command command;
    struct spec spec;
    char **paths; /* NULL if it is not narrowed */
    struct exec_path *exec_paths;
    uint64_t timeout_ms, limit_as_bytes;
};

static const char *code_of(enum error_code code)
{
    switch (code) {
    case ERROR_DENIED:
    case ERROR_PENDING:
    case ERROR_FORBIDDEN:
        return "policy_denied";
    case ERROR_CRASH:
        return "sandbox_crash";
    case ERROR_TOOL_FAILED:
    case ERROR_TIMEOUT:
    case ERROR_NO_SPACE:
        return "tool_failed";
    case ERROR_INTERNAL:
    case ERROR_UNAVAILABLE:
    case ERROR_LIMIT:
        return "internal";
    default:
        return "invalid_request";
    }
}

static void call_fail(struct tool_call *call, const struct error *err)
{
    struct tool_result r = {.approval_id = err->code == ERROR_PENDING ? err->ref : NULL,
                            .code = code_of(err->code),
                            .message = err->message,
                            .exit_code = 1};
    call->on_done(call->data, &r);
    free(call);
}

/* --- the answer */

static void collect_stream(struct exec *e, uint8_t stream, size_t max, struct strbuf *out,
                           uint64_t *ret_omitted)
{
    size_t gap;
    journal_collect(exec_journal(e), stream, max, out, ret_omitted, &gap);
    if (*ret_omitted) {
        char note[64];
        _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(max + sizeof(note));
        snprintf(note, sizeof(note), "\n[... %llu bytes omitted ...]\n",
                 (unsigned long long)*ret_omitted);
        strbuf_append(&joined, out->data, gap);
        strbuf_puts(&joined, note);
        strbuf_append(&joined, out->data + gap, out->len - gap);
        strbuf_done(out);
        out->len = joined.len;
        out->alloc = joined.alloc;
        out->data = strbuf_steal(&joined);
    }
}

static void set_text(json_t *obj, const char *key, const struct strbuf *b)
{
    bool lossy;
    json_object_set_new(obj, key, json_string_from_bytes(b->data ? b->data : "", b->len, &lossy));
}

/* A command's result is its output. */
static void answer_command(struct tool_call *call, struct exec *e)
{
    const struct exec_result *er = exec_result(e);
    size_t max = call->options->max_output_bytes;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(max + 64), errs = STRBUF_INIT(max + 64);
    char message[300];
    uint64_t omitted[2];
    collect_stream(e, OUTPUT_STDOUT, max, &out, &omitted[0]);
    collect_stream(e, OUTPUT_STDERR, max, &errs, &omitted[1]);
    _cleanup_json_ json_t *result = json_object();
    set_text(result, "stdout", &out);
    set_text(result, "stderr", &errs);
    if (er->has_exit_code)
        json_object_set_new(result, "exit_code", json_integer(er->exit_code));
    if (omitted[0] || omitted[1])
        json_object_set_new(result, "truncated", json_true());
    struct tool_result r = {.ok = er->status == EXEC_COMPLETED && er->exit_code == 0,
                            .result = result,
                            .exit_code = er->has_exit_code ? er->exit_code : 1,
                            .usage = er->usage};
    if (!r.ok) {
        r.code = er->crashed ? "sandbox_crash" : "tool_failed";
        snprintf(message, sizeof(message), "exit status %d", er->exit_code);
        r.message = *er->error ? er->error : message;
        r.stderr_text = json_string_value(json_object_get(result, "stderr"));
    }
    call->on_done(call->data, &r);
}

/* A tool that could not even answer. */
static void answer_broken(struct tool_call *call, struct exec *e)
{
    const struct exec_result *er = exec_result(e);
    _cleanup_strbuf_ struct strbuf errs = STRBUF_INIT(4096 + 64);
    uint64_t omitted;
    collect_stream(e, OUTPUT_STDERR, 4096, &errs, &omitted);
    _cleanup_json_ json_t *holder = json_object();
    set_text(holder, "stderr", &errs);
    struct tool_result r = {.code = er->crashed ? "sandbox_crash" : "tool_failed",
                            .message = *er->error ? er->error : "the tool gave no answer",
                            .exit_code = er->has_exit_code && er->exit_code ? er->exit_code : 1,
                            .usage = er->usage,
                            .stderr_text = json_string_value(json_object_get(holder, "stderr"))};
    call->on_done(call->data, &r);
}

/* The MAS API's codes are the only ones a tool can make us say. */
static const char *known_code(const char *code)
{
    static const char *const known[] = {"policy_denied", "invalid_request", "tool_failed"};
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (strcmp(known[i], code) == 0)
            return known[i];
    return "tool_failed";
}

static void answer_json(struct tool_call *call, struct exec *e)
{
    const struct exec_result *er = exec_result(e);
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(TOOL_ANSWER_MAX);
    struct error ignored = {0};
    uint64_t omitted = 0;
    size_t gap;
    if (er->status == EXEC_COMPLETED)
        journal_collect(exec_journal(e), OUTPUT_STDOUT, TOOL_ANSWER_MAX, &out, &omitted, &gap);
    _cleanup_json_ json_t *answer =
        out.len && !omitted ? json_parse_answer(out.data, out.len, &ignored) : NULL;
    /* The tool ran beside code of the caller's: an answer that is not whole, or a failure that does
     * not say so, counts as none. */
    if (!answer || (er->exit_code && !json_object_get(answer, "error"))) {
        answer_broken(call, e);
        return;
    }
    const char *message = NULL, *code = "tool_failed";
    struct tool_result r = {.ok = er->exit_code == 0, .exit_code = er->exit_code};
    r.usage = er->usage;
    r.result = r.ok ? answer : json_object_get(answer, "result");
    if (!r.ok) {
        json_member_string(answer, "error", &message, &ignored);
        json_member_string(answer, "code", &code, &ignored);
        r.message = message ? message : "the tool failed";
        r.code = known_code(code);
    }
    call->on_done(call->data, &r);
}

bool tool_result_is_unsuccessful(const struct tool_result *r)
{
    return !r->ok && strcmp(r->code, "tool_failed") == 0 &&
           json_is_false(json_object_get(r->result, "success"));
}

static void on_run_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    struct tool_call *call = data;
    (void)run;
    if (!call->on_done) {
        free(call);
        return;
    }
    if (err) {
        call_fail(call, err);
        return;
    }
    if (call->tool->place == TOOL_AS_COMMAND)
        answer_command(call, e);
    else
        answer_json(call, e);
    free(call);
}

static const struct run_events run_events = {.on_done = on_run_done};

/* --- what the policies make of it */

static const struct sandbox_policy *own_policy(const struct tool_request *req)
{
    return req->sandbox ? sandbox_policy(req->sandbox) : NULL;
}

static uint64_t min_set(uint64_t a, uint64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* What both lists allow: of each pair, the deeper path where one lies below the other. Too many
 * are refused instead of cut off: a path that is missing would only deny, but a caller could not
 * know which. */
static int intersect_paths(char *const *a, char *const *b, char ***ret, struct error *err)
{
    size_t n = 0;
    char **both = xcalloc(TOOL_PATHS_MAX + 1, sizeof(*both));
    for (; *a; a++)
        for (char *const *q = b; *q; q++) {
            const char *deeper = path_below(*a, *q) ? *q : path_below(*q, *a) ? *a : NULL;
            if (deeper && n == TOOL_PATHS_MAX) {
                strv_free(both);
                return error_set(
                    err, ERROR_TOO_LARGE, 0,
                    "AllowedPaths of the call and of its sandbox meet in over %d paths",
                    TOOL_PATHS_MAX);
            }
            if (deeper)
                both[n++] = xstrdup(deeper);
        }
    *ret = both;
    return 0;
}

static int paths_of(const struct tool_request *req, char ***ret, struct error *err)
{
    const struct sandbox_policy *own = own_policy(req);
    _cleanup_strv_ char **a = own ? policy_paths(&own->policy) : NULL;
    _cleanup_strv_ char **b = req->policy ? policy_paths(req->policy) : NULL;
    if (a && b)
        return intersect_paths(a, b, ret, err);
    *ret = a ? steal_ptr(a) : steal_ptr(b);
    return 0;
}

/* A lasting sandbox keeps its memory limit; a call's smaller one is an address-space limit, which
 * is the same thing for a tool of one process and not for a command that may fork. */
static int narrow_memory(struct preparation *p, const struct tool *tool, uint64_t limit,
                         const struct sandbox *sb, struct error *err)
{
    const struct effective *e = sandbox_effective(sb);
    if (!limit || (e->by[WALL_MEMORY] && e->limits.memory_bytes && e->limits.memory_bytes <= limit))
        return 0;
    if (tool->place == TOOL_AS_COMMAND)
        return error_set(err, ERROR_UNENFORCEABLE, 0,
                         "MemoryLimit below the sandbox's own cannot be enforced for one command; "
                         "create the sandbox with it");
    p->limit_as_bytes = limit;
    return 0;
}

static int narrow_by(const struct tool_options *o, const struct tool_request *req,
                     const struct tool *tool, const struct policy *policy, struct preparation *p,
                     struct error *err)
{
    p->timeout_ms = min_set(p->timeout_ms, clock_ms_up(policy->timeout_ns));
    if (req->sandbox && tool->place != TOOL_IN_HELPER)
        return narrow_memory(p, tool, policy->memory_bytes, req->sandbox, err);
    return tool_narrow_spec(&p->spec, policy, o->mounts_allow, err);
}

static int prepare_input(const struct tool_options *o, const struct tool *tool, const json_t *args,
                         struct preparation *p, struct error *err)
{
    if (tool->place == TOOL_AS_COMMAND)
        return 0;
    _cleanup_json_ json_t *input = json_object();
    json_object_set_new(input, "tool", json_string(tool->name));
    json_object_set(input, "args", (json_t *)args);
    if (o->web_search_endpoint)
        json_object_set_new(input, "web_search_endpoint", json_string(o->web_search_endpoint));
    if (tool->capabilities & CAPABILITY_FILE)
        json_object_set_new(input, "allowed_paths", json_from_strv(p->paths));
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(TOOL_INPUT_MAX);
    if (json_format(input, &b) < 0)
        return error_set(err, ERROR_TOO_LARGE, 0, "the tool's arguments are too large");
    p->command.stdin_len = b.len;
    p->command.stdin_data = strbuf_steal(&b);
    return 0;
}

/* Redirects are decided by the gateway, so it gets what both policies allow. The helper is a
 * program of the host's, and no image has its libraries. */
static int set_hosts(struct preparation *p, const struct tool_request *req, struct error *err)
{
    const struct sandbox_policy *own = own_policy(req);
    char *const *scope = own ? own->policy.allowed_hosts : NULL;
    char *const *call = req->policy ? req->policy->allowed_hosts : NULL;
    p->spec.tool_net = true;
    p->spec.network = false;
    spec_set_image(&p->spec, NULL, NULL, NULL, NULL, NULL);
    strv_free(p->spec.hosts);
    p->spec.hosts = gateway_hosts_intersect(scope, call);
    return gateway_rules_check(
        &(struct gateway_rules){.hosts = p->spec.hosts, .hosts_member = "AllowedHosts"}, err);
}

static int call_prepare(const struct tool_options *o, const struct tool *tool,
                        const struct tool_request *req, const json_t *args, struct preparation *p,
                        struct error *err)
{
    const struct sandbox_policy *own = own_policy(req);
    spec_copy(&p->spec, o->default_spec);
    p->timeout_ms = min_set(o->max_timeout_ms, own ? own->timeout_ms : 0);
    int r = tool_build(tool, args, &p->command, err);
    if (r < 0)
        return r;
    if (own)
        r = narrow_by(o, req, tool, &own->policy, p, err);
    if (r < 0)
        return r;
    if (req->policy)
        r = narrow_by(o, req, tool, req->policy, p, err);
    if (r < 0)
        return r;
    r = paths_of(req, &p->paths, err);
    if (r < 0)
        return r;
    size_t n = strv_length(p->paths);
    p->exec_paths = xcalloc(n, sizeof(*p->exec_paths));
    for (size_t i = 0; i < n; i++)
        p->exec_paths[i] = (struct exec_path){true, p->paths[i]};
    const struct policy *policies[] = {own ? &own->policy : NULL, req->policy};
    if (tool->place == TOOL_IN_HELPER)
        r = set_hosts(p, req, err);
    else if (!req->sandbox && tool->place == TOOL_AS_COMMAND)
        r = network_from_policies(&p->spec, policies, ELEMENTS(policies), err);
    if (r < 0)
        return r;
    return prepare_input(o, tool, args, p, err);
}

static void preparation_done(struct preparation *p)
{
    tool_command_done(&p->command);
    spec_done(&p->spec);
    strv_free(p->paths);
    free(p->exec_paths);
}

/* --- the call */

static struct run *start_run(struct tool_call *call, const struct tool_request *req,
                             const json_t *args, const struct preparation *p, struct error *err)
{
    bool helper = call->tool->place == TOOL_IN_HELPER;
    struct run_file file = {p->command.file, p->command.file_data,
                            p->command.file_data ? strlen(p->command.file_data) : 0, 0644};
    struct run_request run = {
        .manager = call->options->manager,
        .gate = call->options->gate,
        .sandbox = helper ? NULL : req->sandbox,
        .scope_of = req->sandbox,
        .spec = &p->spec,
        .who = req->who,
        .terms = req->terms,
        .call = {.tool = call->tool->name,
                 .capabilities = call->tool->capabilities,
                 .args = args,
                 .host = p->command.host,
                 .port = p->command.port,
                 .policies = &req->policy,
                 .n_policies = req->policy ? 1 : 0},
        .files = &file,
        .n_files = p->command.file ? 1 : 0,
        .exec = {.argv = p->command.argv,
                 .stdin_data = p->command.stdin_data,
                 .stdin_len = p->command.stdin_len,
                 .builtin = call->tool->place == TOOL_IN_RUNNER,
                 .timeout_ms = p->timeout_ms,
                 .limit_as_bytes = p->limit_as_bytes,
                 .narrow = p->paths && !helper,
                 .paths = p->exec_paths,
                 .n_paths = helper ? 0 : strv_length(p->paths),
                 .env_whitelist = req->policy ? req->policy->env_whitelist : NULL,
                 .cwd = req->sandbox && req->policy ? req->policy->workdir : NULL},
    };
    return run_start(&run, &run_events, call, err);
}

static int check_request(const struct tool_request *req, const struct tool **ret_tool,
                         struct error *err)
{
    *ret_tool = tool_find(req->name);
    if (!*ret_tool)
        return error_set(err, ERROR_INVALID, 0, "tool not found");
    if (req->args && !json_is_null(req->args) && !json_is_object(req->args))
        return error_field(err, "args", "'args' must be an object");
    /* The call's own limit; the sandbox's is run_start()'s to check. */
    const struct sandbox_policy *own = own_policy(req);
    int64_t max = own && req->policy ? req->policy->max_concurrent : 0;
    if (max > 0 && own->running >= max)
        return error_set(err, ERROR_DENIED, 0, "too many concurrent calls (MaxConcurrent %lld)",
                         (long long)max);
    return 0;
}

struct tool_call *tool_call_start(const struct tool_options *o, const struct tool_request *req,
                                  void (*on_done)(void *data, const struct tool_result *r),
                                  void *data)
{
    struct error err = {0};
    struct preparation p = {0};
    struct tool_call *call = new0(struct tool_call);
    call->options = o;
    call->on_done = on_done;
    call->data = data;
    _cleanup_json_ json_t *args =
        json_is_object(req->args) ? json_incref((json_t *)req->args) : json_object();
    if (check_request(req, &call->tool, &err) >= 0 &&
        call_prepare(o, call->tool, req, args, &p, &err) >= 0)
        call->run = start_run(call, req, args, &p, &err);
    preparation_done(&p);
    if (!call->run) {
        call_fail(call, &err);
        return NULL;
    }
    call->lasting = req->sandbox && call->tool->place != TOOL_IN_HELPER;
    return call;
}

bool tool_call_is_waiting(const struct tool_call *call)
{
    return run_is_waiting(call->run);
}

/* A call in a lasting sandbox that is not waiting for a person goes on without its caller:
 * on_run_done() finds on_done gone, and frees it. */
void tool_call_abandon(struct tool_call *call)
{
    if (!call)
        return;
    call->on_done = NULL;
    if (call->lasting && !run_leave(call->run))
        return; /* it goes on, and counts until it ends */
    if (!call->lasting)
        run_abandon(call->run);
    free(call);
}
