/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher of the revisions with sessions: initialize first, then the methods of a table. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "mcp/internal.h"

#define SERVER_NAME  "mas-sandbox"
#define SERVER_TITLE "MAS sandbox"

/* --- initialize */

static json_t *server_capabilities(const struct mcp *m)
{
    json_t *c = json_pack("{s:{}, s:{}}", "logging", "completions");
    bool resources = false;
    for (size_t i = 0; i < m->o.n_catalogs; i++)
        resources = resources || m->o.catalogs[i]->n_resources;
    if (m->n_tools)
        json_object_set_new(c, "tools", json_pack("{s:b}", "listChanged", 0));
    if (resources)
        json_object_set_new(c, "resources",
                            json_pack("{s:b, s:b}", "subscribe", 1, "listChanged", 1));
    if (json_array_size(m->prompt_list))
        json_object_set_new(c, "prompts", json_pack("{s:b}", "listChanged", 0));
    return c;
}

static bool elicits_forms(const json_t *e)
{
    return json_is_object(e) && (json_object_size(e) == 0 || json_object_get(e, "form"));
}

/* A client may say as much of itself as one message holds, and a key may have a thousand sessions:
 * so only what is asked about later is kept. */
static unsigned read_capabilities(const json_t *c, enum mcp_revision revision)
{
    unsigned has = 0;
    if (json_is_object(json_object_get(c, "sampling")))
        has |= MCP_CLIENT_SAMPLING;
    if (json_is_object(json_object_get(c, "roots")))
        has |= MCP_CLIENT_ROOTS;
    if (revision >= MCP_2025_06_18 && elicits_forms(json_object_get(c, "elicitation")))
        has |= MCP_CLIENT_ELICITATION;
    return has;
}

static void method_initialize(struct mcp_call *call)
{
    struct mcp_session *s = call->session;
    const json_t *capabilities = json_object_get(call->params, "capabilities");
    const json_t *info = json_object_get(call->params, "clientInfo");
    const char *asked = call_param_string(call, "protocolVersion");
    if (!asked)
        return;
    if (!json_is_object(capabilities) || !json_is_object(info)) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS,
                          "'capabilities' and 'clientInfo' must be objects");
        return;
    }
    /* A revision that is not known here is answered with the newest one, and the client decides:
     * that is how MCP's versions are negotiated. */
    if (mcp_revision_parse(asked, &s->revision) < 0)
        s->revision = _MCP_REVISION_MAX - 1;
    s->client_has = read_capabilities(capabilities, s->revision);
    s->initialized = true;
    log_debug("mcp session begins key=%s revision=%s", s->who.key, mcp_revision_name(s->revision));
    json_t *result =
        json_pack("{s:s, s:o, s:{s:s, s:s, s:s}}", "protocolVersion",
                  mcp_revision_name(s->revision), "capabilities", server_capabilities(s->mcp),
                  "serverInfo", "name", SERVER_NAME, "title", SERVER_TITLE, "version", MAS_VERSION);
    if (s->mcp->instructions.len)
        json_object_set_new(result, "instructions", json_string(s->mcp->instructions.data));
    mcp_call_finish(call, result);
}

static void method_ping(struct mcp_call *call)
{
    mcp_call_finish(call, json_object());
}

static void method_set_level(struct mcp_call *call)
{
    const char *name = call_param_string(call, "level");
    if (!name)
        return;
    if (mcp_level_parse(name, &call->session->level) < 0)
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'level': there is no level '%.40s'", name);
    else
        mcp_call_finish(call, json_object());
}

/* --- methods */

static const struct {
    const char *name;
    void (*handle)(struct mcp_call *call);
    bool early; /* legal before the session is initialized */
} methods[] = {
    {"initialize", method_initialize, true},
    {"ping", method_ping, true},
    {"logging/setLevel", method_set_level, false},
    {"tools/list", method_tools_list, false},
    {"tools/call", method_tools_call, false},
    {"resources/list", method_resources_list, false},
    {"resources/templates/list", method_resources_templates, false},
    {"resources/read", method_resources_read, false},
    {"resources/subscribe", method_resources_subscribe, false},
    {"resources/unsubscribe", method_resources_unsubscribe, false},
    {"prompts/list", method_prompts_list, false},
    {"prompts/get", method_prompts_get, false},
    {"completion/complete", method_complete, false},
};

static bool is_token(const json_t *token)
{
    return !token || json_is_string(token) || json_is_integer(token);
}

