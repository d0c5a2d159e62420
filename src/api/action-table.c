/* SPDX-License-Identifier: Apache-2.0 */
/* Actions as they are kept: in memory, as rows of the store, and as the actions API shows them. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/action-internal.h"
#include "api/internal.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "store/store.h"

#define ROW_MAX  (32 * 1024 * 1024)
#define KEPT_MAX 10000 /* finished ones beyond go, oldest first */

static const char *const status_names[] = {"pending",   "approved", "executing",
                                           "completed", "failed",   "rejected"};
static_assert(ELEMENTS(status_names) == _STATUS_MAX, "a name per status");

bool action_is_finished(const struct action *a)
{
    return a->status >= STATUS_COMPLETED;
}

/* --- life */

static void action_release(struct action *a)
{
    struct sandbox *sb = steal_ptr(a->held);
    if (!sb)
        return;
    sandbox_release(sb);
    sandbox_unref(sb);
}

void action_leave(struct action *a)
{
    a->set->n_pending -= a->status == STATUS_PENDING;
    a->set->n--;
    map_remove(a->set->by_id, a->id);
    list_remove(&a->node);
    action_release(a);
    action_plan_done(&a->plan);
    json_decref(a->parameters);
    json_decref(a->result);
    free(a->type);
    free(a->skill_id);
    free(a->error);
    free(a);
}

static void make_room(struct actions *s)
{
    struct store *store = s->api->services.store;
    if (s->n < KEPT_MAX)
        return;
    list_for_each(a, &s->all, struct action, node) {
        if (!action_is_finished(a))
            continue;
        if (store)
            store_delete(store, STORE_ACTION, a->id, NULL, NULL);
        action_leave(a);
        return;
    }
}

void action_enter(struct actions *s, struct action *a)
{
    a->set = s;
    make_room(s);
    list_append(&s->all, &a->node);
    map_put(s->by_id, a->id, a);
    s->n_pending += a->status == STATUS_PENDING;
    s->n++;
}

void action_set_status(struct action *a, enum action_status status)
{
    a->set->n_pending += (status == STATUS_PENDING) - (a->status == STATUS_PENDING);
    a->status = status;
    if (!action_is_finished(a))
        return;
    a->completed_ns = clock_real_ns();
    action_release(a);
}

/* --- rows */

void action_answer(struct action *a, const struct error *err)
{
    action_fn fn = a->fn;
    a->fn = NULL;
    if (fn)
        fn(a->data, a, err);
}

static void on_written(void *data, const struct error *err)
{
    struct action *a = map_find(((struct actions **)data)[0]->by_id, (char *)data + sizeof(void *));
    if (a)
        action_answer(a, err);
    free(data);
}

void action_save(struct action *a)
{
    struct store *store = a->set->api->services.store;
    if (!store) {
        action_answer(a, NULL);
        return;
    }
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *row =
        json_pack("{s:s, s:s*, s:O, s:s, s:o, s:O*, s:s*, s:I, s:I}", "type", a->type, "skill_id",
                  a->skill_id, "parameters", a->parameters, "status", status_names[a->status],
                  "who", identity_to_json(&a->who), "result", a->result, "error", a->error,
                  "created", (json_int_t)a->created_ns, "completed", (json_int_t)a->completed_ns);
    json_format(row, &b);
    char *ref = xcalloc(1, sizeof(void *) + sizeof(a->id)); /* it may be gone by then */
    memcpy(ref, &a->set, sizeof(void *));
    memcpy(ref + sizeof(void *), a->id, sizeof(a->id));
    store_put(store, STORE_ACTION, a->id, b.data, b.len, on_written, ref);
}

void action_finish(struct action *a, enum action_status status, json_t *result, const char *error)
{
    json_decref(a->result);
    a->result = json_incref(result);
    free(a->error);
    a->error = error ? xstrdup(error) : NULL;
    action_set_status(a, status);
    action_save(a);
}

/* --- after a restart */

static int status_find(const char *name)
{
    for (int i = 0; name && i < _STATUS_MAX; i++)
        if (strcmp(status_names[i], name) == 0)
            return i;
    return -1;
}

