/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/network-change.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "gateway/gateway-client.h"
#include "gateway/rule.h"
#include "sandbox/sandbox-policy.h"
#include "sandbox/sandbox.h"
#include "tool/network.h"
#include "tool/run.h"

#define CHANGE_TEXT_MAX  (1024 * 1024)
#define CHANGE_SHOWN_MAX (32 * 1024) /* larger ones are on record as numbers and their hash */

struct widening {
    struct weak *weak;
    struct gate *gate;
    struct sandbox *sandbox; /* referenced */
    struct identity who;
    struct gate_terms terms; /* approval_id is its own */
    char **allow, **deny, **drop;
    bool drop_all, asks;
    char *widens;           /* of the rules to add the one that allows something new, or NULL; it is
                               not in allow */
    struct rule_list wider; /* the same, read */
    int64_t asked_s, for_s; /* and how long from then on it is to last */
    char host[TARGET_TEXT_SIZE];
    struct gate_call call;
    struct gate_decision decision;
    struct approval_watch watch;
    bool watching, intended;
    network_change_fn fn; /* NULL once its caller has left, and it does not begin any more */
    void *data;
};

static int64_t now_s(void)
{
    return clock_seen_ns() / 1000000000;
}

static void widening_free(struct widening *w)
{
    weak_clear(&w->weak);
    approval_watch_remove(&w->watch);
    gate_decision_done(&w->decision);
    rule_list_done(&w->wider);
    strv_free(w->allow);
    strv_free(w->deny);
    strv_free(w->drop);
    free(w->widens);
    free((char *)w->terms.approval_id);
    sandbox_unref(w->sandbox);
    free(w);
}

static void widening_end(struct widening *w, const struct error *err)
{
    if (w->intended)
        gate_note_ended(w->gate, w->decision.call_id, sandbox_id(w->sandbox), NULL,
                        err ? "failed" : "done", NULL);
    if (w->fn)
        w->fn(w->data, err);
    widening_free(w);
}

/* --- what widens */

static bool is_one_host(const struct rule *rule)
{
    return rule->kind == RULE_NAME ||
           (rule->kind == RULE_NETWORK && rule->bits == address_bits(&rule->network));
}

/* Of the rules to add, those that allow something new. */
static int find_wider(struct widening *w, struct error *err)
{
    for (char **text = w->allow; text && *text; text++)
        if (!sandbox_network_covers(w->sandbox, *text))
            rule_list_add_full(&w->wider, *text);
    if (w->wider.n == 0)
        return 0;
    const struct rule *rule = &w->wider.rules[0];
    if (w->wider.n > 1 || !rule->port || !is_one_host(rule))
        return error_field(
            err, "allow",
            "a change that widens a network must be one rule with one host and one port");
    if (!rule->until_s)
        return error_field(err, "allow[0].for",
                           "a rule that widens a network needs 'for', a duration of at most 24h");
    w->for_s = rule->until_s - w->asked_s;
    char **at = w->allow;
    while (sandbox_network_covers(w->sandbox, *at))
        at++;
    w->widens = *at;
    for (; *at; at++)
        at[0] = at[1];
    return 0;
}

/* --- on record */

static json_t *texts_to_json(char *const *texts)
{
    json_t *list = json_array();
    for (; texts && *texts; texts++)
        json_array_append_new(list, json_message(*texts));
    return list;
}

/* What changes, as the audit has it, with one hash over all of it (as JSON, the lists in this
 * order).
 */
static json_t *change_to_json(const struct network_change *c)
{
    char digest[AUDIT_DIGEST_SIZE];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(CHANGE_TEXT_MAX);
    json_t *o = json_pack("{s:o, s:o, s:o, s:b}", "allow", texts_to_json(c->allow), "deny",
                          texts_to_json(c->deny), "drop", texts_to_json(c->drop), "drop_all",
                          (int)c->drop_all);
    json_format(o, &b);
    audit_digest(b.data, b.len, digest);
    if (b.len > CHANGE_SHOWN_MAX) { /* a record has no room for all of it, and the hash stays */
        json_object_set_new(o, "allow", json_integer((json_int_t)strv_length(c->allow)));
        json_object_set_new(o, "deny", json_integer((json_int_t)strv_length(c->deny)));
        json_object_set_new(o, "drop", json_integer((json_int_t)strv_length(c->drop)));
    }
    json_object_set_new(o, "digest", json_string(digest));
    return o;
}