/* 0, or the code of what is wrong with the request as such. */
static int check_request(const struct mcp_session *s, const struct rpc_message *m, bool early,
                         char *why, size_t size)
{
    const json_t *meta = json_object_get(m->params, "_meta");
    bool again = s->initialized && strcmp(m->method, "initialize") == 0;
    if (again || (!early && !s->initialized)) {
        snprintf(why, size,
                 again ? "the session is initialized already"
                       : "the first request must be 'initialize'");
        return RPC_INVALID_REQUEST;
    }
    /* Two calls of one id could not be told apart by a cancellation. */
    if (call_find((struct mcp_session *)s, m->id)) {
        snprintf(why, size, "a request with this id is under way");
        return RPC_INVALID_REQUEST;
    }
    if (s->n_calls >= s->mcp->o.config.max_calls) {
        snprintf(why, size, "%zu requests of this session are under way (mcp_max_calls)",
                 s->n_calls);
        return RPC_OVER_LIMIT;
    }
    if (meta && (!json_is_object(meta) || !is_token(json_object_get(meta, "progressToken")))) {
        snprintf(why, size, "'_meta' must be an object, its progressToken a string or a number");
        return RPC_INVALID_PARAMS;
    }
    return 0;
}

static void serve_request(struct mcp_session *s, struct outlet *o, struct rpc_message *m)
{
    char why[200];
    for (size_t i = 0; i < ELEMENTS(methods); i++) {
        if (strcmp(methods[i].name, m->method) != 0)
            continue;
        int code = check_request(s, m, methods[i].early, why, sizeof(why));
        if (code)
            outlet_fail(o, m->id, code, why);
        else
            methods[i].handle(call_new(s, o, steal_ptr(m->id), m->params));
        return;
    }
    snprintf(why, sizeof(why), "there is no method '%.100s'", m->method);
    outlet_fail(o, m->id, RPC_METHOD_NOT_FOUND, why);
}

/* Notifications have no answer, not even to say that they are wrong. */
static void serve_notification(struct mcp_session *s, const struct rpc_text *t, size_t i,
                               const struct rpc_message *m)
{
    if (strcmp(m->method, "notifications/cancelled") != 0)
        return;
    _cleanup_free_ char *id = rpc_request_id(t, i, m);
    struct mcp_call *call = id ? call_find(s, id) : NULL;
    if (call)
        call_cancel(call);
}

void dispatch_text(struct mcp_session *s, struct outlet *o, const struct rpc_text *t)
{
    session_ref(s);
    /* A message of a batch may end the session: the rest of the batch then has nothing to act
     * on. */
    for (size_t i = 0; i < rpc_text_count(t) && !s->ended; i++) {
        struct rpc_message m;
        rpc_message_init(&m, t, i);
        session_touch(s);
        switch (m.kind) {
        case RPC_REQUEST:
            serve_request(s, o, &m);
            break;
        case RPC_NOTIFICATION:
            serve_notification(s, t, i, &m);
            break;
        case RPC_RESPONSE:
            asks_answer(s, &m);
            break;
        case RPC_INVALID:
            outlet_fail(o, m.id, m.code, m.why);
            break;
        }
        rpc_message_done(&m);
    }
    session_unref(s);
}

const char *dispatch_refuse_batch(const struct mcp_session *s, const struct rpc_text *t)
{
    if (!t->batch)
        return NULL;
    if (!s->initialized || s->revision != MCP_2025_03_26)
        return "this revision of the protocol has no batches";
    if (rpc_text_count(t) == 0)
        return "the batch is empty";
    if (rpc_text_count(t) > s->mcp->o.config.max_batch)
        return "the batch has too many messages (mcp_max_batch)";
    return NULL;
}

/* --- for all methods */

const char *call_param_string(struct mcp_call *call, const char *name)
{
    const json_t *v = json_object_get(call->params, name);
    if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
        return json_string_value(v);
    mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'%s' must be a string%s", name,
                      json_is_string(v) ? " without NUL" : "");
    return NULL;
}

void call_finish_page(struct mcp_call *call, const char *name, const json_t *items)
{
    const json_t *cursor = json_object_get(call->params, "cursor");
    size_t size = call->session->mcp->o.config.page_size, n = json_array_size(items), at = 0;
    char *end = NULL;
    if (cursor && !json_is_null(cursor)) {
        const char *text = json_string_value(cursor);
        at = text && strlen(text) < 10 && *text ? strtoul(text, &end, 10) : 0;
        if (!end || *end || at == 0 || at > n) {
            mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'cursor' is not one that was given out");
            return;
        }
    }
    json_t *page = json_array();
    for (size_t i = at; i < n && i < at + size; i++)
        json_array_append(page, json_array_get(items, i));
    json_t *result = json_pack("{s:o}", name, page);
    if (at + size < n)
        json_object_set_new(result, "nextCursor", json_sprintf("%zu", at + size));
    mcp_call_finish(call, result);
}