static char *dup_member(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? xstrdup(text) : NULL;
}

/* An earlier version took parameters that this one refuses. Such an action stays on record, and
 * does not run. */
static void action_load_without_plan(struct action *a, const struct error *err)
{
    a->plan.level = RISK_HIGH;
    if (a->status >= STATUS_COMPLETED)
        return;
    log_warn("stored action cannot run id=%s: %s", a->id, err->message);
    a->status = STATUS_FAILED;
    a->completed_ns = clock_real_ns();
    free(a->error);
    a->error = xasprintf("this version cannot run it: %s", err->message);
}

void action_load_row(void *data, const char *key, const char *body, size_t len)
{
    struct actions *s = data;
    struct error err = {0};
    struct action *a = new0(struct action);
    _cleanup_json_ json_t *row = json_parse_answer(body, len, &err);
    int status = row ? status_find(json_string_value(json_object_get(row, "status"))) : -1;
    list_init(&a->node);
    a->type = row ? dup_member(row, "type") : NULL;
    a->skill_id = row ? dup_member(row, "skill_id") : NULL;
    a->parameters = row ? json_incref(json_object_get(row, "parameters")) : NULL;
    if (status < 0 || !a->type) {
        log_error("stored action cannot be read id=%s: %s", key, err.message);
        free(a->type);
        free(a->skill_id);
        json_decref(a->parameters);
        free(a);
        return;
    }
    snprintf(a->id, sizeof(a->id), "%s", key);
    a->status = (enum action_status)status;
    a->result = json_incref(json_object_get(row, "result"));
    a->error = dup_member(row, "error");
    a->created_ns = json_integer_value(json_object_get(row, "created"));
    a->completed_ns = json_integer_value(json_object_get(row, "completed"));
    identity_from_json(json_object_get(row, "who"), &a->who);
    if (action_plan_make(a->type, a->skill_id, a->parameters, s->api->services.config.skill_root,
                         &a->plan, &err) < 0)
        action_load_without_plan(a, &err);
    action_enter(s, a);
}

/* --- looking */

static bool sees_action(const struct identity *who, const struct action *a)
{
    return identity_has(who, ROLE_APPROVER | ROLE_AUDITOR) || identity_sees(who, a->who.key);
}

struct action *actions_find(struct actions *s, const struct identity *who, const char *id)
{
    struct action *a = map_find(s->by_id, id);
    return a && sees_action(who, a) ? a : NULL;
}

size_t actions_pending(const struct actions *s)
{
    return s->n_pending;
}

json_t *actions_describe(struct actions *s, const char *id)
{
    const struct action *a = id ? map_find(s->by_id, id) : NULL;
    if (!a)
        return NULL;
    return json_pack("{s:s, s:s?, s:s}", "action_type", a->type, "skill_id", a->skill_id, "status",
                     status_names[a->status]);
}

json_t *action_submitted_view(const struct action *a)
{
    return json_pack("{s:s, s:s, s:b, s:s}", "action_id", a->id, "status", status_names[a->status],
                     "requires_approval", a->status == STATUS_PENDING, "security_level",
                     risk_name(a->plan.level));
}

json_t *actions_pending_view(struct actions *s, const struct identity *who)
{
    json_t *list = json_array();
    list_for_each(a, &s->all, struct action, node) {
        if (a->status != STATUS_PENDING || !sees_action(who, a))
            continue;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s?, s:s, s:O, s:o}", "id", a->id, "action_type", a->type,
                            "skill_id", a->skill_id, "security_level", risk_name(a->plan.level),
                            "parameters", a->parameters, "created_at", view_time(a->created_ns)));
    }
    return list;
}

json_t *action_view(const struct action *a)
{
    return json_pack("{s:s, s:s, s:s?, s:s, s:s, s:O?, s:s?, s:o, s:o}", "id", a->id, "action_type",
                     a->type, "skill_id", a->skill_id, "status", status_names[a->status],
                     "security_level", risk_name(a->plan.level), "result", a->result, "error",
                     a->error, "created_at", view_time(a->created_ns), "completed_at",
                     view_time(a->completed_ns));
}