static int record_change(struct widening *w, const struct network_change *c, struct error *err)
{
    return run_record_sandbox(gate_audit(w->gate), w->sandbox, &w->who, "network",
                              json_pack("{s:o}", "network", change_to_json(c)), err);
}

/* Everything that is left to do, the rule that widens last. */
static char **all_allowed(const struct widening *w)
{
    size_t n = strv_length(w->allow);
    char **all = xcalloc(n + 2, sizeof(*all));
    for (size_t i = 0; i < n; i++)
        all[i] = xstrdup(w->allow[i]);
    all[n] = w->widens ? xstrdup(w->widens) : NULL;
    return all;
}

static void put_change(const struct gate_call *call, struct json_text *t)
{
    const struct widening *w = container_of(call, struct widening, call);
    _cleanup_strv_ char **allow = all_allowed(w);
    struct network_change change = {allow, w->deny, w->drop, w->drop_all};
    _cleanup_json_ json_t *o = change_to_json(&change);
    json_text_value(t, "network", o);
}

static void set_call(struct widening *w)
{
    struct rule place = w->wider.rules[0];
    place.port = 0;
    _cleanup_free_ char *host = rule_format_host(&place);
    snprintf(w->host, sizeof(w->host), "%s", host);
    w->call = (struct gate_call){.tool = GATE_NETWORK,
                                 .capabilities = CAPABILITY_NETWORK,
                                 .host = w->host,
                                 .port = w->wider.rules[0].port,
                                 .who = &w->who,
                                 .terms = &w->terms,
                                 .builtin = true,
                                 .put_parts = put_change,
                                 .runtime = sandbox_spec(w->sandbox)->runtime,
                                 .sandbox = sandbox_id(w->sandbox)};
    audit_call_id(w->decision.call_id);
}

/* The sandbox's own policy (the MAS API's) is as far as it may ever go. */
static int check_own_policy(struct widening *w, struct error *err)
{
    const struct sandbox_policy *own = sandbox_policy(w->sandbox);
    struct error why = {0};
    if (!own)
        return 0;
    if (own->policy.has_network && !own->policy.network_enabled)
        error_set(&why, ERROR_DENIED, 0, "network disabled");
    else
        policy_check_host(&own->policy, w->host, w->call.port, &why);
    return error_is_set(&why)
               ? gate_refuse(w->gate, &w->call, &w->decision, "request policy", why.message, err)
               : 0;
}

static int refuse_stripped(struct widening *w, struct error *err)
{
    char rule[64], why[120];
    snprintf(rule, sizeof(rule), "%s", w->decision.rules.rule);
    snprintf(why, sizeof(why), "network to %.40s: rule '%s' takes the network away", w->host, rule);
    return gate_refuse(w->gate, &w->call, &w->decision, rule, why, err);
}

static int widening_decide(struct widening *w, struct error *err)
{
    int r = check_own_policy(w, err);
    if (r < 0)
        return r;
    r = gate_decide(w->gate, &w->call, &w->decision, err);
    if (r < 0)
        return r;
    if (w->decision.rules.obligations.strip_network)
        r = refuse_stripped(w, err);
    return r;
}

/* --- doing it */

static void on_taken_back(void *data, const struct error *err)
{
    (void)data;
    (void)err; /* the row that could not be written is written again by itself */
}

/* What widens and cannot be recorded never was; what narrows holds all the same. */
static void on_written(void *data, const struct error *err)
{
    struct widening *w = data;
    if (err && w->widens) {
        struct error ignored = {0};
        char *const rule[] = {w->widens, NULL};
        struct network_change back = {.drop = rule};
        sandbox_change_network(w->sandbox, &back, on_taken_back, NULL, &ignored);
    }
    widening_end(w, err);
}

static void widening_apply(struct widening *w)
{
    struct error err = {0};
    /* The time begins now, however long a person took. */
    if (w->widens) {
        w->wider.rules[0].until_s = now_s() + w->for_s;
        free(w->widens);
        w->widens = rule_format(&w->wider.rules[0]);
    }
    _cleanup_strv_ char **allow = all_allowed(w);
    struct network_change change = {allow, w->deny, w->drop, w->drop_all};
    int r = w->widens ? gate_intent(w->gate, &w->call, &w->decision, w->terms.approval_id, &err)
                      : record_change(w, &change, &err);
    w->intended = r >= 0 && w->widens;
    if (r < 0 || sandbox_change_network(w->sandbox, &change, on_written, w, &err) < 0)
        widening_end(w, &err);
}

