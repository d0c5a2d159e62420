/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/alloc.h"

#define ROUTE_TAIL "{path}" /* at the end of a pattern: all that is left */

/* Matches one path against a pattern; parameters are borrowed parts of path. */
static bool match_pattern(const char *pattern, const char *path, const char *params[API_PARAMS_MAX],
                          size_t lengths[API_PARAMS_MAX])
{
    size_t n = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t len = strcspn(path, "/");
        bool tail = strcmp(pattern, ROUTE_TAIL) == 0; /* with its slashes, and perhaps empty */
        if (tail)
            len = strlen(path);
        else if (len == 0)
            return false;
        params[n] = path;
        lengths[n++] = len;
        path += len;
        pattern += strcspn(pattern, "}") + 1;
    }
    return *path == 0;
}

static const struct route *find_in(struct api *api, const struct route *table, size_t n,
                                   struct http_request *http, const char *params[API_PARAMS_MAX],
                                   size_t lengths[API_PARAMS_MAX], unsigned *methods)
{
    const char *path = http_request_path(http);
    enum http_method method = http_request_method(http);
    if (method == HTTP_HEAD_)
        method = HTTP_GET_;
    for (size_t i = 0; i < n; i++) {
        const struct route *r = &table[i];
        if ((r->flags & ROUTE_DEBUG) && !api->services.config.debug_endpoints)
            continue;
        for (size_t k = 0; k < API_PARAMS_MAX; k++)
            params[k] = NULL;
        if (!match_pattern(r->path, path, params, lengths))
            continue;
        if (r->flags & ROUTE_PORT)
            return r;
        if (r->method == method && !!(r->flags & ROUTE_WS) == http_request_wants_ws(http))
            return r;
        if (r->method == method && (r->flags & ROUTE_WS))
            return r;
        if (r->method != method)
            *methods |= 1u << r->method;
    }
    return NULL;
}

void route_find(struct api_request *req, const char *params[API_PARAMS_MAX],
                size_t lengths[API_PARAMS_MAX], unsigned *ret_methods)
{
    struct api *api = req->api;
    *ret_methods = 0;
    req->route = find_in(api, routes, n_routes, req->http, params, lengths, ret_methods);
    if (req->route)
        return;
    req->data = api->more.data;
    req->route =
        find_in(api, api->more.routes, api->more.n_routes, req->http, params, lengths, ret_methods);
}

static const struct route no_route = {.path = "", .style = STYLE_NATIVE, .flags = ROUTE_OPEN};

/* A contract's paths get its errors even where there is no such route. */
static const struct {
    const char *prefix;
    struct route route;
} no_route_of[] = {
    {"/v1/sandbox/", {.path = "", .style = STYLE_MAS, .flags = ROUTE_OPEN}},
    {"/healthz", {.path = "", .style = STYLE_SBX, .flags = ROUTE_OPEN}},
    {"/metrics", {.path = "", .style = STYLE_SBX, .flags = ROUTE_OPEN}},
    {"/sandboxes", {.path = "", .style = STYLE_SBX, .flags = ROUTE_OPEN}},
    {"/api/", {.path = "", .style = STYLE_ACTIONS, .flags = ROUTE_OPEN}},
    {"/mcp", {.path = "", .style = STYLE_RPC, .flags = ROUTE_OPEN}},
};

const struct route *route_find_none(const char *path)
{
    for (size_t i = 0; i < ELEMENTS(no_route_of); i++)
        if (strncmp(path, no_route_of[i].prefix, strlen(no_route_of[i].prefix)) == 0)
            return &no_route_of[i].route;
    return &no_route;
}

unsigned route_all_methods(void)
{
    unsigned methods = 1u << HTTP_OPTIONS_;
    for (size_t i = 0; i < n_routes; i++)
        methods |= 1u << routes[i].method;
    return methods;
}

const char *route_format_methods(unsigned methods, char out[ROUTE_METHODS_SIZE])
{
    static const char *const names[] = {
        [HTTP_GET_] = "GET, HEAD", [HTTP_POST_] = "POST",   [HTTP_PUT_] = "PUT",
        [HTTP_DELETE_] = "DELETE", [HTTP_PATCH_] = "PATCH", [HTTP_OPTIONS_] = "OPTIONS",
    };
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (names[i] && (methods & 1u << i))
            n += (size_t)snprintf(out + n, ROUTE_METHODS_SIZE - n, "%s%s", n ? ", " : "", names[i]);
    return out;
}
