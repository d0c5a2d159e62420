/* SPDX-License-Identifier: Apache-2.0 */
#include "api/action.h"

#include <stdio.h>
#include <string.h>

#include "api/action-internal.h"
#include "api/internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "guard/gate.h"
#include "identity/keys.h"
#include "store/store.h"
#include "tool/skill.h"
#include "tool/tool.h"

#define ID_LENGTH 16

static struct gate *action_gate(const struct action *a)
{
    return a->set->api->services.gate;
}

/* --- running */

/* Nothing ran: the submitter hears of it, and later ones find it as it ended. */
static void action_refuse(struct action *a, enum error_code code, const char *message)
{
    struct error err = {0};
    error_set(&err, code, 0, "%s", message);
    if (a->fn) {
        action_answer(a, &err);
        action_leave(a);
    } else {
        action_finish(a, STATUS_FAILED, NULL, message);
    }
}

static void wait_for_person(struct action *a)
{
    const struct approval *approval =
        approvals_find(gate_approvals(action_gate(a)), &a->who, a->id);
    if (approval && approval_risk(approval) > a->plan.level)
        a->plan.level = approval_risk(approval); /* a rule or a finding weighs more */
    action_set_status(a, STATUS_PENDING);
    action_save(a);
}

static void on_tool_done(void *data, const struct tool_result *r)
{
    struct action *a = data;
    if (r->approval_id) {
        wait_for_person(a);
    } else if (r->ok) {
        action_finish(a, STATUS_COMPLETED, r->result, NULL);
    } else if (strcmp(r->code, "policy_denied") == 0) {
        action_refuse(a, ERROR_DENIED, r->message);
    } else if (strcmp(r->code, "invalid_request") == 0) {
        action_refuse(a, ERROR_INVALID, r->message);
    } else {
        action_finish(a, STATUS_FAILED, r->result, r->message);
    }
}

static void on_file_done(void *data, const json_t *result, const struct error *err)
{
    struct action *a = data;
    if (err && err->code == ERROR_PENDING)
        wait_for_person(a);
    else if (err)
        action_finish(a, STATUS_FAILED, NULL, err->message);
    else
        action_finish(a, STATUS_COMPLETED, (json_t *)result, NULL);
}

static struct skill_options skill_options_of(const struct action *a)
{
    const struct services *o = &a->set->api->services;
    return (struct skill_options){.manager = o->manager,
                                  .gate = o->gate,
                                  .default_spec = o->default_spec,
                                  .root = o->config.skill_root};
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
        action_refuse(a, err.code, err.message);
    return !run || skill_is_waiting(run);
}

static bool start_tool(struct action *a, struct sandbox *sb, const struct gate_terms *terms)
{
    struct tool_request req = {.who = &a->who,
                               .terms = terms,
                               .name = a->plan.tool,
                               .args = a->plan.args,
                               .sandbox = sb,
                               .policy = &a->plan.policy};
    struct tool_call *call = tool_call_start(&a->set->api->services.tool, &req, on_tool_done, a);
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

static void hold_sandbox(struct action *a, struct sandbox *sb)
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
    action_finish(a, err ? STATUS_FAILED : STATUS_COMPLETED, err ? NULL : result,
                  err ? err->message : NULL);
}

static void on_skill_changed(void *data, const struct error *err)
{
    struct action *a = data;
    action_finish(a, err ? STATUS_FAILED : STATUS_COMPLETED, err ? NULL : a->plan.args,
                  err ? err->message : NULL);
}

/* On record before it holds. */
static void apply_change(struct action *a)
{
    const struct services *o = &a->set->api->services;
    const char *skill = json_string_value(json_object_get(a->plan.args, "skill_id"));
    struct error err = {0};
    int r = gate_record(o->gate, "config_change", &a->who, a->id, "config_change", "applied",
                        a->plan.args, &err);
    if (r < 0) {
        action_finish(a, STATUS_FAILED, NULL, err.message);
        return;
    }
    if (a->plan.change == CHANGE_RELOAD_POLICY) {
        o->reload_policy(o->reload_data, &a->who, on_reloaded, a);
        return;
    }
    bool enable = a->plan.change == CHANGE_ENABLE_SKILL;
    if (skill_set_enabled(o->skills, skill, enable, on_skill_changed, a, &err) < 0)
        action_finish(a, STATUS_FAILED, NULL, err.message);
}

static void action_execute(struct action *a, bool granted)
{
    struct error err = {0};
    struct sandbox *sb = NULL;
    struct gate_terms terms = {.action_id = a->id,
                               .approval_id = granted ? a->id : NULL,
                               .ask = a->plan.level >= RISK_HIGH,
                               .ask_risk = a->plan.level};
    if ((a->plan.skill && skill_check(a->set->api->services.skills, a->plan.skill, &err) < 0) ||
        files_sandbox(a, true, &sb, &err) < 0) {
        action_refuse(a, err.code, err.message);
        return;
    }
    if (sb)
        hold_sandbox(a, sb);
    action_set_status(a, STATUS_EXECUTING);
    bool settled =
        a->plan.kind == ACTION_FILE ? start_file(a, sb, &terms) : start_tool(a, sb, &terms);
    if (!settled)
        action_save(a); /* it runs: the submitter need not wait for its end */
}

