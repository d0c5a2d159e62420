/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ports.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/cors.h"
#include "api/handlers.h"
#include "api/internal.h"
#include "api/traffic.h"
#include "audit/audit.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "base/target.h"
#include "net/http.h"
#include "port/forward.h"
#include "port/host.h"
#include "port/proxy.h"
#include "sandbox/sandbox-policy.h"

#define PREFIX_SLASHES 6 /* /v1/sandboxes/{id}/ports/{port}/ */
#define RECORD_MS      60000

const struct route ports_host_route = {.method = HTTP_GET_,
                                       .path = "",
                                       .style = STYLE_NATIVE,
                                       .flags = ROUTE_PORT,
                                       .roles = ROLE_AGENT};

/* --- whether it may be */

/* A page makes many requests at once: there is one record per minute, caller and port. This is the
 * place of that record, or the one that is to have it. A sandbox is known by its generation,
 * because its id may come back. */
static struct port_access *find_access(struct port_access *list, const char *key)
{
    struct port_access *oldest = list;
    for (size_t i = 0; i < PORT_ACCESS_MAX; i++) {
        if (list[i].at_ms && !strcmp(list[i].key, key))
            return &list[i];
        if (list[i].at_ms < oldest->at_ms)
            oldest = &list[i];
    }
    return oldest;
}

static int record_access(struct api_request *req, struct sandbox *sb, uint16_t port,
                         struct error *err)
{
    struct audit *a = req->services->audit;
    const char *caller = *req->traffic ? req->traffic : req->who->key;
    char key[PORT_ACCESS_KEY], details[96];
    int64_t now = clock_mono_ms();
    snprintf(key, sizeof(key), "%s %s %s %u", caller, sandbox_id(sb), sandbox_generation(sb), port);
    struct port_access *known = find_access(req->api->port_access, key);
    if (!a || (known->at_ms && !strcmp(known->key, key) && now - known->at_ms < RECORD_MS))
        return 0;
    snprintf(details, sizeof(details), "{\"port\":%u%s%s%s}", port,
             *req->traffic ? ",\"token\":\"" : "", req->traffic, *req->traffic ? "\"" : "");
    struct audit_record r = {.kind = "network",
                             .who = req->who,
                             .sandbox = sandbox_id(sb),
                             .tool = GATE_PORT,
                             .outcome = "entered",
                             .details_text = details};
    int e = audit_write(a, &r, NULL, err);
    if (e < 0)
        return e;
    memcpy(known->key, key, sizeof(key));
    known->at_ms = now;
    return e;
}

int ports_check_gate(struct api_request *req, struct sandbox *sb, const char *tool,
                     struct error *err)
{
    const struct spec *spec = sandbox_spec(sb);
    const struct sandbox_policy *own = sandbox_policy(sb);
    const struct policy *policies[] = {own ? &own->policy : NULL};
    struct gate_call call = {.tool = tool,
                             .who = req->who,
                             .terms = &req->terms,
                             .policies = policies,
                             .n_policies = own ? 1 : 0,
                             .runtime = spec->runtime,
                             .image_names = spec->image_names,
                             .image_digest = spec->image_digest,
                             .limits = {.box = spec->limits},
                             .sandbox = sandbox_id(sb)};
    return gate_check_port(req->services->gate, &call, err);
}

static int admit_access(struct api_request *req, struct sandbox *sb, uint16_t port,
                        struct error *err)
{
    int r = traffic_check_place(req, sb, port, err);
    if (r < 0)
        return r;
    r = ports_check_gate(req, sb, GATE_PORT, err);
    if (r < 0)
        return r;
    return record_access(req, sb, port, err);
}

/* --- by path */

/* The sandbox and the port that the path names; NULL after answering. */
static struct sandbox *find_place(struct api_request *req, uint16_t *ret_port)
{
    struct error err = {0};
    const char *text = req->params[1];
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return NULL;
    if (target_parse_port(text, strlen(text), ret_port) < 0)
        error_set(&err, ERROR_INVALID, 0, "'%.20s' is not a port: a number from 1 to 65535", text);
    else if (admit_access(req, sb, *ret_port, &err) >= 0)
        return sb;
    api_fail(req, &err);
    return NULL;
}

