/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request on its way through a route's handler.
 *
 * A handler answers exactly once. It returns a negative number with req->err set, which is then the
 * answer; or 0, and has answered or will, with api_reply(), api_fail() or by taking the connection
 * over (api_take()). The request is gone with its answer. Should the client leave first, on_abort
 * is called and the request is gone when it returns. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "base/error.h"
#include "guard/gate.h"
#include "identity/identity.h"
#include "net/http.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

struct idempotency;
struct member;
struct route;
struct strbuf;
struct weak;

#define API_PARAMS_MAX     3
#define API_REQUEST_ID_MAX 128

struct api_request {
    struct api *api;
    const struct services *services;
    struct http_request *http; /* NULL when the client left and the work goes on (idempotency) */
    const struct route *route;
    char *params[API_PARAMS_MAX];
    struct identity identity;
    const struct identity *who; /* &identity */
    const char *owner;          /* who->key: what it makes belongs to that */
    struct gate_terms terms;    /* X-Mas-Approval and X-Mas-Approval-Id */
    json_t *body; /* of JSON routes: an object, or NULL where it is optional and absent */
    char request_id[API_REQUEST_ID_MAX + 1];
    struct idempotency *idempotency;
    char traffic[24];       /* the id of the traffic token that it came with; "" if there is none */
    unsigned retry_after_s; /* of a 429; 0: one */
    void *data;             /* of the extension its route is of */
    struct weak *weak;      /* see api_later() */
    struct error *err;      /* the handler's, until it returns */
    /* the handler's own */
    void *state;
    void (*on_abort)(struct api_request *req);
};

/* For an answer that comes later: what callbacks carry. weak_unref() gives the request to answer
 * now, or NULL when its client has left or the request is answered already. */
struct weak *api_later(struct api_request *req);

enum route_flags {
    ROUTE_OPEN = 1,          /* no token needed */
    ROUTE_BODY = 2,          /* a JSON object is required */
    ROUTE_BODY_OPTIONAL = 4, /* a JSON object, or nothing */
    ROUTE_WS = 8,            /* WebSocket */
    ROUTE_RAW = 16,          /* the handler reads the body itself */
    ROUTE_EXECUTES = 32,     /* makes something run: passes the gate in run_start() */
    ROUTE_IDEMPOTENT = 64,   /* takes Idempotency-Key */
    ROUTE_DEBUG = 128,       /* only with debug_endpoints */
    ROUTE_INGEST = 512,      /* the token of a sandbox's stream container does, too */
    ROUTE_PORT = 256, /* any method, query and body: what comes is for a server inside a sandbox */
};

enum route_style { STYLE_NATIVE, STYLE_MAS, STYLE_SBX, STYLE_ACTIONS, STYLE_RPC };

struct route {
    enum http_method method;
    const char *path; /* "/v1/sandboxes/{id}/exec" */
    enum route_style style;
    unsigned flags;
    int (*handle)(struct api_request *req);
    const char *summary;
    unsigned roles; /* enum role: any one of them will do; none: only open routes may have that */
    /* The kind of record that it leaves in the audit, of what it does or reads in a sandbox:
     * "intent" where it passes the gate. NULL: it reads what the daemon keeps, or is about
     * something else. */
    const char *record;
    const struct member *body;  /* NULL if its body has no members */
    const struct member *query; /* NULL if it has no parameters */
};

/* Every route there is (routes.c). */
extern const struct route routes[];
extern const size_t n_routes;

/* A folder beside this one: its routes, whose requests have data, and its counters. */
struct api_extension {
    const struct route *routes;
    size_t n_routes;
    void *data;
    void (*put_metrics)(void *data, struct strbuf *out);
};
void api_extend(struct api *api, const struct api_extension *more); /* once; copies */

struct api_metric {
    const char *name, *type, *help;
    uint64_t value;
};
/* As Prometheus reads it. */
void api_put_metric(struct strbuf *out, const struct api_metric *m);
const struct services *api_services(const struct api *api);

void api_reply(struct api_request *req, int status, json_t *body); /* takes body */
void api_reply_text(struct api_request *req, int status, const char *type, const char *text,
                    size_t len);
void api_fail(struct api_request *req, const struct error *err);
/* Ends the request without an answer, as when its client leaves. Where there still is a client, the
 * caller closes the connection. */
void api_stop(struct api_request *req);
/* Takes the HTTP request out; the api_request is gone. The caller answers on it. */
struct http_request *api_take(struct api_request *req);
/* The body of an error as the route's contract has it. */
json_t *api_error_body(enum route_style style, const struct error *err);

/* What the path names, found or not: passes it on, or answers 404 and returns NULL. */
void *api_found(struct api_request *req, void *thing, const char *kind);
/* By id or the caller's alias, if it exists for this caller; or NULL. */
struct sandbox *api_lookup_sandbox(struct api_request *req, const char *id_or_alias);
/* The sandbox (or exec) that the path names, or NULL after answering 404. */
struct sandbox *api_find_sandbox(struct api_request *req);
struct exec *api_find_exec(struct api_request *req, struct sandbox *sb);
