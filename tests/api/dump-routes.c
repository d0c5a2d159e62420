/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of routes as JSON, for the test that compares it with docs/openapi.json. */
#include <stdio.h>

#include "api/handlers.h"
#include "api/members.h"
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
    case HTTP_PATCH_:
        return "patch";
    case HTTP_DELETE_:
        return "delete";
    default:
        return "other";
    }
}

/* {"name": null, or the same of an object inside}; one that is not documented has no place here. */
static json_t *members_to_json(const struct member *table)
{
    json_t *o = json_object();
    for (; table && table->name; table++)
        if (!(table->flags & MEMBER_HIDDEN))
            json_object_set_new(o, table->name,
                                table->inner ? members_to_json(table->inner) : json_null());
    return o;
}

/* "switch", "text", or the texts that there are to choose from. */
static json_t *parameter_to_json(const struct member *m)
{
    if (!m->choice_at)
        return json_string(m->flags & MEMBER_SWITCH ? "switch" : "text");
    json_t *choices = json_array();
    for (size_t i = 0; m->choice_at(i); i++)
        json_array_append_new(choices, json_string(m->choice_at(i)));
    return choices;
}

static json_t *query_to_json(const struct member *table)
{
    json_t *o = json_object();
    for (; table && table->name; table++)
        json_object_set_new(o, table->name, parameter_to_json(table));
    return o;
}

static json_t *route_to_json(const struct route *r)
{
    static const char *const styles[] = {"native", "the MAS API", "the sbx API", "the actions API"};
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:o, s:s?, s:o, s:o}", "method",
        method_name(r->method), "path", r->path, "summary", r->summary, "style", styles[r->style],
        "open", !!(r->flags & ROUTE_OPEN), "body", !!(r->flags & (ROUTE_BODY | ROUTE_RAW)),
        "body_optional", !!(r->flags & ROUTE_BODY_OPTIONAL), "websocket", !!(r->flags & ROUTE_WS),
        "idempotent", !!(r->flags & ROUTE_IDEMPOTENT), "executes", !!(r->flags & ROUTE_EXECUTES),
        "roles", roles_to_json(r->roles), "record", r->record, "members", members_to_json(r->body),
        "query", query_to_json(r->query));
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
