#include "api/action.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "guard/approval.h"
#include "guard/gate.h"
#include "guard/keys.h"
#include "store/store.h"
#include "tool/skill.h"
#include "tool/tool.h"

#define ID_LENGTH 16
#define ROW_MAX   (32 * 1024 * 1024)
#define KEPT_MAX  10000 /* finished ones beyond go, oldest first */

enum action_status {
    STATUS_PENDING,
    STATUS_APPROVED,
    STATUS_EXECUTING,
    STATUS_COMPLETED,
    STATUS_FAILED,
    STATUS_REJECTED,
    _STATUS_MAX,
};
static const char *const status_names[] = {"pending",   "approved", "executing",
                                           "completed", "failed",   "rejected"};
static_assert(ELEMENTS(status_names) == _STATUS_MAX, "a name per status");

struct action {
    struct actions *set;
    struct list node;
    char id[APPROVAL_ID_SIZE];
    char *type, *skill_id;
    json_t *parameters;
    struct action_plan plan;
    enum action_status status;
    struct identity who;
    json_t *result; /* or NULL */
    char *error;    /* or NULL */
    int64_t created_ns, completed_ns;
    struct sandbox *held; /* kept from being idle while this may still run in it */
    /* until the submitter has an answer */
    action_fn fn;
    void *data;
};

struct actions {
    struct api *api;
    struct map *by_id;
    struct list all; /* oldest first */
    size_t n_pending, n;
    struct approval_watch watch;
};

static struct gate *gate_of(const struct action *a)
{
    return a->set->api->options.gate;
}

static bool is_finished(const struct action *a)
{
    return a->status >= STATUS_COMPLETED;
}

/* --- life */

static void release(struct action *a)
{
    struct sandbox *sb = steal_ptr(a->held);
    if (!sb)
        return;
    sandbox_release(sb);
    sandbox_unref(sb);
}

static void action_free(struct action *a)
{
    release(a);
    action_plan_done(&a->plan);
    json_decref(a->parameters);
    json_decref(a->result);
    free(a->type);
    free(a->skill_id);
    free(a->error);
    free(a);
}

static void leave(struct action *a)
{
    a->set->n_pending -= a->status == STATUS_PENDING;
    a->set->n--;
    map_remove(a->set->by_id, a->id);
    list_remove(&a->node);
    action_free(a);
}

static void make_room(struct actions *s)
{
    struct store *store = s->api->options.store;
    if (s->n < KEPT_MAX)
        return;
    list_for_each(a, &s->all, struct action, node)
    {
        if (!is_finished(a))
            continue;
        if (store)
            store_delete(store, STORE_ACTION, a->id, NULL, NULL);
        leave(a);
        return;
    }
}

static void enter(struct actions *s, struct action *a)
{
    a->set = s;
    make_room(s);
    list_append(&s->all, &a->node);
    map_put(s->by_id, a->id, a);
    s->n_pending += a->status == STATUS_PENDING;
    s->n++;
}

static void set_status(struct action *a, enum action_status status)
{
    a->set->n_pending += (status == STATUS_PENDING) - (a->status == STATUS_PENDING);
    a->status = status;
    if (!is_finished(a))
        return;
    a->completed_ns = clock_real_ns();
    release(a);
}

/* --- rows */

static void answer(struct action *a, const struct error *err)
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
        answer(a, err);
    free(data);
}

static void save(struct action *a)
{
    struct store *store = a->set->api->options.store;
    if (!store) {
        answer(a, NULL);
        return;
    }
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *row = json_pack(
        "{s:s, s:s*, s:O, s:s, s:{s:s, s:s, s:i, s:b}, s:O*, s:s*, s:I, s:I}", "type", a->type,
        "skill_id", a->skill_id, "parameters", a->parameters, "status", status_names[a->status],
        "who", "key", a->who.key, "name", a->who.name, "roles", (int)a->who.roles, "authenticated",
        a->who.authenticated, "result", a->result, "error", a->error, "created",
        (json_int_t)a->created_ns, "completed", (json_int_t)a->completed_ns);
    json_format(row, &b);
    char *ref = xcalloc(1, sizeof(void *) + sizeof(a->id)); /* it may be gone by then */
    memcpy(ref, &a->set, sizeof(void *));
    memcpy(ref + sizeof(void *), a->id, sizeof(a->id));
    store_put(store, STORE_ACTION, a->id, b.data, b.len, on_written, ref);
}

