/* SPDX-License-Identifier: Apache-2.0 */
/* From an HTTP request to its route's handler: who asks, may they, which route, which body. */
#include "api/handlers.h"
#include "api/api.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/action.h"
#include "api/auth.h"
#include "api/cors.h"
#include "api/idempotency.h"
#include "api/internal.h"
#include "api/members.h"
#include "api/ports.h"
#include "api/request.h"
#include "api/route.h"
#include "api/traffic.h"
#include "api/webhook.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "identity/keys.h"
#include "validate/queue.h"

#define REPLY_MAX        (256 * 1024 * 1024)
#define REFUSED_RETRY_S  60
#define RPC_SERVER_ERROR (-32000) /* JSON-RPC's code for errors of the application */

struct api *api_new(const struct services *o)
{
    struct api *api = new0(struct api);
    api->services = *o;
    api->idempotency = idempotency_table_new(
        o->config.max_idempotency_keys, o->config.max_idempotency_keys_per_key,
        manager_options(o->manager)->config.retention_ms, o->store);
    api->actions = actions_new(api);
    struct validate_queue_options validations = {
        .loop = o->loop,
        .limits = {.max_bytes = o->config.max_body_bytes,
                   .timeout_ms = o->config.validate_timeout_ms},
        .max_waiting = o->config.validate_queue,
        .max_waiting_per_caller = o->config.validate_queue_per_key};
    api->validations = validate_queue_new(&validations);
    if (o->config.webhook.url) {
        struct webhook_options hook = {.loop = o->loop,
                                       .approvals = gate_approvals(o->gate),
                                       .events = o->events,
                                       .tool = &api->services.tool,
                                       .config = o->config.webhook};
        api->webhook = webhook_new(&hook);
    }
    return api;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    webhook_free(api->webhook);
    actions_free(api->actions);
    validate_queue_free(api->validations);
    idempotency_table_free(api->idempotency);
    free(api);
}

void api_extend(struct api *api, const struct api_extension *more)
{
    api->more = *more;
}

const struct services *api_services(const struct api *api)
{
    return &api->services;
}

/* --- answering */

static void request_free(struct api_request *req)
{
    for (size_t i = 0; i < API_PARAMS_MAX; i++)
        free(req->params[i]);
    json_decref(req->body);
    weak_clear(&req->weak);
    free(req);
}

/* The connection now belongs to the caller, which goes on after this request is freed: neither
 * the abort nor the data may lead back to it. */
struct http_request *api_take(struct api_request *req)
{
    struct http_request *http = req->http;
    http_request_on_abort(http, NULL, NULL);
    http_request_set_data(http, NULL);
    request_free(req);
    return http;
}

struct weak *api_later(struct api_request *req)
{
    return weak_ref(&req->weak, req);
}

/* The client of an idempotent request may have left (http is NULL); its answer is still counted
 * and kept. */
static void request_respond(struct api_request *req, int status, const char *type, const char *text,
                            size_t len)
{
    req->api->replies[status / 100 % 6]++;
    if (req->http) {
        http_request_on_abort(req->http, NULL, NULL);
        http_request_set_data(req->http, NULL); /* the rest of a body may still come */
        http_respond(req->http, status, type, text, len);
    }
    request_free(req);
}

static void respond_recorded(struct api_request *req, int status, const char *text, size_t len)
{
    request_respond(req, status, "application/json", text, len);
}

void api_reply_text(struct api_request *req, int status, const char *type, const char *text,
                    size_t len)
{
    /* The handler is done with it, but the answer of an idempotent request waits for its row. */
    weak_clear(&req->weak);
    req->on_abort = NULL;
    if (req->idempotency)
        idempotency_finish(req->idempotency, status, text, len, respond_recorded, req);
    else
        request_respond(req, status, type, text, len);
}

void api_reply(struct api_request *req, int status, json_t *body)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(REPLY_MAX);
    if (json_format(body, &b) < 0) {
        strbuf_reset(&b);
        strbuf_puts(&b, "{\"error\":\"the answer is too large\"}");
        status = 500;
    }
    json_decref(body);
    api_reply_text(req, status, "application/json", b.data, b.len);
}