/* --- asking */

/* What widens, however long it is to last. The caller frees. */
static char *format_endless(const struct widening *w)
{
    struct rule shown = w->wider.rules[0];
    shown.until_s = 0;
    return rule_format(&shown);
}

static json_t *subject_of(const struct widening *w)
{
    const struct rule *rule = &w->wider.rules[0];
    _cleanup_free_ char *text = format_endless(w);
    return json_pack("{s:i, s:s, s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:i, s:I, s:b}}", "version",
                     1, "tool", GATE_NETWORK, "requester", w->who.key, "policy_revision",
                     ruleset_revision(w->decision.ruleset), "sandbox", "id", sandbox_id(w->sandbox),
                     "generation", sandbox_generation(w->sandbox), "network", "rule", text, "host",
                     w->host, "port", rule->port, "for_seconds", (json_int_t)w->for_s, "rule_asks",
                     (int)w->asks);
}

static void on_used(void *data, struct approval *a, const struct error *err)
{
    struct widening *w = weak_unref(data);
    struct error late = {0};
    (void)a;
    if (!w)
        return;
    if (!w->fn)
        error_set(&late, ERROR_CONFLICT, 0, "its caller has left");
    if (err || !w->fn ||
        sandbox_check_network(w->sandbox, &(struct network_change){0}, &late) < 0 ||
        widening_decide(w, &late) < 0) {
        widening_end(w, err ? err : &late);
        return;
    }
    widening_apply(w);
}

/* A grant is used once: where the sandbox cannot be widened now, it stays for another try. */
static int use_grant(struct widening *w, struct error *err)
{
    _cleanup_strv_ char **allow = all_allowed(w);
    struct network_change change = {allow, w->deny, w->drop, w->drop_all};
    if (sandbox_check_network(w->sandbox, &change, err) < 0)
        return -1;
    _cleanup_json_ json_t *subject = subject_of(w);
    _cleanup_json_ json_t *obligations = rules_obligations_to_json(&w->decision.rules.obligations);
    struct approval_need need = {.risk = w->decision.rules.risk,
                                 .rule = w->decision.rules.rule,
                                 .revision = ruleset_revision(w->decision.ruleset),
                                 .obligations = obligations};
    struct weak *weak = weak_ref(&w->weak, w);
    int r = approvals_use(gate_approvals(w->gate), w->terms.approval_id, &w->who, subject, &need,
                          on_used, weak, err);
    if (r >= 0)
        return r;
    weak_unref(weak);
    struct error ignored = {0};
    gate_refuse(w->gate, &w->call, &w->decision, "approval", err->message, &ignored);
    return r;
}

/* The no of a person who was asked by a rule of the network: it is not asked about again. */
static void deny_for_good(struct widening *w)
{
    struct error err = {0};
    _cleanup_free_ char *text = format_endless(w);
    char *const denied[] = {text, NULL};
    struct network_change change = {.deny = denied};
    free(steal_ptr(w->widens));
    if (record_change(w, &change, &err) < 0) {
        log_error("a rejection could not be recorded id=%s: %s", sandbox_id(w->sandbox),
                  err.message);
        err = (struct error){0}; /* what narrows waits for nothing */
    }
    if (sandbox_change_network(w->sandbox, &change, on_written, w, &err) < 0)
        widening_end(w, &err);
}

static void on_change(struct approval_watch *watch, struct approval *a)
{
    struct widening *w = container_of(watch, struct widening, watch);
    struct error err = {0};
    if (strcmp(approval_id(a), w->terms.approval_id) != 0 || approval_state(a) == APPROVAL_PENDING)
        return;
    approval_watch_remove(watch);
    w->watching = false;
    if (approval_state(a) == APPROVAL_APPROVED && widening_decide(w, &err) >= 0 &&
        use_grant(w, &err) >= 0)
        return;
    if (w->asks && approval_state(a) == APPROVAL_REJECTED) {
        deny_for_good(w);
        return;
    }
    if (!error_is_set(&err))
        error_set(&err, ERROR_DENIED, 0, "approval %s is %s", approval_id(a),
                  approval_state_name(approval_state(a)));
    widening_end(w, &err);
}

