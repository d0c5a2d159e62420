/* SPDX-License-Identifier: Apache-2.0 */
/* Streamable HTTP: POST brings messages, GET opens a stream, DELETE ends a session. Who may ask,
 * and from which page, the api has checked before. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/request.h"
#include "base/alloc.h"
#include "base/json.h"
#include "mcp/internal.h"
#include "mcp/stream.h"

#define ERROR_BODY_MAX (RPC_ID_MAX + 4096)
#define JSON_TYPE      "application/json"
#define EVENTS_TYPE    "text/event-stream"

/* --- refusing */

static void refuse_request(struct api_request *req, int status, const char *id, int code,
                           const char *message)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ERROR_BODY_MAX);
    rpc_format_error(&text, id, code, message);
    api_reply_text(req, status, JSON_TYPE, text.data, text.len);
}

/* Whether a list of media types has one that matches; parameters are not looked at. */
static bool header_accepts_type(const char *list, const char *type)
{
    size_t major = strcspn(type, "/") + 1;
    while (list && *list) {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, ",; \t");
        if ((n == strlen(type) && strncasecmp(list, type, n) == 0) ||
            (n == 3 && strncmp(list, "*/*", 3) == 0) ||
            (n == major + 1 && strncasecmp(list, type, major) == 0 && list[major] == '*'))
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

static bool is_json_type(const char *type)
{
    size_t n = type ? strcspn(type, "; \t") : 0;
    return n == strlen(JSON_TYPE) && strncasecmp(type, JSON_TYPE, n) == 0;
}

/* False after refusing. */
static bool check_version(struct api_request *req)
{
    char why[160];
    enum mcp_revision revision;
    const char *version = http_request_header(req->http, "MCP-Protocol-Version");
    if (!version || mcp_revision_parse(version, &revision) == 0)
        return true;
    snprintf(why, sizeof(why), "MCP-Protocol-Version '%.40s' is not supported; the newest is %s",
             version, mcp_revision_name(_MCP_REVISION_MAX - 1));
    refuse_request(req, 400, NULL, RPC_INVALID_REQUEST, why);
    return false;
}

/* The session of the request, or NULL after refusing, with the message's own id where it has one.
 * A session of another key does not exist. */
static struct mcp_session *find_session(struct api_request *req, const char *message_id)
{
    const char *id = http_request_header(req->http, "Mcp-Session-Id");
    struct mcp_session *s = id ? session_find(req->data, req->owner, id) : NULL;
    if (!id)
        refuse_request(req, 400, message_id, RPC_INVALID_REQUEST,
                       "Mcp-Session-Id is missing: it comes with the answer to 'initialize'");
    else if (!s)
        refuse_request(req, 404, message_id, RPC_SESSION_NOT_FOUND,
                       "there is no such session (any more): initialize a new one");
    else
        s->who = *req->who; /* its roles may be others by now */
    return s;
}

/* --- POST */

static void drop_message(struct outlet *o, const char *text, size_t len)
{
    (void)o, (void)text, (void)len;
}

static bool never_full(const struct outlet *o)
{
    (void)o;
    return false;
}

static void keep_outlet(struct outlet *o)
{
    (void)o;
}

static void serve_initialize(struct api_request *req, const struct rpc_text *t, const char *id)
{
    struct error err = {0};
    if (http_request_header(req->http, "Mcp-Session-Id")) {
        if (find_session(req, id))
            refuse_request(req, 400, id, RPC_INVALID_REQUEST, "the session is initialized already");
        return;
    }
    struct mcp_session *s = session_new(req->data, req->who, true, &err);
    if (!s) {
        http_response_header(req->http, "Retry-After", "1");
        refuse_request(req, error_code_http(err.code), id, RPC_OVER_LIMIT, err.message);
        return;
    }
    struct http_request *http = api_take(req);
    struct stream *st = stream_new_exchange(s, http, 1, false);
    dispatch_text(s, stream_outlet(st), t);
    bool good = s->initialized;
    if (good)
        http_response_header(http, "Mcp-Session-Id", s->id);
    stream_dispatched(st);
    if (!good)
        session_end(s);
    session_unref(s);
}

static bool is_initialize(const struct rpc_text *t)
{
    const char *method = json_string_value(json_object_get(t->json, "method"));
    return method && strcmp(method, "initialize") == 0 && json_object_get(t->json, "id");
}

static void serve_in_session(struct api_request *req, const struct rpc_text *t, const char *id)
{
    const char *why;
    size_t answers = rpc_count_answers(t);
    struct mcp_session *s = find_session(req, id);
    if (!s)
        return;
    if ((why = dispatch_refuse_batch(s, t))) {
        refuse_request(req, 400, NULL, RPC_INVALID_REQUEST, why);
        return;
    }
    if (answers == 0) {
        /* Notifications and responses only: nothing is answered. */
        static const struct outlet_ops nowhere_ops = {.send = drop_message,
                                                      .answer = drop_message,
                                                      .is_full = never_full,
                                                      .free = keep_outlet};
        struct outlet nowhere = {&nowhere_ops, 1};
        dispatch_text(s, &nowhere, t);
        api_reply_text(req, 202, JSON_TYPE, "", 0);
        return;
    }
    struct stream *st = stream_new_exchange(s, api_take(req), answers, t->batch);
    dispatch_text(s, stream_outlet(st), t);
    stream_dispatched(st);
}

static void on_body(struct http_request *http, const char *body, size_t len)
{
    struct api_request *req = http_request_data(http);
    struct error err = {0};
    struct rpc_text t;
    if (rpc_text_parse(&t, body, len, &err) < 0) {
        refuse_request(req, 400, NULL, RPC_PARSE_ERROR, err.message);
        return;
    }
    struct rpc_message first = {0};
    if (!t.batch)
        rpc_message_init(&first, &t, 0);
    if (first.kind == RPC_INVALID)
        refuse_request(req, 400, first.id, first.code, first.why);
    else if (is_initialize(&t))
        serve_initialize(req, &t, first.id);
    else
        serve_in_session(req, &t, first.kind == RPC_REQUEST ? first.id : NULL);
    rpc_message_done(&first);
    rpc_text_done(&t);
}

static void on_too_large(struct http_request *http)
{
    refuse_request(http_request_data(http), 413, NULL, RPC_INVALID_REQUEST,
                   "the message is too long (mcp_max_message_bytes)");
}

static int handle_post(struct api_request *req)
{
    const struct mcp *m = req->data;
    const char *accept = http_request_header(req->http, "Accept");
    if (!is_json_type(http_request_header(req->http, "Content-Type")))
        refuse_request(req, 415, NULL, RPC_INVALID_REQUEST, "Content-Type must be " JSON_TYPE);
    else if (!header_accepts_type(accept, JSON_TYPE) || !header_accepts_type(accept, EVENTS_TYPE))
        refuse_request(req, 406, NULL, RPC_INVALID_REQUEST,
                       "Accept must have both " JSON_TYPE " and " EVENTS_TYPE);
    else if (check_version(req))
        http_request_read_body(req->http, m->o.config.max_message_bytes, on_body, on_too_large);
    return 0;
}

/* --- GET and DELETE */

static int handle_get(struct api_request *req)
{
    const char *event_id = http_request_header(req->http, "Last-Event-ID");
    if (http_request_method(req->http) == HTTP_HEAD_) {
        http_response_header(req->http, "Allow", "GET, POST, DELETE");
        refuse_request(req, 405, NULL, RPC_INVALID_REQUEST, "HEAD is not a method of a stream");
        return 0;
    }
    if (!header_accepts_type(http_request_header(req->http, "Accept"), EVENTS_TYPE)) {
        refuse_request(req, 406, NULL, RPC_INVALID_REQUEST, "Accept must have " EVENTS_TYPE);
        return 0;
    }
    struct mcp_session *s = check_version(req) ? find_session(req, NULL) : NULL;
    if (!s)
        return 0;
    session_touch(s);
    if (!event_id)
        stream_open_loose(s, api_take(req));
    else if (!stream_has_event(s, event_id))
        refuse_request(req, 400, NULL, RPC_INVALID_REQUEST,
                       "Last-Event-ID is of no stream that is kept (mcp_replay_ttl)");
    else
        stream_resume(s, api_take(req), event_id);
    return 0;
}

static int handle_delete(struct api_request *req)
{
    struct mcp_session *s = check_version(req) ? find_session(req, NULL) : NULL;
    if (!s)
        return 0;
    session_end(s);
    api_reply_text(req, 204, JSON_TYPE, "", 0);
    return 0;
}

static const struct route mcp_routes[] = {
    {HTTP_POST_, "/mcp", STYLE_RPC, ROUTE_RAW | ROUTE_EXECUTES, handle_post, "MCP messages",
     ROLE_AGENT},
    {HTTP_GET_, "/mcp", STYLE_RPC, 0, handle_get, "MCP messages of the server as events",
     ROLE_AGENT},
    {HTTP_DELETE_, "/mcp", STYLE_RPC, 0, handle_delete, "end an MCP session", ROLE_AGENT},
};

static void put_metrics(void *data, struct strbuf *out)
{
    const struct mcp *m = data;
    const struct api_metric metrics[] = {
        {"sandbox_mcp_sessions", "gauge", "MCP sessions that exist now.", m->n_sessions},
        {"sandbox_mcp_sessions_total", "counter", "MCP sessions begun.", m->sessions_total},
        {"sandbox_mcp_requests_running", "gauge", "MCP requests under way.", m->n_calls},
        {"sandbox_mcp_requests_total", "counter", "MCP requests served.", m->calls_total},
        {"sandbox_mcp_buffered_bytes", "gauge", "Bytes of events kept for readers.", m->buffered},
    };
    for (size_t i = 0; i < ELEMENTS(metrics); i++)
        api_put_metric(out, &metrics[i]);
}

struct api_extension mcp_extension(struct mcp *m)
{
    return (struct api_extension){mcp_routes, ELEMENTS(mcp_routes), m, put_metrics};
}