json_t *api_error_body(enum route_style style, const struct error *err)
{
    if (style == STYLE_SBX)
        return json_pack("{s:o, s:s*}", "error", json_message(err->message), "approval_id",
                         *err->ref ? err->ref : NULL);
    if (style == STYLE_ACTIONS)
        return json_pack("{s:o}", "detail", json_message(err->message));
    if (err->code == ERROR_PENDING && style == STYLE_NATIVE)
        return json_pack("{s:s, s:s, s:o}", "status", "pending_approval", "approval_id", err->ref,
                         "message", json_message(err->message));
    if (style == STYLE_RPC)
        return json_pack("{s:s, s:n, s:{s:i, s:o}}", "jsonrpc", "2.0", "id", "error", "code",
                         RPC_SERVER_ERROR, "message", json_message(err->message));
    json_t *e = json_pack("{s:s, s:o}", "code", error_code_name(err->code), "message",
                          json_message(err->message));
    if (*err->field)
        json_object_set_new(e, "field", json_message(err->field));
    if (style == STYLE_MAS)
        return json_pack("{s:s, s:o}", "status", "error", "error", e);
    return json_pack("{s:o}", "error", e);
}

void api_fail(struct api_request *req, const struct error *err)
{
    if (req->http && (err->code == ERROR_LIMIT || err->code == ERROR_UNAVAILABLE)) {
        char seconds[16];
        snprintf(seconds, sizeof(seconds), "%u", req->retry_after_s ? req->retry_after_s : 1);
        http_response_header(req->http, "Retry-After", seconds);
    }
    if (err->code == ERROR_INTERNAL)
        log_error("request failed id=%s: %s", req->request_id, err->message);
    int status = error_code_http(err->code);
    if (err->code == ERROR_PENDING && req->route->style == STYLE_SBX)
        status = error_code_http(ERROR_CONFLICT); /* it knows no answer but done and failed */
    api_reply(req, status, api_error_body(req->route->style, err));
}

/* Errors that the HTTP server finds itself, before there is a route: they get the native form,
 * because which contract the client speaks is not known yet. */
size_t api_format_error(int status, const char *message, char *out, size_t size)
{
    struct error err = {0};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(size);
    enum error_code code = status == 413   ? ERROR_TOO_LARGE
                           : status == 415 ? ERROR_UNSUPPORTED
                           : status == 408 ? ERROR_TIMEOUT
                           : status == 503 ? ERROR_UNAVAILABLE
                           : status >= 500 ? ERROR_UNSUPPORTED
                                           : ERROR_INVALID;
    error_set(&err, code, 0, "%s", message);
    _cleanup_json_ json_t *body = api_error_body(STYLE_NATIVE, &err);
    if (json_format(body, &b) < 0)
        return 0;
    memcpy(out, b.data, b.len);
    return b.len;
}

/* A caller that sees everything still finds its own sandboxes first: aliases are unique per
 * owner, so another owner's alias must not hide its own. To a caller that may not see a sandbox
 * there is none, and the answer is the same as for an id that never existed. */
struct sandbox *api_lookup_sandbox(struct api_request *req, const char *id_or_alias)
{
    struct manager *m = req->services->manager;
    if (*req->traffic)
        return traffic_find_sandbox(req, id_or_alias);
    const char *own = *req->owner ? req->owner : identity_scope(req->who);
    struct sandbox *sb = sandbox_find(m, own, id_or_alias);
    if (!sb && identity_sees_all(req->who))
        sb = sandbox_find(m, "", id_or_alias);
    return sb;
}

void *api_found(struct api_request *req, void *thing, const char *kind)
{
    struct error err = {0};
    if (thing)
        return thing;
    error_set(&err, ERROR_NOT_FOUND, 0, "there is no %s '%.80s'", kind, req->params[0]);
    api_fail(req, &err);
    return NULL;
}

