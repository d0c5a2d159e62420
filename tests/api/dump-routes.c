/* Prints the table of routes as JSON, for the test that compares it with docs/openapi.json. */
#include <stdio.h>

#include "api/handlers.h"
#include "base/alloc.h"

static const char *method_name(enum http_method method)
{
    switch (method) {
    case HTTP_GET_:
        return "get";
    case HTTP_POST_:
        return "post";
    case HTTP_PUT_:
        return "put";
    case HTTP_DELETE_:
        return "delete";
    default:
        return "other";
    }
}

static json_t *route_to_json(const struct route *r)
{
    static const char *const styles[] = {"native", "contract A", "contract B", "contract C"};
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:o, s:s?}", "method",
        method_name(r->method), "path", r->path, "summary", r->summary, "style", styles[r->style],
        "open", !!(r->flags & ROUTE_OPEN), "body", !!(r->flags & (ROUTE_BODY | ROUTE_RAW)),
        "body_optional", !!(r->flags & ROUTE_BODY_OPTIONAL), "websocket", !!(r->flags & ROUTE_WS),
        "idempotent", !!(r->flags & ROUTE_IDEMPOTENT), "executes", !!(r->flags & ROUTE_EXECUTES),
        "roles", roles_to_json(r->roles), "record", r->record);
}

int main(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_routes; i++)
        json_array_append_new(list, route_to_json(&routes[i]));
    json_dumpf(list, stdout, JSON_COMPACT);
    json_decref(list);
    return 0;
}
