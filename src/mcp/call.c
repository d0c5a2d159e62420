/* SPDX-License-Identifier: Apache-2.0 */
/* A request from the moment it is known to be one until its answer is on the outlet. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "mcp/internal.h"
#include "mcp/schema.h"

#define MESSAGE_MAX       512
#define NOTIFICATION_MAX  (64 * 1024)
#define RESULT_TEXT_EXTRA 4096

static const char *const level_names[] = {
    [MCP_DEBUG] = "debug",     [MCP_INFO] = "info",           [MCP_NOTICE] = "notice",
    [MCP_WARNING] = "warning", [MCP_ERROR] = "error",         [MCP_CRITICAL] = "critical",
    [MCP_ALERT] = "alert",     [MCP_EMERGENCY] = "emergency",
};
static_assert(ELEMENTS(level_names) == _MCP_LEVEL_MAX, "a name per level");

int mcp_level_parse(const char *name, enum mcp_level *ret)
{
    for (int i = 0; i < _MCP_LEVEL_MAX; i++)
        if (strcmp(level_names[i], name) == 0) {
            *ret = (enum mcp_level)i;
            return 0;
        }
    return -EINVAL;
}

/* --- outlets */

struct outlet *outlet_ref(struct outlet *o)
{
    o->refs++;
    return o;
}

void outlet_unref(struct outlet *o)
{
    if (o && --o->refs == 0)
        o->ops->free(o);
}

void outlet_fail(struct outlet *o, const char *id, int code, const char *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(NOTIFICATION_MAX);
    rpc_format_error(&text, id, code, message);
    o->ops->answer(o, text.data, text.len);
}

void outlet_notify(struct outlet *o, const char *method, const json_t *params)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(NOTIFICATION_MAX);
    if (rpc_format_notification(&text, method, params) == 0)
        o->ops->send(o, text.data, text.len);
}

/* --- its life */

struct mcp_call *call_new(struct mcp_session *s, struct outlet *o, char *id, const json_t *params)
{
    struct mcp_call *call = new0(struct mcp_call);
    call->session = session_ref(s);
    call->outlet = outlet_ref(o);
    call->id = id;
    call->params = params ? json_incref((json_t *)params) : json_object();
    call->arguments = json_object();
    call->progress_token = json_object_get(json_object_get(call->params, "_meta"), "progressToken");
    call->progress = -1;
    list_init(&call->asks);
    list_append(&s->calls, &call->node);
    s->n_calls++;
    s->mcp->n_calls++;
    s->mcp->calls_total++;
    return call;
}

struct mcp_call *call_find(struct mcp_session *s, const char *id)
{
    list_for_each(call, &s->calls, struct mcp_call, node)
        if (strcmp(call->id, id) == 0)
            return call;
    return NULL;
}

void call_cancel(struct mcp_call *call)
{
    if (call->cancelled)
        return;
    call->cancelled = true;
    /* A handler may finish the call from either; then there is nothing left to tell. */
    struct mcp_session *s = session_ref(call->session);
    _cleanup_free_ char *id = xstrdup(call->id);
    asks_cancel(call);
    if (call_find(s, id) == call && call->on_cancel)
        call->on_cancel(call);
    session_unref(s);
}

/* Every call is answered once, here. A cancelled one is answered with nothing, which tells its
 * outlet that no answer will come. The session goes last: it may be held by this call alone. */
static void call_end(struct mcp_call *call, const char *text, size_t len)
{
    assert(list_empty(&call->asks));
    struct mcp_session *s = call->session;
    list_remove(&call->node);
    s->n_calls--;
    s->mcp->n_calls--;
    session_touch(s);
    call->outlet->ops->answer(call->outlet, call->cancelled ? NULL : text, len);
    outlet_unref(call->outlet);
    json_decref(call->params);
    json_decref(call->arguments);
    free(call->id);
    free(call);
    session_unref(s);
}

static void call_fail(struct mcp_call *call, int code, const char *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(NOTIFICATION_MAX);
    rpc_format_error(&text, call->id, code, message);
    call_end(call, text.data, text.len);
}

void mcp_call_fail_rpc(struct mcp_call *call, int code, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    call_fail(call, code, message);
}

/* A result that breaks the promise of its tool's schema is our bug, and clients refuse it. */
static int check_output(const struct mcp_call *call, const json_t *result, struct error *err)
{
    const json_t *structured = json_object_get(result, "structuredContent");
    if (!call->tool || !call->tool->output || json_is_true(json_object_get(result, "isError")))
        return 0;
    if (!structured)
        return error_set(err, ERROR_INTERNAL, 0, "structuredContent is missing");
    return schema_check(call->tool->output, structured, "structuredContent", err);
}