struct sandbox *api_find_sandbox(struct api_request *req)
{
    return api_found(req, api_lookup_sandbox(req, req->params[0]), "sandbox");
}

struct exec *api_find_exec(struct api_request *req, struct sandbox *sb)
{
    struct error err = {0};
    struct exec *e = exec_find(sb, req->params[1]);
    if (e)
        return e;
    error_set(&err, ERROR_NOT_FOUND, 0, "sandbox %s has no exec '%.80s'", sandbox_id(sb),
              req->params[1]);
    api_fail(req, &err);
    return NULL;
}

/* --- before the handler */

/* An id of the caller's goes into logs and answers, so it must be short and printable; anything
 * else is replaced and not refused, since the id matters less than the request. */
static void set_request_id(struct api_request *req)
{
    const char *given = http_request_header(req->http, "X-Request-Id");
    size_t n = given ? strlen(given) : 0;
    bool usable = n > 0 && n <= API_REQUEST_ID_MAX;
    for (size_t i = 0; usable && i < n; i++)
        usable = given[i] > ' ' && given[i] < 0x7f;
    if (usable)
        memcpy(req->request_id, given, n + 1);
    else
        random_id(req->request_id, 20);
    http_response_header(req->http, "X-Request-Id", req->request_id);
}

static void on_abort(struct http_request *http, void *data)
{
    struct api_request *req = data;
    (void)http;
    if (req->idempotency) {
        req->http = NULL; /* a client that repeats the request gets the answer */
        return;
    }
    if (req->on_abort)
        req->on_abort(req);
    request_free(req);
}

void api_stop(struct api_request *req)
{
    if (req->http) {
        http_request_on_abort(req->http, NULL, NULL);
        http_request_set_data(req->http, NULL);
    }
    if (req->on_abort)
        req->on_abort(req);
    request_free(req);
}

void api_key_ended(struct api *api, const char *id)
{
    idempotency_key_ended(api->idempotency, id);
}

static int parse_terms(struct api_request *req, struct error *err)
{
    const char *mode = http_request_header(req->http, "X-Mas-Approval");
    req->terms.approval_id = http_request_header(req->http, "X-Mas-Approval-Id");
    req->terms.wait = mode && strcmp(mode, "wait") == 0;
    if (mode && !req->terms.wait && strcmp(mode, "return") != 0)
        return error_set(err, ERROR_INVALID, 0, "X-Mas-Approval is either 'wait' or 'return'");
    return 0;
}

/* Callers without a key are told apart by their address; those of this machine count as one. */
static void set_address(struct identity *who, const char *address)
{
    if (*who->key || strcmp(address, "127.0.0.1") == 0 || strcmp(address, "::1") == 0)
        return;
    snprintf(who->address, sizeof(who->address), "%s", address);
}