static void watch_approval(struct widening *w, const struct approval *a)
{
    w->watching = true;
    w->terms.approval_id = xstrdup(approval_id(a));
    w->watch.on_change = on_change;
    approvals_watch(gate_approvals(w->gate), &w->watch);
}

static void on_asked(void *data, struct approval *a, const struct error *err)
{
    struct widening *w = weak_unref(data);
    struct error pending = {0};
    if (!w)
        return;
    if (!err && w->terms.wait && w->fn) {
        watch_approval(w, a);
        return;
    }
    if (!err) {
        error_set(&pending, ERROR_PENDING, 0, "waiting for approval %s", approval_id(a));
        memcpy(pending.ref, approval_id(a), APPROVAL_ID_SIZE);
    }
    widening_end(w, err ? err : &pending);
}

static int ask_person(struct widening *w, struct error *err)
{
    _cleanup_json_ json_t *subject = subject_of(w);
    _cleanup_json_ json_t *obligations = rules_obligations_to_json(&w->decision.rules.obligations);
    _cleanup_json_ json_t *shown =
        json_pack("{s:[s], s:s}", "hosts", w->host, "runtime", sandbox_spec(w->sandbox)->runtime);
    struct approval_request r = {.who = &w->who,
                                 .need = {.risk = w->decision.rules.risk,
                                          .rule = w->decision.rules.rule,
                                          .revision = ruleset_revision(w->decision.ruleset),
                                          .obligations = obligations},
                                 .reason = w->decision.rules.reason,
                                 .subject = subject,
                                 .shown = shown};
    struct weak *weak = weak_ref(&w->weak, w);
    int e = approvals_ask(gate_approvals(w->gate), &r, on_asked, weak, err);
    if (e < 0)
        weak_unref(weak);
    return e;
}

/* --- questions of rules that ask */

#define QUESTIONS_LOOKED_AT 256

static bool is_about(const struct approval *a, const struct widening *w)
{
    _cleanup_json_ json_t *view = approval_view(a, true);
    const json_t *subject = json_object_get(view, "subject");
    const json_t *box = json_object_get(subject, "sandbox");
    const json_t *network = json_object_get(subject, "network");
    const char *generation = json_string_value(json_object_get(box, "generation"));
    const char *rule = json_string_value(json_object_get(network, "rule"));
    _cleanup_free_ char *own = format_endless(w);
    return generation && rule && strcmp(generation, sandbox_generation(w->sandbox)) == 0 &&
           strcmp(rule, own) == 0 && json_is_true(json_object_get(network, "rule_asks")) &&
           json_integer_value(json_object_get(network, "for_seconds")) == w->for_s;
}

/* What an earlier control plane asked is not asked a second time. */
static struct approval *find_question(struct widening *w, enum approval_state state)
{
    struct approval *all[QUESTIONS_LOOKED_AT];
    size_t n = approvals_list(gate_approvals(w->gate), &w->who, (int)state, all, ELEMENTS(all));
    for (size_t i = 0; i < n; i++)
        if (is_about(all[i], w))
            return all[i];
    return NULL;
}

static int ask_or_go_on(struct widening *w, struct error *err)
{
    struct approval *open = find_question(w, APPROVAL_PENDING);
    struct approval *granted = open ? NULL : find_question(w, APPROVAL_APPROVED);
    /* The control plane that heard the no may have died before the sandbox's row had it. */
    if (!open && !granted && find_question(w, APPROVAL_REJECTED)) {
        deny_for_good(w);
        return 0;
    }
    if (granted) {
        w->terms.approval_id = xstrdup(approval_id(granted));
        return use_grant(w, err);
    }
    if (!open)
        return ask_person(w, err);
    watch_approval(w, open);
    return 0;
}

/* --- the way */

static int widening_ask(struct widening *w, struct error *err)
{
    if (w->asks)
        return ask_or_go_on(w, err);
    return w->terms.approval_id ? use_grant(w, err) : ask_person(w, err);
}

static void on_narrowed(void *data, const struct error *err)
{
    struct widening *w = weak_unref(data);
    struct error late = {0};
    if (!w)
        return;
    strv_free(steal_ptr(w->allow));
    strv_free(steal_ptr(w->deny));
    strv_free(steal_ptr(w->drop));
    w->drop_all = false;
    if (!err && !w->fn)
        error_set(&late, ERROR_CONFLICT, 0, "its caller has left");
    if (err || !w->fn || widening_ask(w, &late) < 0)
        widening_end(w, err ? err : &late);
}

