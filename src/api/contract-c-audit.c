/* Contract C's view of the audit: the newest records, in its own words. */
#include <stdlib.h>
#include <string.h>

#include "api/action.h"
#include "api/handlers.h"
#include "api/internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "guard/audit.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000

struct logs_call {
    struct api_request *req; /* NULL: the client left */
};

static void on_abort(struct api_request *req)
{
    ((struct logs_call *)req->state)->req = NULL;
}

static json_t *text_of(const json_t *record, const char *key)
{
    json_t *v = json_object_get(record, key);
    return json_is_string(v) ? json_incref(v) : json_null();
}

/* What is no action has its tool, or its kind, for a type. */
static json_t *entry(struct actions *actions, const json_t *record)
{
    const char *id = json_string_value(json_object_get(record, "action"));
    _cleanup_json_ json_t *action = actions_describe(actions, id);
    json_t *o = json_object();
    json_object_set_new(o, "timestamp", text_of(record, "time"));
    json_object_set_new(o, "action_id", text_of(record, id ? "action" : "call"));
    json_object_set_new(o, "action_type",
                        action
                            ? text_of(action, "action_type")
                            : text_of(record, json_object_get(record, "tool") ? "tool" : "kind"));
    json_object_set_new(o, "skill_id", action ? text_of(action, "skill_id") : json_null());
    json_object_set_new(o, "status", text_of(record, "kind"));
    json_object_set_new(o, "outcome", text_of(record, "outcome"));
    json_t *details = json_object_get(record, "details");
    json_object_set_new(o, "details", details ? json_incref(details) : json_object());
    return o;
}

static void on_page(void *data, const struct audit_page *page, const struct error *err)
{
    struct logs_call *c = data;
    struct api_request *req = c->req;
    struct error bad = {0};
    free(c);
    if (!req)
        return;
    req->on_abort = NULL;
    if (err) {
        api_fail(req, err);
        return;
    }
    json_t *list = json_array();
    for (const char *p = page->text.data, *end = p + page->text.len; p && p < end;) {
        size_t n = strcspn(p, "\n");
        _cleanup_json_ json_t *record = json_parse_object(p, n, &bad);
        if (record)
            json_array_append_new(list, entry(req->api->actions, record));
        p += n + 1;
    }
    api_reply(req, 200, list);
}

void handle_c_audit_logs(struct api_request *req)
{
    struct error err = {0};
    uint64_t limit = LIMIT_DEFAULT;
    if (api_query_number(req, "limit", 1, LIMIT_MAX, &limit, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    struct logs_call *c = new0(struct logs_call);
    struct audit_filter f = {.limit = (size_t)limit, .newest_first = true};
    c->req = req;
    req->state = c;
    req->on_abort = on_abort;
    audit_query(gate_audit(req->options->gate), &f, on_page, c);
}
