/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines: parsing requests, answering. Two shapes are taken: that of the daemon's line protocol
 * ({"id","tool":"name","args"}) and that of its execute route ({"tool_call_id","tool":{"name",
 * "args"}}); each is answered in kind. Runs in a child as the tool's user. */
#include "proto/policy-members.h"
#include "toolrunner/json-line.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/tool.h"

#define READ_SIZE 65536

#define IGNORED_MAX 1024

/* What requests of each shape may have. Their arguments are for the tool to check. */
static const struct member line_members[] = {{"id"}, {"tool"}, {"args"}, POLICY_MEMBER, {0}};
static const struct member execute_members[] = {{"sandbox_id"}, {"tool_call_id"}, {"tool"},
                                                POLICY_MEMBER,  {"trace"},        {0}};

struct request {
    bool execute_shape;
    const char *id, *tool;
    const json_t *args, *policy;
    int64_t timeout_ms;
};

static json_t *policy_find(const json_t *policy, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)policy, key, value)
    {
        if (json_key_is(key, name) && !json_is_null(value))
            return value;
    }
    return NULL;
}

/* AllowedPaths and Workdir together; a new reference. */
static json_t *policy_paths(const json_t *policy)
{
    json_t *paths = json_array(), *listed = policy_find(policy, "allowedpaths"), *dir;
    size_t i;
    json_array_foreach(listed, i, dir) json_array_append(paths, dir);
    dir = policy_find(policy, "workdir");
    if (json_is_string(dir) && *json_string_value(dir))
        json_array_append(paths, dir);
    return paths;
}

static bool policy_allows_tool(const json_t *policy, const char *tool)
{
    json_t *list = policy_find(policy, "allowedtools"), *name;
    size_t i;
    json_array_foreach(list, i, name)
    {
        if (json_is_string(name) && !strcmp(json_string_value(name), tool))
            return true;
    }
    return json_array_size(list) == 0;
}

/* An empty list is no limit. A tool without any capability fits no list that has one. */
static bool policy_allows_capability(const json_t *policy, const char *capability)
{
    json_t *list = policy_find(policy, "allowedcaps"), *name;
    size_t i;
    json_array_foreach(list, i, name)
    {
        if (capability && !strcmp(json_string_value(name), capability))
            return true;
    }
    return json_array_size(list) == 0;
}

/* The member that narrows a call in a way that the runner has no means for, or NULL. Of its tools
 * only commands see an environment or a network. Values that mean "not set" pass, because clients
 * in Go send every member. */
static const char *policy_find_unenforced(const json_t *policy, bool command)
{
    const json_t *network = policy_find(policy, "network");
    if (json_number_value(policy_find(policy, "memorylimit")) != 0)
        return "MemoryLimit";
    if (json_number_value(policy_find(policy, "maxconcurrent")) != 0)
        return "MaxConcurrent";
    if (command && json_array_size(policy_find(policy, "envwhitelist")))
        return "EnvWhitelist";
    if (command && json_array_size(policy_find(network, "allowedhosts")))
        return "Network.AllowedHosts";
    return NULL;
}

/* What cannot be read is no reason to run longer than was meant. */
static int policy_timeout(const json_t *policy, int64_t *ret_ms, struct error *err)
{
    json_t *t = policy_find(policy, "timeout");
    int64_t ns = 0;
    bool known = !t || json_whole_number(t, &ns) >= 0 ||
                 (json_is_string(t) && clock_parse_duration(json_string_value(t), &ns) >= 0);
    if (!known || ns < 0)
        return error_field(err, "Timeout",
                           "'Timeout' is neither nanoseconds nor a duration such as \"30s\"");
    *ret_ms = ns > 0 ? (int64_t)clock_ms_up(ns) : JSON_LINE_TIMEOUT_MS;
    return 0;
}

/* Members that no guard is meant by are ignored, as the daemon does; there is no log here. */
static int request_check_members(const json_t *o, bool execute_shape, struct error *err)
{
    _cleanup_strbuf_ struct strbuf ignored = STRBUF_INIT(IGNORED_MAX);
    const struct members_check how = {.ignored = &ignored};
    return members_check(&how, o, execute_shape ? execute_members : line_members, "", err);
}

/* What a refusal is answered with, its shape and its id, is in q before anything is refused. */
static int request_parse(const json_t *o, struct request *q, struct error *err)
{
    json_t *tool = json_object_get(o, "tool"), *args = NULL, *policy = NULL;
    *q = (struct request){.id = "", .execute_shape = json_is_object(tool)};
    const json_t *holder = q->execute_shape ? tool : o;
    if (json_member_string(o, q->execute_shape ? "tool_call_id" : "id", &q->id, err) < 0 ||
        request_check_members(o, q->execute_shape, err) < 0 ||
        json_member_string(holder, q->execute_shape ? "name" : "tool", &q->tool, err) < 0 ||
        json_member_object(holder, "args", &args, err) < 0 ||
        json_member_object(o, "policy", &policy, err) < 0 ||
        policy_timeout(policy, &q->timeout_ms, err) < 0)
        return -EINVAL;
    q->args = args;
    q->policy = policy;
    return q->tool ? 0 : error_field(err, "tool", "tool is required");
}