static void start_proxy(struct api_request *req, struct sandbox *sb, uint16_t port,
                        const char *prefix, const char *target)
{
    const struct services *o = req->services;
    struct port_request pr = {.sandbox = sb,
                              .port = port,
                              .prefix = prefix,
                              .target = target,
                              .keeps_authorization = !auth_authorization_is_ours(o, req->http),
                              .answer_timeout_ms = o->config.port_answer_timeout_ms};
    port_proxy_start(api_take(req), &pr);
}

int handle_port(struct api_request *req)
{
    uint16_t port;
    const char *target = http_request_target(req->http), *rest = target;
    struct sandbox *sb = find_place(req, &port);
    if (!sb)
        return 0;
    for (int i = 1; i < PREFIX_SLASHES; i++)
        rest = strchr(rest + 1, '/'); /* as many as the route has matched */
    _cleanup_free_ char *prefix = xstrndup(target, (size_t)(rest - target));
    start_proxy(req, sb, port, prefix, rest);
    return 0;
}

int handle_port_forward(struct api_request *req)
{
    uint16_t port;
    if (!http_request_wants_ws(req->http))
        return error_set(req->err, ERROR_INVALID, 0, "a WebSocket handshake is expected here");
    struct sandbox *sb = find_place(req, &port);
    if (sb)
        port_forward_start(api_take(req), sb, port);
    return 0;
}

bool ports_take_encoded(struct http_request *http, void *data)
{
    struct api *api = data;
    uint16_t port;
    char id[PORT_HOST_ID_SIZE];
    const char *path = http_request_path(http), *domain = api->services.config.ports_domain;
    return port_host_parse(http_request_header(http, "Host"), domain, &port, id) != 0 ||
           (strncmp(path, "/v1/sandboxes/", 14) == 0 && strstr(path + 14, "/ports/"));
}

/* --- by host */

bool ports_owns_host(const struct api_request *req)
{
    uint16_t port;
    char id[PORT_HOST_ID_SIZE];
    return port_host_parse(http_request_header(req->http, "Host"),
                           req->services->config.ports_domain, &port, id) != 0;
}

bool ports_follow_link(struct api_request *req)
{
    uint16_t port;
    char id[PORT_HOST_ID_SIZE];
    const char *host = http_request_header(req->http, "Host");
    if (strcmp(http_request_path(req->http), TRAFFIC_ENTER) != 0 ||
        port_host_parse(host, req->services->config.ports_domain, &port, id) != 1)
        return false;
    traffic_enter(req, id, port);
    return true;
}

int ports_check_origin(const struct api_request *req, struct error *err)
{
    const char *origin = http_request_header(req->http, "Origin");
    const char *host = http_request_header(req->http, "Host");
    /* Our own pages there have none: they are sandboxed, and send "null". */
    if (!origin || strcmp(origin, "null") == 0 || auth_origin_is_ours(req->services, origin, host))
        return 0;
    return error_set(err, ERROR_FORBIDDEN, 0, "Origin '%.100s' is not allowed (allowed_origins)",
                     origin);
}

void ports_serve_host(struct api_request *req)
{
    uint16_t port;
    struct error err = {0};
    char id[PORT_HOST_ID_SIZE];
    const char *host = http_request_header(req->http, "Host");
    if (port_host_parse(host, req->services->config.ports_domain, &port, id) < 0) {
        error_set(&err, ERROR_NOT_FOUND, 0, "'%.100s' is not {port}-{id}.%.100s", host,
                  req->services->config.ports_domain);
        api_fail(req, &err);
        return;
    }
    struct sandbox *sb = api_lookup_sandbox(req, id);
    if (!sb)
        error_set(&err, ERROR_NOT_FOUND, 0, "there is no sandbox '%s'", id);
    else if (admit_access(req, sb, port, &err) >= 0) {
        start_proxy(req, sb, port, "", http_request_target(req->http));
        return;
    }
    api_fail(req, &err);
}