/* --- a change of the daemon's own state: no sandbox, but the same approval */

static json_t *change_subject(const struct action *a)
{
    return json_pack("{s:i, s:s, s:O, s:s, s:s, s:s}", "version", 1, "tool", "config_change",
                     "args", a->plan.args, "requester", a->who.key, "policy_revision",
                     gate_revision(action_gate(a)), "action", a->id);
}

static struct approval_need change_need(const struct action *a)
{
    return (struct approval_need){
        .risk = RISK_CRITICAL, .rule = "level", .revision = gate_revision(action_gate(a))};
}

static void on_asked(void *data, struct approval *approval, const struct error *err)
{
    struct action *a = data;
    (void)approval;
    if (err)
        action_refuse(a, err->code, err->message);
    else
        wait_for_person(a);
}

static void ask_change(struct action *a)
{
    struct error err = {0};
    _cleanup_json_ json_t *subject = change_subject(a);
    struct approval_request r = {.id = a->id,
                                 .who = &a->who,
                                 .need = change_need(a),
                                 .reason = "a change of the configuration is critical",
                                 .subject = subject};
    if (approvals_ask(gate_approvals(action_gate(a)), &r, on_asked, a, &err) < 0)
        action_refuse(a, err.code, err.message);
}

static void on_change_granted(void *data, struct approval *approval, const struct error *err)
{
    struct action *a = data;
    (void)approval;
    if (err)
        action_finish(a, STATUS_FAILED, NULL, err->message);
    else
        apply_change(a);
}

static void use_change(struct action *a)
{
    struct error err = {0};
    _cleanup_json_ json_t *subject = change_subject(a);
    action_set_status(a, STATUS_EXECUTING);
    struct approval_need need = change_need(a);
    if (approvals_use(gate_approvals(action_gate(a)), a->id, &a->who, subject, &need,
                      on_change_granted, a, &err) < 0)
        action_finish(a, STATUS_FAILED, NULL, err.message);
}

/* --- what a person decided */

static void action_settle(struct action *a, enum approval_state state, const char *why)
{
    if (a->status != STATUS_PENDING || state == APPROVAL_PENDING)
        return;
    if (state != APPROVAL_APPROVED) {
        char text[APPROVAL_REASON_MAX + 64];
        snprintf(text, sizeof(text), "%s%s%s", approval_state_name(state), *why ? ": " : "", why);
        action_finish(a, STATUS_REJECTED, NULL, text);
        return;
    }
    action_set_status(a, STATUS_APPROVED);
    struct error err = {0};
    if (keys_check_live(a->set->api->services.keys, &a->who, &err) < 0)
        action_finish(a, STATUS_FAILED, NULL, err.message);
    else if (a->plan.kind == ACTION_CHANGE)
        use_change(a);
    else
        action_execute(a, true);
}

static void on_approval(struct approval_watch *w, struct approval *approval)
{
    struct actions *s = container_of(w, struct actions, watch);
    struct action *a = map_find(s->by_id, approval_id(approval));
    if (a)
        action_settle(a, approval_state(approval), approval_reason(approval));
}

/* --- submitting */

void actions_submit(struct actions *s, const struct identity *who, const char *type,
                    const char *skill_id, const json_t *parameters, action_fn fn, void *data)
{
    struct error err = {0};
    struct action *a = new0(struct action);
    list_init(&a->node);
    if (action_plan_make(type, skill_id, parameters, s->api->services.config.skill_root, &a->plan,
                         &err) < 0) {
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
    action_enter(s, a);
    if (a->plan.kind == ACTION_CHANGE)
        ask_change(a);
    else
        action_execute(a, false);
}

static void resume_action(struct action *a)
{
    struct approval *approval = approvals_find(gate_approvals(action_gate(a)), &a->who, a->id);
    if (action_is_finished(a))
        return;
    if (a->status != STATUS_PENDING) {
        action_finish(a, STATUS_FAILED, NULL, "interrupted: the daemon was started again");
        return;
    }
    if (!approval) {
        action_settle(a, APPROVAL_VOID, "there is no record of it any more");
        return;
    }
    struct sandbox *sb;
    if (files_sandbox(a, false, &sb, NULL) >= 0 && sb)
        hold_sandbox(a, sb);
    action_settle(a, approval_state(approval), approval_reason(approval));
}

struct actions *actions_new(struct api *api)
{
    struct error err = {0};
    struct actions *s = new0(struct actions);
    s->api = api;
    s->by_id = map_new();
    list_init(&s->all);
    s->watch.on_change = on_approval;
    if (api->services.store &&
        store_load(api->services.store, STORE_ACTION, action_load_row, s, &err) < 0)
        log_error("actions cannot be read: %s", err.message);
    list_for_each_safe(a, &s->all, struct action, node)
        resume_action(a);
    approvals_watch(gate_approvals(api->services.gate), &s->watch);
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
        action_leave(a);
    }
    map_free(s->by_id);
    free(s);
}
