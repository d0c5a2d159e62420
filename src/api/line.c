/* SPDX-License-Identifier: Apache-2.0 */
/* The line protocol: {"id","tool","args","policy"} in,
 * {"id","result","error","exit_code","duration"} out. One call at a time keeps answers in the order
 * of requests. */
#include <string.h>

#include "api/internal.h"
#include "api/members.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"

#define LINE_OUT_MAX (64 * 1024 * 1024)
#define IGNORED_MAX  1024

struct line_call {
    void (*on_line)(void *data, const char *line, size_t len);
    void *data;
    int64_t started_ns;
    char *id;
    struct policy policy;
};

static void answer_call(struct line_call *c, json_t *result, const char *message, int exit_code,
                        int64_t duration_ns)
{
    char duration[CLOCK_DURATION_SIZE];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(LINE_OUT_MAX);
    clock_format_duration(duration_ns, duration);
    _cleanup_json_ json_t *o = json_object();
    json_object_set_new(o, "id", json_string(c->id ? c->id : ""));
    if (result)
        json_object_set(o, "result", result);
    if (message && *message)
        json_object_set_new(o, "error", json_message(message));
    json_object_set_new(o, "exit_code", json_integer(exit_code));
    json_object_set_new(o, "duration", json_string(duration));
    json_format(o, &b);
    c->on_line(c->data, b.data, b.len);
    policy_done(&c->policy);
    free(c->id);
    free(c);
}

static void on_done(void *data, const struct tool_result *r)
{
    struct line_call *c = data;
    bool ok = r->ok || tool_result_is_unsuccessful(r);
    answer_call(c, r->result, ok ? NULL : r->message, ok ? 0 : r->exit_code,
                clock_mono_ns() - c->started_ns);
}

static int parse_call(struct line_call *c, const json_t *o, const char **ret_tool,
                      struct error *err)
{
    const char *id = NULL;
    int r = json_member_string(o, "id", &id, err);
    if (id)
        c->id = xstrdup(id);
    if (r < 0)
        return r;
    /* An answer of the line protocol has no place for what was ignored, so the log says it. */
    _cleanup_strbuf_ struct strbuf ignored = STRBUF_INIT(IGNORED_MAX);
    const struct members_check how = {.ignored = &ignored};
    r = members_check(&how, o, body_mas_line, "", err);
    if (r < 0)
        return r;
    if (ignored.len)
        log_warn("members of a request were ignored: %s", ignored.data);
    r = json_member_string(o, "tool", ret_tool, err);
    if (r < 0)
        return r;
    if (!*ret_tool)
        return error_field(err, "tool", "'tool' is missing");
    return policy_parse_request(json_object_get(o, "policy"), &c->policy, err);
}

void api_line(struct api *api, const char *line, size_t len,
              void (*on_line)(void *data, const char *line, size_t len), void *data)
{
    struct error err = {0};
    const char *tool = NULL;
    struct line_call *c = new0(struct line_call);
    c->on_line = on_line;
    c->data = data;
    c->started_ns = clock_mono_ns();
    _cleanup_json_ json_t *o = json_parse_object(line, len, &err);
    if (!o || parse_call(c, o, &tool, &err) < 0) {
        error_prefix(&err, "invalid request");
        answer_call(c, NULL, err.message, 1, 0);
        return;
    }
    struct tool_request req = {.who = &identity_local,
                               .name = tool,
                               .args = json_object_get(o, "args"),
                               .policy = &c->policy};
    tool_call_start(&api->services.tool, &req, on_done, c);
}