static json_t *request_run(const struct request *q, struct tool_failure *f)
{
    _cleanup_json_ json_t *no_args = json_object();
    _cleanup_json_ json_t *paths = policy_paths(q->policy);
    const json_t *args = q->args ? q->args : no_args;
    const char *capability = tool_capability(q->tool);
    tool_function *tool = tool_find(q->tool);
    bool shell = !strcmp(q->tool, "shell"), code = !strcmp(q->tool, "code");
    if (!tool && !shell && !code)
        return tool_fail(f, "invalid_request", "tool not found");
    if (!policy_allows_tool(q->policy, q->tool))
        return tool_fail(f, "policy_denied", "tool not allowed");
    if (!policy_allows_capability(q->policy, capability))
        return tool_fail(f, "policy_denied", "capability not allowed: %s",
                         capability ? capability : "the tool has none");
    const char *unenforced = policy_find_unenforced(q->policy, !tool);
    if (unenforced)
        return tool_fail(f, "policy_denied", "the runner cannot hold a call to 'policy.%s'",
                         unenforced);
    if (tool)
        return tool(args, paths, f);
    return shell ? json_line_shell(args, q->timeout_ms, f) : json_line_code(args, q->timeout_ms, f);
}

static int result_exit_code(const json_t *result)
{
    json_t *code = json_object_get(result, "exit_code");
    return json_is_integer(code) ? (int)json_integer_value(code) : 0;
}

static json_t *request_answer(const struct request *q, json_t *result, const struct tool_failure *f,
                              int64_t duration_ns)
{
    char duration[CLOCK_DURATION_SIZE];
    clock_format_duration(duration_ns, duration);
    json_t *o = json_object();
    json_object_set_new(o, q->execute_shape ? "tool_call_id" : "id", json_string(q->id));
    if (q->execute_shape)
        json_object_set_new(o, "status", json_string(f->code ? "error" : "ok"));
    json_t *shown = result ? result : f->result;
    if (shown)
        json_object_set(o, "result", shown);
    if (f->code) {
        bool lossy;
        json_t *text = json_string_from_bytes(f->message, strlen(f->message), &lossy);
        if (q->execute_shape)
            text = json_pack("{s:s, s:o}", "code", f->code, "message", text);
        json_object_set_new(o, "error", text);
    }
    json_object_set_new(o, "exit_code", json_integer(f->code ? 1 : result_exit_code(result)));
    if (!q->execute_shape)
        json_object_set_new(o, "duration", json_string(duration));
    return o;
}

static json_t *line_answer(const char *line, size_t len)
{
    struct error err = {0};
    struct request q = {.id = ""};
    struct tool_failure f = {.code = NULL};
    int64_t started = clock_mono_ns();
    _cleanup_json_ json_t *o = json_parse_object(line, len, &err);
    if (!o || request_parse(o, &q, &err) < 0) {
        tool_fail(&f, "invalid_request", "%s%s",
                  q.execute_shape ? "" : "invalid request: ", err.message);
        return request_answer(&q, NULL, &f, 0);
    }
    _cleanup_json_ json_t *result = request_run(&q, &f);
    /* What the tool itself says did not succeed is a result, as in the daemon's answers. */
    if (f.code && !strcmp(f.code, "tool_failed") &&
        json_is_false(json_object_get(f.result, "success"))) {
        result = steal_ptr(f.result);
        f.code = NULL;
    }
    json_t *answer = request_answer(&q, result, &f, clock_mono_ns() - started);
    json_decref(f.result);
    return answer;
}

static int line_serve(int fd, const char *line, size_t len)
{
    while (len && isspace((unsigned char)line[len - 1]))
        len--;
    if (!len)
        return 0;
    _cleanup_json_ json_t *answer = line_answer(line, len);
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(SIZE_MAX / 4);
    int r = json_format(answer, &out);
    if (r < 0)
        return r;
    r = strbuf_puts(&out, "\n");
    if (r < 0)
        return r;
    return fd_write_all(fd, out.data, out.len);
}

static void refuse_long_line(int fd)
{
    static const char text[] =
        "{\"id\":\"\",\"error\":\"invalid request: line longer than 10 MiB\","
        "\"exit_code\":1,\"duration\":\"0s\"}\n";
    fd_write_all(fd, text, sizeof(text) - 1);
}

void json_line_serve(int fd, const char *workdir)
{
    _cleanup_strbuf_ struct strbuf in = STRBUF_INIT(JSON_LINE_MAX + 1);
    if (workdir && chdir(workdir) < 0)
        return;
    for (;;) {
        char *end;
        while (in.len && (end = memchr(in.data, '\n', in.len))) {
            size_t len = (size_t)(end - in.data);
            if (line_serve(fd, in.data, len) < 0)
                return;
            strbuf_consume(&in, len + 1);
        }
        if (in.len >= JSON_LINE_MAX) {
            refuse_long_line(fd);
            return;
        }
        size_t room = in.max - in.len;
        strbuf_reserve(&in, room < READ_SIZE ? room : READ_SIZE);
        ssize_t n = read(fd, in.data + in.len, room < READ_SIZE ? room : READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        strbuf_commit(&in, (size_t)n);
    }
    line_serve(fd, in.data ? in.data : "", in.len); /* a last line without an end */
}