static void finish(struct action *a, enum action_status status, json_t *result, const char *error)
{
    json_decref(a->result);
    a->result = json_incref(result);
    free(a->error);
    a->error = error ? xstrdup(error) : NULL;
    set_status(a, status);
    save(a);
}

/* --- running */

static struct gate_terms terms_of(const struct action *a, bool granted)
{
    return (struct gate_terms){.action_id = a->id,
                               .approval_id = granted ? a->id : NULL,
                               .ask = a->plan.level >= RISK_HIGH,
                               .ask_risk = a->plan.level};
}

/* Nothing ran: the submitter hears of it, and later ones find it as it ended. */
static void refuse(struct action *a, enum error_code code, const char *message)
{
    struct error err = {0};
    error_set(&err, code, 0, "%s", message);
    if (a->fn) {
        answer(a, &err);
        leave(a);
    } else {
        finish(a, STATUS_FAILED, NULL, message);
    }
}

static void wait_for_person(struct action *a)
{
    const struct approval *approval = approvals_find(gate_approvals(gate_of(a)), &a->who, a->id);
    if (approval && approval_risk(approval) > a->plan.level)
        a->plan.level = approval_risk(approval); /* a rule or a finding weighs more */
    set_status(a, STATUS_PENDING);
    save(a);
}

static void on_tool_done(void *data, const struct tool_result *r)
{
    struct action *a = data;
    if (r->approval_id) {
        wait_for_person(a);
    } else if (r->ok) {
        finish(a, STATUS_COMPLETED, r->result, NULL);
    } else if (strcmp(r->code, "policy_denied") == 0) {
        refuse(a, ERROR_DENIED, r->message);
    } else if (strcmp(r->code, "invalid_request") == 0) {
        refuse(a, ERROR_INVALID, r->message);
    } else {
        finish(a, STATUS_FAILED, r->result, r->message);
    }
}

static void on_file_done(void *data, const json_t *result, const struct error *err)
{
    struct action *a = data;
    if (err && err->code == ERROR_PENDING)
        wait_for_person(a);
    else if (err)
        finish(a, STATUS_FAILED, NULL, err->message);
    else
        finish(a, STATUS_COMPLETED, (json_t *)result, NULL);
}

static struct skill_options skill_options_of(const struct action *a)
{
    const struct api_options *o = &a->set->api->options;
    return (struct skill_options){
        .manager = o->manager, .default_spec = o->default_spec, .root = o->skill_root};
}

/* True: a person has to decide, or it ended already. */
static bool start_file(struct action *a, struct sandbox *sb, const struct gate_terms *terms)
{
    struct error err = {0};
    struct skill_options o = skill_options_of(a);
    struct skill_request req = {
        .who = &a->who, .terms = terms, .parameters = a->plan.args, .sandbox = sb};
    struct skill_run *run = skill_start(&o, &req, on_file_done, a, &err);
    if (!run)
        refuse(a, err.code, err.message);
    return !run || skill_is_waiting(run);
}

static bool start_tool(struct action *a, struct sandbox *sb, const struct gate_terms *terms)
{
    struct tool_request req = {.who = &a->who,
                               .terms = terms,
                               .name = a->plan.tool,
                               .args = a->plan.args,
                               .sandbox = sb,
                               .scope = sb ? sandbox_attached(sb) : NULL,
                               .policy = &a->plan.policy};
    struct tool_call *call = tool_call_start(&a->set->api->options.tool, &req, on_tool_done, a);
    return !call || tool_call_is_waiting(call);
}

/* Where an operation on files happens; *ret is NULL where it gets a sandbox of its own. */
static int files_sandbox(struct action *a, bool make, struct sandbox **ret, struct error *err)
{
    struct skill_options o = skill_options_of(a);
    const char *named = a->plan.sandbox_id;
    *ret = NULL;
    if (a->plan.kind != ACTION_FILE || (!named && o.root))
        return 0;
    *ret =
        named ? sandbox_find(o.manager, a->who.key, named) : skill_sandbox(&o, &a->who, make, err);
    if (!*ret && named)
        error_set(err, ERROR_NOT_FOUND, 0, "there is no sandbox '%.80s'", named);
    return *ret ? 0 : -1;
}

static void hold(struct action *a, struct sandbox *sb)
{
    if (a->held)
        return;
    a->held = sandbox_ref(sb);
    sandbox_hold(sb);
}