void mcp_call_finish(struct mcp_call *call, json_t *result)
{
    struct error err = {0};
    _cleanup_json_ json_t *taken = result;
    _cleanup_strbuf_ struct strbuf text =
        STRBUF_INIT(call->session->mcp->o.config.max_answer_bytes);
    /* A wrong or oversized result becomes an error of the protocol, so that the client is not
     * left waiting. */
    if (check_output(call, taken, &err) < 0) {
        log_error("mcp: the result of %s is wrong: %s", call->tool->tool->name, err.message);
        call_fail(call, RPC_INTERNAL_ERROR, "the tool's result does not match its output schema");
    } else if (rpc_format_result(&text, call->id, taken) < 0) {
        call_fail(call, RPC_INTERNAL_ERROR,
                  "the answer is too large (mcp_max_answer_bytes): ask for less at a time");
    } else {
        call_end(call, text.data, text.len);
    }
}

/* --- results of tools and prompts */

static json_t *text_content(const char *text)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", json_message(text));
}

void mcp_call_finish_text(struct mcp_call *call, bool is_error, const char *text)
{
    json_t *result = json_pack("{s:[o]}", "content", text_content(text));
    if (is_error)
        json_object_set_new(result, "isError", json_true());
    mcp_call_finish(call, result);
}

void mcp_call_finish_structured(struct mcp_call *call, json_t *structured, const char *text)
{
    char *dumped = text ? NULL : json_dumps(structured, JSON_COMPACT);
    mcp_call_finish(call, json_pack("{s:[o], s:o}", "content", text_content(text ? text : dumped),
                                    "structuredContent", structured));
    free(dumped);
}

void mcp_call_finish_error(struct mcp_call *call, const struct error *err, const char *advice)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(sizeof(err->message) + RESULT_TEXT_EXTRA);
    strbuf_printf(&text, "%s: %s", error_code_name(err->code), err->message);
    if (advice)
        strbuf_printf(&text, "\n%s", advice);
    mcp_call_finish_text(call, true, text.data);
}

void mcp_call_finish_prompt(struct mcp_call *call, const char *description, const char *text)
{
    json_t *result =
        json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content", text_content(text));
    if (description)
        json_object_set_new(result, "description", json_message(description));
    mcp_call_finish(call, result);
}

/* --- while it runs */

bool mcp_call_wants_progress(const struct mcp_call *call)
{
    return call->progress_token && !call->cancelled;
}

/* MCP requires that progress grows, and a slow reader loses reports rather than making them
 * queue up. */
void mcp_call_progress(struct mcp_call *call, double done, double total, const char *message)
{
    if (!mcp_call_wants_progress(call) || done <= call->progress ||
        call->outlet->ops->is_full(call->outlet))
        return;
    call->progress = done;
    _cleanup_json_ json_t *params =
        json_pack("{s:O, s:f}", "progressToken", call->progress_token, "progress", done);
    if (total > 0)
        json_object_set_new(params, "total", json_real(total));
    if (message && call->session->revision >= MCP_2025_03_26)
        json_object_set_new(params, "message", json_message(message));
    outlet_notify(call->outlet, "notifications/progress", params);
}

/* Left out when the reader is slow, as progress is: a tool must not be held up by its own log. */
void mcp_call_log(struct mcp_call *call, enum mcp_level level, const char *logger,
                  const char *message)
{
    if (level < call->session->level || call->cancelled || call->outlet->ops->is_full(call->outlet))
        return;
    _cleanup_json_ json_t *params =
        json_pack("{s:s, s:o}", "level", level_names[level], "data", json_message(message));
    if (logger)
        json_object_set_new(params, "logger", json_string(logger));
    outlet_notify(call->outlet, "notifications/message", params);
}

void mcp_call_interrupt(struct mcp_call *call)
{
    if (call->outlet->ops->interrupt)
        call->outlet->ops->interrupt(call->outlet);
}

/* --- what it knows */

const json_t *mcp_call_arguments(const struct mcp_call *call)
{
    return call->arguments;
}

struct mcp_session *mcp_call_session(const struct mcp_call *call)
{
    return call->session;
}

const char *mcp_call_owner(const struct mcp_call *call)
{
    return call->session->who.key;
}

const struct identity *mcp_call_identity(const struct mcp_call *call)
{
    return &call->session->who;
}

const struct services *mcp_call_services(const struct mcp_call *call)
{
    return call->session->mcp->o.services;
}

const struct mcp_config *mcp_call_config(const struct mcp_call *call)
{
    return &call->session->mcp->o.config;
}

void mcp_call_set_state(struct mcp_call *call, void *state)
{
    call->state = state;
}

void *mcp_call_state(const struct mcp_call *call)
{
    return call->state;
}

void mcp_call_on_cancel(struct mcp_call *call, void (*on_cancel)(struct mcp_call *call))
{
    call->on_cancel = on_cancel;
}