static void call_handler(struct api_request *req)
{
    struct error err = {0};
    if (parse_terms(req, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    http_request_on_abort(req->http, on_abort, req);
    /* Changes that the handler makes are recorded as this key's. */
    struct manager *manager = req->services->manager;
    manager_set_actor(manager, req->who->key);
    req->err = &err;
    if (req->route->handle(req) < 0) {
        if (!error_is_set(&err)) /* or it would be answered as a success */
            error_set(&err, ERROR_INTERNAL, 0, "the request failed without a reason");
        api_fail(req, &err);
    }
    manager_set_actor(manager, NULL);
}

static void on_body(struct http_request *http, const char *body, size_t len)
{
    struct api_request *req = http_request_data(http);
    struct error err = {0};
    if (len || (req->route->flags & ROUTE_BODY)) {
        if (len)
            req->body = json_parse_request(body, len, &err);
        else
            error_set(&err, ERROR_INVALID, 0, "the body is empty: a JSON object is expected");
        if (!req->body) {
            api_fail(req, &err);
            return;
        }
    }
    if (api_check_members(req, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    if (idempotency_begin(req->api->idempotency, req, body, len))
        call_handler(req);
}

static void on_body_too_large(struct http_request *http)
{
    struct api_request *req = http_request_data(http);
    struct error err = {0};
    error_set(&err, ERROR_TOO_LARGE, 0, "the body is over %zu bytes (max_body_bytes)",
              req->services->config.max_body_bytes);
    api_fail(req, &err);
}

/* The key that a connection is counted for. Stream containers are not counted: each sandbox has one
 * at most. For the holder of a traffic token that is its maker's,
 * so that no key has more by making tokens. The token is shared by many callers, so it is not
 * counted. */
static const char *find_holder(const struct api_request *req)
{
    const char *key = req->who->key;
    if (strcmp(key, IDENTITY_TOKEN) == 0 || strcmp(key, IDENTITY_STREAM) == 0)
        return "";
    return *key ? key : req->who->address;
}

/* Headers that say who asks, or what is asked for. Of two the first would count here, and a proxy
 * in front of this daemon may have looked at the last, or have added its own. */
static int check_once(const struct http_request *http, struct error *err)
{
    static const char *const once[] = {
        "Idempotency-Key", "Last-Event-ID",     "Mcp-Protocol-Version", "Mcp-Session-Id",
        "X-Mas-Approval",  "X-Mas-Approval-Id", "X-Mas-Traffic-Token",  "X-Sandbox-Token"};
    unsigned seen = 0;
    const char *name, *value;
    for (size_t i = 0; (name = http_request_header_at(http, i, &value)); i++) {
        if (!strchr("ilmx", name[0] | 0x20))
            continue;
        for (size_t k = 0; k < ELEMENTS(once); k++) {
            if (strcasecmp(name, once[k]) != 0)
                continue;
            if (seen & 1u << k)
                return error_set(err, ERROR_INVALID, 0, "a request has one %s", once[k]);
            seen |= 1u << k;
        }
    }
    return 0;
}

/* The order bounds what a caller without rights costs: who it is, then its share of connections,
 * then its rate, and only then its role. A page of another origin is let in by its key alone,
 * since any page could otherwise speak with the rights of a caller that needs no key. */
static int check_caller(struct api_request *req, const char *page, struct error *err)
{
    int r = check_once(req->http, err);
    if (r < 0)
        return r;
    r = req->route->flags & ROUTE_PORT     ? traffic_identify(req, err)
        : req->route->flags & ROUTE_INGEST ? ingest_identify(req, err)
                                           : 0;
    if (r == 0)
        r = auth_identify(req->services, req->http, &req->identity, err);
    if (r < 0)
        return r;
    set_address(&req->identity, http_request_address(req->http));
    if (page && !req->who->authenticated)
        return error_set(err, ERROR_UNAUTHORIZED, 0,
                         "a web page of another origin must bring a key or the token");
    http_request_set_credential(req->http, req->traffic);
    if (http_request_admit(req->http, find_holder(req)) < 0)
        return error_set(err, ERROR_LIMIT, 0,
                         "%s has too many connections (key_connections_percent)",
                         *req->who->key ? "this key" : "this address");
    r = keys_admit(req->services->keys, req->who->key, &req->retry_after_s, err);
    if (r < 0)
        return r;
    return auth_check_role(req->who, req->route->roles, err);
}

static int check_access(struct api_request *req, struct error *err)
{
    cors_put_vary(req->services, req->http);
    int r = auth_check_source(req->services, req->http, err);
    const char *page = r < 0 ? NULL : cors_find_page(req->services, req->http);
    if (page)
        cors_put_headers(req->http, page);
    return r < 0 || (req->route->flags & ROUTE_OPEN) ? r : check_caller(req, page, err);
}

/* A caller who has shown no key gets so many refusals and no more. */
static void request_refuse(struct api_request *req, struct error *err)
{
    if (!http_request_refusal(req->http)) {
        req->retry_after_s = REFUSED_RETRY_S;
        *err = (struct error){0};
        error_set(err, ERROR_LIMIT, 0,
                  "too many refused requests from this address (refusals_per_minute)");
    } else if (err->code == ERROR_UNAUTHORIZED) {
        http_response_header(req->http, "WWW-Authenticate", "Bearer");
    }
    api_fail(req, err);
}

static void reject_unrouted(struct api_request *req, unsigned methods)
{
    struct error err = {0};
    char allowed[ROUTE_METHODS_SIZE];
    const char *path = http_request_path(req->http);
    size_t len = strlen(path);
    if (http_request_method(req->http) == HTTP_OPTIONS_ && strcmp(path, "*") == 0) {
        http_response_header(req->http, "Allow",
                             route_format_methods(route_all_methods(), allowed));
        api_reply_text(req, 204, NULL, "", 0);
        return;
    }
    if (methods && cors_is_preflight(req->http) && cors_find_page(req->services, req->http)) {
        cors_put_preflight(req->http, route_format_methods(methods, allowed));
        api_reply_text(req, 204, NULL, "", 0);
        return;
    }
    if (methods) {
        http_response_header(req->http, "Allow", route_format_methods(methods, allowed));
        error_set(&err, ERROR_METHOD, 0, "%s is not a method of %.200s; it has %s",
                  http_request_method_name(req->http), path, allowed);
    } else {
        error_set(&err, ERROR_NOT_FOUND, 0, "there is nothing at %.200s%s", path,
                  len > 1 && path[len - 1] == '/' ? ": no path here ends with a slash" : "");
    }
    request_refuse(req, &err);
}

/* A host of a sandbox's own has no route, and no page of the API's either. */
static void serve_host(struct api_request *req)
{
    struct error err = {0};
    req->route = &ports_host_route;
    http_request_on_abort(req->http, on_abort, req); /* to follow a link waits for the store */
    if (ports_follow_link(req))
        return;
    http_request_on_abort(req->http, NULL, NULL);
    if (ports_check_origin(req, &err) >= 0 && check_caller(req, NULL, &err) >= 0) {
        ports_serve_host(req);
        return;
    }
    access_audit_refused(&req->api->access, req, &err);
    request_refuse(req, &err);
}

/* Bodies and queries of the API's own routes; what is for a server inside a sandbox is not read. */
static void serve_route(struct api_request *req)
{
    struct http_request *http = req->http;
    struct error err = {0};
    if (req->route->flags & (ROUTE_BODY | ROUTE_BODY_OPTIONAL)) {
        http_request_on_abort(http, on_abort, req);
        http_request_read_body(http, req->services->config.max_body_bytes, on_body,
                               on_body_too_large);
    } else if (!(req->route->flags & ROUTE_PORT) && api_check_members(req, &err) < 0) {
        api_fail(req, &err);
    } else {
        call_handler(req);
    }
}

void api_on_request(struct http_request *http, void *data)
{
    struct api *api = data;
    const char *params[API_PARAMS_MAX];
    size_t lengths[API_PARAMS_MAX];
    unsigned methods;
    struct error err = {0};
    struct api_request *req = new0(struct api_request);
    req->api = api;
    req->services = &api->services;
    req->http = http;
    req->who = &req->identity;
    req->owner = req->identity.key;
    http_request_set_data(http, req);
    api->requests++;
    set_request_id(req);
    if (ports_owns_host(req)) {
        serve_host(req);
        return;
    }
    route_find(req, params, lengths, &methods);
    bool found = req->route;
    if (!found)
        req->route = route_find_none(http_request_path(http));
    /* Access is checked before the path is answered for: a caller without a key must not learn
     * which paths exist. */
    if (check_access(req, &err) < 0) {
        access_audit_refused(&api->access, req, &err);
        request_refuse(req, &err);
        return;
    }
    if (!found) {
        reject_unrouted(req, methods);
        return;
    }
    for (size_t i = 0; i < API_PARAMS_MAX && params[i]; i++) {
        req->params[i] = xstrndup(params[i], lengths[i]);
        http_decode_segment(req->params[i]);
    }
    serve_route(req);
}
