/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the client on behalf of a call: sampling, elicitation, roots. They ride on the call's
 * outlet; the answer comes as a message of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "mcp/internal.h"

#define ASKS_MAX    8 /* of one call, at once */
#define ASK_ID_SIZE 24
#define ASK_MAX     (1024 * 1024)

struct ask {
    struct list node; /* call->asks */
    char id[ASK_ID_SIZE];
    int64_t until_ms;
    void (*on_answer)(struct mcp_call *call, const json_t *result, const struct error *err,
                      void *data);
    void *data;
};

static const struct {
    const char *method;
    enum mcp_client_capability capability;
} askable[] = {
    {"sampling/createMessage", MCP_CLIENT_SAMPLING},
    {"elicitation/create", MCP_CLIENT_ELICITATION},
    {"roots/list", MCP_CLIENT_ROOTS},
};

static bool can_ask(const struct mcp_session *s, const char *method)
{
    for (size_t i = 0; i < ELEMENTS(askable); i++)
        if (strcmp(askable[i].method, method) == 0)
            return mcp_session_client_has(s, askable[i].capability);
    return false;
}

static size_t count_asks(const struct list *asks)
{
    size_t n = 0;
    list_for_each(a, asks, struct ask, node)
        n++;
    return n;
}

int mcp_call_ask(struct mcp_call *call, const char *method, json_t *params,
                 void (*on_answer)(struct mcp_call *call, const json_t *result,
                                   const struct error *err, void *data),
                 void *data)
{
    struct mcp_session *s = call->session;
    _cleanup_json_ json_t *taken = params;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ASK_MAX);
    if (!can_ask(s, method))
        return -ENOTSUP;
    if (call->cancelled || s->deaf || count_asks(&call->asks) >= ASKS_MAX)
        return -EBUSY;
    struct ask *a = new0(struct ask);
    snprintf(a->id, sizeof(a->id), "%llu", (unsigned long long)++s->next_ask);
    if (rpc_format_request(&text, a->id, method, taken) < 0) {
        free(a);
        return -EFBIG;
    }
    a->on_answer = on_answer;
    a->data = data;
    a->until_ms = clock_mono_ms() + (int64_t)s->mcp->o.config.client_timeout_ms;
    list_append(&call->asks, &a->node);
    call->outlet->ops->send(call->outlet, text.data, text.len);
    return 0;
}

static void ask_settle(struct mcp_call *call, struct ask *a, const json_t *result,
                       const struct error *err)
{
    list_remove(&a->node);
    a->on_answer(call, result, err, a->data);
    free(a);
}

static struct ask *find_ask(struct mcp_session *s, const char *id, struct mcp_call **ret_call)
{
    list_for_each(call, &s->calls, struct mcp_call, node) {
        list_for_each(a, &call->asks, struct ask, node) {
            if (strcmp(a->id, id) == 0) {
                *ret_call = call;
                return a;
            }
        }
    }
    return NULL;
}

/* An answer whose question is not open any more is dropped. */
void asks_answer(struct mcp_session *s, const struct rpc_message *m)
{
    struct error err = {0};
    struct mcp_call *call = NULL;
    struct ask *a = find_ask(s, m->id, &call);
    if (!a)
        return;
    const char *message = json_string_value(json_object_get(m->error, "message"));
    if (m->error)
        error_set(&err, ERROR_FORBIDDEN, 0, "the client answered: %.300s",
                  message ? message : "an error");
    else if (!json_is_object(m->result))
        error_set(&err, ERROR_INVALID, 0, "the client's answer is not an object");
    ask_settle(call, a, error_is_set(&err) ? NULL : m->result, error_is_set(&err) ? &err : NULL);
}

static void tell_cancelled(struct mcp_call *call, const struct ask *a)
{
    _cleanup_json_ json_t *params =
        json_pack("{s:I}", "requestId", (json_int_t)strtoll(a->id, NULL, 10));
    outlet_notify(call->outlet, "notifications/cancelled", params);
}

void asks_cancel(struct mcp_call *call)
{
    struct error err = {0};
    struct mcp_session *s = session_ref(call->session);
    _cleanup_free_ char *id = xstrdup(call->id);
    error_set(&err, ERROR_CONFLICT, 0, "the call was cancelled");
    /* The handler may finish the call from inside. */
    while (call_find(s, id) == call && !list_empty(&call->asks)) {
        struct ask *a = container_of(call->asks.next, struct ask, node);
        tell_cancelled(call, a);
        ask_settle(call, a, NULL, &err);
    }
    session_unref(s);
}

void mcp_call_unask(struct mcp_call *call)
{
    struct error err = {0};
    error_set(&err, ERROR_CONFLICT, 0, "the question was answered in another way");
    while (!list_empty(&call->asks)) {
        struct ask *a = container_of(call->asks.next, struct ask, node);
        tell_cancelled(call, a);
        ask_settle(call, a, NULL, &err);
    }
}

static struct ask *find_late(struct mcp_session *s, int64_t now_ms, struct mcp_call **ret_call)
{
    list_for_each(call, &s->calls, struct mcp_call, node) {
        list_for_each(a, &call->asks, struct ask, node) {
            if (a->until_ms <= now_ms) {
                *ret_call = call;
                return a;
            }
        }
    }
    return NULL;
}

/* Every question that was to be answered by then ends with err. */
static void fail_late(struct mcp_session *s, int64_t until_ms, const struct error *err)
{
    struct mcp_call *call;
    struct ask *a;
    while ((a = find_late(s, until_ms, &call))) {
        tell_cancelled(call, a);
        ask_settle(call, a, NULL, err);
    }
}

void asks_expire(struct mcp_session *s, int64_t now_ms)
{
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, 0, "the client did not answer in time (mcp_client_timeout)");
    fail_late(s, now_ms, &err);
}

void asks_fail(struct mcp_session *s)
{
    struct error err = {0};
    error_set(&err, ERROR_CONFLICT, 0, "the client's input has ended: it will not answer");
    s->deaf = true;
    fail_late(s, INT64_MAX, &err);
}