/* Whatever needs no person holds at once, and only the rule that widens waits: what is taken away
 * does not wait for a yes to something else, and a yes brings nothing back that was taken away
 * meanwhile. */
static int widening_wait(struct widening *w, struct error *err)
{
    struct network_change change = {w->allow, w->deny, w->drop, w->drop_all};
    if (!strv_length(w->allow) && !strv_length(w->deny) && !strv_length(w->drop) && !w->drop_all)
        return widening_ask(w, err);
    int r = record_change(w, &change, err);
    if (r < 0)
        return r;
    struct weak *weak = weak_ref(&w->weak, w);
    r = sandbox_change_network(w->sandbox, &change, on_narrowed, weak, err);
    if (r < 0)
        weak_unref(weak);
    return r;
}

/* A call that comes again with its grant names rules that went when it came first. */
static void forget_dropped(struct widening *w)
{
    char **kept = w->drop;
    for (char **word = w->drop; word && *word; word++) {
        if (sandbox_network_has(w->sandbox, *word))
            *kept++ = *word;
        else
            free(*word);
    }
    if (kept)
        *kept = NULL;
}

/* 1: it waits for a person, and may have ended already. */
static int widening_begin(struct widening *w, struct error *err)
{
    if (w->terms.approval_id)
        forget_dropped(w);
    struct network_change change = {w->allow, w->deny, w->drop, w->drop_all};
    int r = sandbox_check_network(w->sandbox, &change, err);
    if (r < 0)
        return r;
    r = find_wider(w, err);
    if (r < 0 || !w->widens)
        return r;
    set_call(w);
    r = widening_decide(w, err);
    if (r < 0 || (!w->asks && w->decision.rules.verdict != VERDICT_ASK && !w->terms.approval_id))
        return r;
    r = widening_wait(w, err);
    return r < 0 ? r : 1;
}

static struct widening *widening_new(const struct widening_request *req, network_change_fn fn,
                                     void *data)
{
    struct widening *w = new0(struct widening);
    w->gate = req->gate;
    w->sandbox = sandbox_ref(req->sandbox);
    w->who = *req->who;
    w->terms = (struct gate_terms){.wait = req->terms->wait};
    w->terms.approval_id = req->terms->approval_id ? xstrdup(req->terms->approval_id) : NULL;
    w->allow = strv_copy(req->change.allow);
    w->deny = strv_copy(req->change.deny);
    w->drop = strv_copy(req->change.drop);
    w->drop_all = req->change.drop_all;
    w->asks = req->ask;
    w->asked_s = req->now_s;
    w->fn = fn;
    w->data = data;
    list_init(&w->watch.node);
    return w;
}

/* The change may end, and be freed, before this call returns: the weak reference tells whether
 * there is one to give to the caller. */
struct widening *network_change_start(const struct widening_request *req, network_change_fn fn,
                                      void *data)
{
    struct error err = {0};
    struct widening *w = widening_new(req, fn, data);
    struct weak *here = weak_ref(&w->weak, w);
    int r = widening_begin(w, &err);
    if (r < 0)
        widening_end(w, &err);
    else if (r == 0)
        widening_apply(w);
    return weak_unref(here);
}

/* A change that watches an approval has nothing under way, and is freed. One that waits for a
 * record or a row cannot be: the callback that comes finds that there is no caller any more, and
 * ends it.
 */
void network_change_abandon(struct widening *w)
{
    w->fn = NULL;
    if (w->watching)
        widening_free(w);
}

void network_ask(void *gate, struct sandbox *sb, const char *rule, network_change_fn fn, void *data)
{
    int64_t asked_s = now_s();
    _cleanup_free_ char *ending =
        xasprintf("%s until=%lld", rule, (long long)(asked_s + NETWORK_ASKED_S));
    char *const allow[] = {ending, NULL};
    struct identity who = gate_owner(gate, sandbox_owner(sb));
    struct gate_terms terms = {.wait = true};
    struct widening_request req = {.gate = gate,
                                   .sandbox = sb,
                                   .who = &who,
                                   .terms = &terms,
                                   .ask = true,
                                   .now_s = asked_s,
                                   .change = {.allow = allow}};
    network_change_start(&req, fn, data);
}