static void on_reloaded(void *data, bool changed, const struct error *err)
{
    struct action *a = data;
    _cleanup_json_ json_t *result = json_pack("{s:b}", "changed", changed);
    finish(a, err ? STATUS_FAILED : STATUS_COMPLETED, err ? NULL : result,
           err ? err->message : NULL);
}

static void on_skill_changed(void *data, const struct error *err)
{
    struct action *a = data;
    finish(a, err ? STATUS_FAILED : STATUS_COMPLETED, err ? NULL : a->plan.args,
           err ? err->message : NULL);
}

/* On record before it holds. */
static void apply_change(struct action *a)
{
    const struct api_options *o = &a->set->api->options;
    const char *skill = json_string_value(json_object_get(a->plan.args, "skill_id"));
    struct error err = {0};
    int r = gate_record(o->gate, "config_change", &a->who, a->id, "config_change", "applied",
                        a->plan.args, &err);
    if (r >= 0 && a->plan.change == CHANGE_RELOAD_POLICY)
        o->reload_policy(o->reload_data, &a->who, on_reloaded, a);
    else if (r >= 0)
        r = skill_set_enabled(o->skills, skill, a->plan.change == CHANGE_ENABLE_SKILL,
                              on_skill_changed, a, &err);
    if (r < 0)
        finish(a, STATUS_FAILED, NULL, err.message);
}

static void execute(struct action *a, bool granted)
{
    struct error err = {0};
    struct sandbox *sb = NULL;
    struct gate_terms terms = terms_of(a, granted);
    int r = a->plan.skill ? skill_check(a->set->api->options.skills, a->plan.skill, &err) : 0;
    if (r >= 0)
        r = files_sandbox(a, true, &sb, &err);
    if (r < 0) {
        refuse(a, err.code, err.message);
        return;
    }
    if (sb)
        hold(a, sb);
    set_status(a, STATUS_EXECUTING);
    bool settled =
        a->plan.kind == ACTION_FILE ? start_file(a, sb, &terms) : start_tool(a, sb, &terms);
    if (!settled)
        save(a); /* it runs: the submitter need not wait for its end */
}

/* --- a change of the daemon's own state: no sandbox, but the same approval */

static json_t *change_subject(const struct action *a)
{
    return json_pack("{s:i, s:s, s:O, s:s, s:s, s:s}", "version", 1, "tool", "config_change",
                     "args", a->plan.args, "requester", a->who.key, "policy_revision",
                     gate_revision(gate_of(a)), "action", a->id);
}

static void on_asked(void *data, struct approval *approval, const struct error *err)
{
    struct action *a = data;
    (void)approval;
    if (err)
        refuse(a, err->code, err->message);
    else
        wait_for_person(a);
}

static void ask_change(struct action *a)
{
    struct error err = {0};
    _cleanup_json_ json_t *subject = change_subject(a);
    struct approval_request r = {.id = a->id,
                                 .who = &a->who,
                                 .risk = RISK_CRITICAL,
                                 .rule = "level",
                                 .reason = "a change of the configuration is critical",
                                 .revision = gate_revision(gate_of(a)),
                                 .subject = subject};
    if (approvals_ask(gate_approvals(gate_of(a)), &r, on_asked, a, &err) < 0)
        refuse(a, err.code, err.message);
}

static void on_change_granted(void *data, struct approval *approval, const struct error *err)
{
    struct action *a = data;
    (void)approval;
    if (err)
        finish(a, STATUS_FAILED, NULL, err->message);
    else
        apply_change(a);
}

static void use_change(struct action *a)
{
    struct error err = {0};
    _cleanup_json_ json_t *subject = change_subject(a);
    set_status(a, STATUS_EXECUTING);
    if (approvals_use(gate_approvals(gate_of(a)), a->id, &a->who, subject, on_change_granted, a,
                      &err) < 0)
        finish(a, STATUS_FAILED, NULL, err.message);
}

/* --- what a person decided */

static void settle(struct action *a, enum approval_state state, const char *why)
{
    if (a->status != STATUS_PENDING || state == APPROVAL_PENDING)
        return;
    if (state != APPROVAL_APPROVED) {
        char text[APPROVAL_REASON_MAX + 64];
        snprintf(text, sizeof(text), "%s%s%s", approval_state_name(state), *why ? ": " : "", why);
        finish(a, STATUS_REJECTED, NULL, text);
        return;
    }
    set_status(a, STATUS_APPROVED);
    struct error err = {0};
    if (keys_check_live(a->set->api->options.keys, &a->who, &err) < 0)
        finish(a, STATUS_FAILED, NULL, err.message);
    else if (a->plan.kind == ACTION_CHANGE)
        use_change(a);
    else
        execute(a, true);
}

