/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cors.h"

#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/url.h"
#include "net/http.h"

#define REQUEST_HEADERS                                                                            \
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, "            \
    "Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, Range, X-Mas-Approval, "                 \
    "X-Mas-Approval-Id, X-Request-Id, X-Sandbox-Token"
#define ANSWER_HEADERS                                                                             \
    "Accept-Ranges, Allow, Content-Range, ETag, Idempotency-Replayed, Mcp-Session-Id, "            \
    "Retry-After, WWW-Authenticate, X-Mas-Ignored, X-Request-Id"
#define PREFLIGHT_AGE_S "600"

void cors_put_vary(const struct services *o, struct http_request *http)
{
    if (o->config.allowed_origins && *o->config.allowed_origins)
        http_response_header(http, "Vary", "Origin");
}

const char *cors_find_page(const struct services *o, const struct http_request *http)
{
    if (!o->config.allowed_origins || !*o->config.allowed_origins)
        return NULL;
    const char *origin = http_request_header(http, "Origin");
    const char *host = http_request_header(http, "Host");
    if (!origin || origin_is_of_host(origin, host))
        return NULL;
    for (char *const *a = o->config.allowed_origins; *a; a++)
        if (strcasecmp(*a, origin) == 0)
            return origin;
    return NULL;
}

void cors_put_headers(struct http_request *http, const char *page)
{
    http_response_header(http, "Access-Control-Allow-Origin", page);
    http_response_header(http, "Access-Control-Expose-Headers", ANSWER_HEADERS);
}

bool cors_is_preflight(const struct http_request *http)
{
    return http_request_method(http) == HTTP_OPTIONS_ &&
           http_request_header(http, "Access-Control-Request-Method");
}

void cors_put_preflight(struct http_request *http, const char *methods)
{
    http_response_header(http, "Access-Control-Allow-Methods", methods);
    http_response_header(http, "Access-Control-Allow-Headers", REQUEST_HEADERS);
    http_response_header(http, "Access-Control-Max-Age", PREFLIGHT_AGE_S);
}