static void on_approval(struct approval_watch *w, struct approval *approval)
{
    struct actions *s = container_of(w, struct actions, watch);
    struct action *a = map_find(s->by_id, approval_id(approval));
    if (a)
        settle(a, approval_state(approval), approval_reason(approval));
}

/* --- submitting */

void actions_submit(struct actions *s, const struct identity *who, const char *type,
                    const char *skill_id, const json_t *parameters, action_fn fn, void *data)
{
    struct error err = {0};
    struct action *a = new0(struct action);
    list_init(&a->node);
    if (action_plan_make(type, skill_id, parameters, s->api->options.skill_root, &a->plan, &err) <
        0) {
        free(a);
        fn(data, NULL, &err);
        return;
    }
    memcpy(a->id, "act-", 4);
    random_id(a->id + 4, ID_LENGTH);
    a->type = xstrdup(type);
    a->skill_id = skill_id ? xstrdup(skill_id) : NULL;
    a->parameters = json_deep_copy(parameters);
    a->who = *who;
    a->created_ns = clock_real_ns();
    a->status = STATUS_EXECUTING;
    a->fn = fn;
    a->data = data;
    enter(s, a);
    if (a->plan.kind == ACTION_CHANGE)
        ask_change(a);
    else
        execute(a, false);
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

static void load_identity(const json_t *o, struct identity *ret)
{
    const char *key = json_string_value(json_object_get(o, "key"));
    const char *name = json_string_value(json_object_get(o, "name"));
    snprintf(ret->key, sizeof(ret->key), "%s", key ? key : "");
    snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "");
    ret->roles = (unsigned)json_integer_value(json_object_get(o, "roles"));
    ret->authenticated = json_is_true(json_object_get(o, "authenticated"));
}

static void load_row(void *data, const char *key, const char *body, size_t len)
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
    if (status < 0 || !a->type ||
        action_plan_make(a->type, a->skill_id, a->parameters, s->api->options.skill_root, &a->plan,
                         &err) < 0) {
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
    load_identity(json_object_get(row, "who"), &a->who);
    enter(s, a);
}

static void resume(struct action *a)
{
    struct approval *approval = approvals_find(gate_approvals(gate_of(a)), &a->who, a->id);
    if (is_finished(a))
        return;
    if (a->status != STATUS_PENDING) {
        finish(a, STATUS_FAILED, NULL, "interrupted: the daemon was started again");
        return;
    }
    if (!approval) {
        settle(a, APPROVAL_VOID, "there is no record of it any more");
        return;
    }
    struct sandbox *sb;
    if (files_sandbox(a, false, &sb, NULL) >= 0 && sb)
        hold(a, sb);
    settle(a, approval_state(approval), approval_reason(approval));
}

struct actions *actions_new(struct api *api)
{
    struct error err = {0};
    struct actions *s = new0(struct actions);
    s->api = api;
    s->by_id = map_new();
    list_init(&s->all);
    s->watch.on_change = on_approval;
    if (api->options.store && store_load(api->options.store, STORE_ACTION, load_row, s, &err) < 0)
        log_error("actions cannot be read: %s", err.message);
    list_for_each_safe(a, &s->all, struct action, node) resume(a);
    approvals_watch(gate_approvals(api->options.gate), &s->watch);
    return s;
}

void actions_free(struct actions *s)
{
    if (!s)
        return;
    approval_watch_remove(&s->watch);
    while (!list_empty(&s->all)) {
        struct action *a = container_of(s->all.next, struct action, node);
        a->held = NULL; /* the sandboxes are gone */
        leave(a);
    }
    map_free(s->by_id);
    free(s);
}

/* --- looking */

static bool sees(const struct identity *who, const struct action *a)
{
    return identity_has(who, ROLE_APPROVER | ROLE_AUDITOR) || identity_sees(who, a->who.key);
}

struct action *actions_find(struct actions *s, const struct identity *who, const char *id)
{
    struct action *a = map_find(s->by_id, id);
    return a && sees(who, a) ? a : NULL;
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
    list_for_each(a, &s->all, struct action, node)
    {
        if (a->status != STATUS_PENDING || !sees(who, a))
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
