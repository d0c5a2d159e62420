/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/gate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json-format.h"
#include "base/strbuf.h"
#include "guard/approval.h"
#include "guard/gate-internal.h"
#include "identity/keys.h"
#include "policy/policy.h"

#define MINUTE_NS      (60LL * 1000000000)
#define ARGV_SHOWN_MAX 4096 /* bytes of an argument vector in a record */
#define DETAILS_MAX    (4 * 1024 * 1024)

struct gate *gate_new(const struct gate_options *o, struct error *err)
{
    struct gate *g = new0(struct gate);
    g->audit = o->audit;
    g->events = o->events;
    g->env = o->env;
    g->keys = o->keys;
    struct approvals_options a = {.loop = o->loop,
                                  .store = o->store,
                                  .events = o->events,
                                  .gate = g,
                                  .keys = o->keys,
                                  .config = o->approvals};
    g->approvals = approvals_new(&a, err);
    if (g->approvals)
        return g;
    gate_free(g);
    return NULL;
}

void gate_free(struct gate *g)
{
    if (!g)
        return;
    approvals_free(g->approvals);
    ruleset_unref(g->ruleset);
    free(g->policy_name);
    free(g);
}

struct approvals *gate_approvals(const struct gate *g)
{
    return g->approvals;
}

struct event_journal *gate_events(const struct gate *g)
{
    return g->events;
}

struct audit *gate_audit(const struct gate *g)
{
    return g->audit;
}

/* --- step 1: what the request's own policies leave */

static int check_policies(const struct gate_call *call, struct error *err)
{
    for (size_t i = 0; i < call->n_policies; i++) {
        int r = policy_check_tool(call->policies[i], call->tool, call->capabilities, err);
        if (r >= 0 && call->host)
            r = policy_check_host(call->policies[i], call->host, call->port, err);
        if (r < 0)
            return r;
    }
    /* Off unless a policy turned it on; one that turned it off wins (policy_check_tool). */
    if (!(call->capabilities & CAPABILITY_NETWORK))
        return 0;
    for (size_t i = 0; i < call->n_policies; i++)
        if (call->policies[i]->has_network && call->policies[i]->network_enabled)
            return 0;
    return error_set(err, ERROR_DENIED, 0, "network disabled");
}

/* --- steps 2 and 3 */

/* What a check found in an action of the actions API raises its level: a person looks at it. */
static void weigh_findings(const struct gate_terms *t, const struct findings *f,
                           struct rules_decision *d)
{
    if (!t || !t->action_id || d->verdict != VERDICT_ALLOW)
        return;
    for (size_t i = 0; i < f->n; i++) {
        if (f->list[i].severity < RISK_HIGH)
            continue;
        d->verdict = VERDICT_ASK;
        d->risk = RISK_HIGH;
        snprintf(d->rule, sizeof(d->rule), "finding");
        snprintf(d->reason, sizeof(d->reason), "%s: %s", f->list[i].id, f->list[i].message);
        return;
    }
}

static void apply_terms(const struct gate_terms *t, struct rules_decision *d)
{
    if (!t || !t->ask || d->verdict == VERDICT_DENY)
        return;
    if (d->verdict == VERDICT_ALLOW) {
        snprintf(d->rule, sizeof(d->rule), "level");
        snprintf(d->reason, sizeof(d->reason), "an action of this level waits for a person");
        d->risk = t->ask_risk;
    }
    d->verdict = VERDICT_ASK;
    d->risk = d->risk > t->ask_risk ? d->risk : t->ask_risk;
}

char **gate_asked_env(const struct gate *g, char *const *env, char *const *image_env)
{
    size_t n = 0;
    char **asked = xcalloc(strv_length(env) + strv_length(image_env) + 1, sizeof(*asked));
    for (; image_env && *image_env; image_env++)
        if (strncmp(*image_env, "PATH=", 5) != 0)
            asked[n++] = *image_env;
    for (; env && *env; env++) {
        char *const *own = g->env;
        while (own && *own && strcmp(*own, *env) != 0)
            own++;
        if (!own || !*own)
            asked[n++] = *env;
    }
    return asked;
}

/* The ruleset is referenced by the decision: a policy that is loaded while a call waits does not
 * change what was decided, and gate_confirm() sees by the pointer that there is another one. */
static void decide_call(struct gate *g, const struct gate_call *call, struct gate_decision *d)
{
    checks_run(call, &d->findings);
    d->at_s = clock_real_ns() / 1000000000;
    d->ruleset = ruleset_ref(g->ruleset);
    _cleanup_free_ char **sandbox_env = gate_asked_env(g, call->sandbox_env, call->image_env);
    struct rules_call rc = {
        .who = call->who,
        .tool = call->tool,
        .capabilities = call->capabilities,
        .argv = call->builtin ? NULL : call->argv,
        .cwd = call->cwd,
        .env = call->env,
        .sandbox_env = sandbox_env,
        .paths = call->paths,
        .n_paths = call->n_paths,
        .host = call->host,
        .port = call->port,
        .runtime = call->runtime,
        .image_names = call->image_names,
        .image_digest = call->image_digest,
        .limits = call->limits,
        .findings = d->findings.list,
        .n_findings = d->findings.n,
        .now_s = d->at_s,
    };
    ruleset_decide(d->ruleset, &rc, &d->rules);
    weigh_findings(call->terms, &d->findings, &d->rules);
    apply_terms(call->terms, &d->rules);
}

void gate_decision_done(struct gate_decision *d)
{
    ruleset_unref(d->ruleset);
    d->ruleset = NULL;
}

static void fill_record(struct audit_record *r, const struct gate_call *call,
                        const struct gate_decision *d)
{
    r->who = call->who;
    r->call_id = d->call_id;
    r->action_id = call->terms ? call->terms->action_id : NULL;
    r->sandbox = call->sandbox;
    r->tool = call->tool;
    r->rule = d->rules.rule;
    r->revision = ruleset_revision(d->ruleset);
}

/* What runs, as hashes; and in clear unless a rule asks for silence. */
static void put_argv(struct json_text *t, const struct gate_call *call,
                     const struct gate_decision *d)
{
    char digest[AUDIT_DIGEST_SIZE];
    size_t total = 0;
    if (!call->argv)
        return;
    audit_digest_argv(call->argv, digest);
    json_text_string(t, "argv_digest", digest);
    if (call->args) {
        char *text = json_dumps(call->args, JSON_COMPACT | JSON_SORT_KEYS);
        audit_digest(text ? text : "", text ? strlen(text) : 0, digest);
        json_text_string(t, "args_digest", digest);
        free(text);
    }
    if (d->rules.obligations.redact_args)
        return;
    json_text_open(t, "argv", '[');
    for (char *const *a = call->argv; *a; a++) {
        size_t n = strlen(*a), room = ARGV_SHOWN_MAX - total;
        json_text_bytes(t, NULL, *a, n < room ? n : room);
        total += n < room ? n : room;
        if (n >= room)
            break;
    }
    json_text_close(t, ']');
}

/* Names what decided, why, and what the checks found. The object stays open. */
static struct json_text put_decision(const struct gate_call *call, const struct gate_decision *d,
                                     bool why, struct strbuf *out)
{
    struct json_text t = json_text_begin(out, '{');
    const char *reason = d->rules.reason, *would = d->rules.would;
    if (why && *reason && !d->rules.obligations.redact_args) /* it quotes the command */
        json_text_bytes(&t, "reason", reason, strlen(reason));
    if (*would)
        json_text_bytes(&t, "would", would, strlen(would));
    if (d->findings.n) {
        _cleanup_json_ json_t *findings = findings_to_json(&d->findings);
        json_text_value(&t, "findings", findings);
    }
    put_argv(&t, call, d);
    return t;
}

/* A record of a decision as the text of its details, which is in out; NULL when out of room. */
static const char *decision_details(const struct gate_call *call, const struct gate_decision *d,
                                    struct strbuf *out)
{
    struct json_text t = put_decision(call, d, true, out);
    return json_text_end(&t, '}') < 0 ? NULL : out->data;
}

static void record_refusal(struct gate *g, const struct gate_call *call,
                           const struct gate_decision *d)
{
    struct audit_record r = {.kind = "refusal", .outcome = "deny"};
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    fill_record(&r, call, d);
    r.details_text = decision_details(call, d, &details);
    audit_note(g->audit, &r);
}

/* For refusals that no rule of the policy decided. They are on record as any other, with the name
 * of what refused in the place of the rule. */
int gate_refuse(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                const char *rule, const char *reason, struct error *err)
{
    d->rules.verdict = VERDICT_DENY;
    snprintf(d->rules.rule, sizeof(d->rules.rule), "%s", rule);
    snprintf(d->rules.reason, sizeof(d->rules.reason), "%s", reason);
    record_refusal(g, call, d);
    error_set(err, ERROR_DENIED, 0, "%s", reason);
    return -EPERM;
}

/* 0, or what keeps the call from going on. */
static int record_verdict(struct gate *g, const struct gate_call *call,
                          const struct gate_decision *d, struct error *err)
{
    if (d->rules.verdict == VERDICT_DENY) {
        record_refusal(g, call, d);
        return error_set(err, ERROR_DENIED, 0, "denied by rule '%s'%s%s", d->rules.rule,
                         *d->rules.reason ? ": " : "", d->rules.reason);
    }
    if (d->rules.verdict == VERDICT_ALLOW)
        return 0;
    struct audit_record r = {.kind = "decision", .outcome = "ask"};
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    fill_record(&r, call, d);
    r.details_text = decision_details(call, d, &details);
    return audit_write(g->audit, &r, NULL, err);
}

int gate_begin(struct gate *g, const struct gate_call *call, struct gate_decision *d,
               struct error *err)
{
    *d = (struct gate_decision){0};
    audit_call_id(d->call_id);
    if (check_policies(call, err) < 0)
        return gate_refuse(g, call, d, "request policy", err->message, err);
    return 0;
}

/* Only a verdict that is another one than before is recorded: a call is decided on several times on
 * its way, and the same answer need not be there more than once. */
int gate_decide(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                struct error *err)
{
    enum verdict before = d->rules.verdict;
    gate_decision_done(d);
    memset(&d->rules, 0, sizeof(d->rules));
    decide_call(g, call, d);
    if (keys_check_live(g->keys, call->who, err) < 0)
        return gate_refuse(g, call, d, "key", err->message, err);
    return d->rules.verdict == before ? 0 : record_verdict(g, call, d, err);
}

/* Obligations are compared as JSON, the form that has every one of them: a new one cannot be left
 * out here. */
bool gate_agrees(struct gate *g, const struct gate_call *call, const struct gate_decision *d)
{
    struct gate_decision now = {0};
    decide_call(g, call, &now);
    _cleanup_json_ json_t *before = rules_obligations_to_json(&d->rules.obligations);
    _cleanup_json_ json_t *after = rules_obligations_to_json(&now.rules.obligations);
    gate_decision_done(&now);
    return now.rules.verdict == d->rules.verdict && json_equal(before, after);
}

/* The last look before something runs. It is cheap where nothing has changed since the decision:
 * the same rules, in the same minute. Otherwise the call is decided on anew, and goes on only if
 * verdict and obligations are what they were. */
int gate_confirm(struct gate *g, const struct gate_call *call, struct gate_decision *d,
                 struct error *err)
{
    if (keys_check_live(g->keys, call->who, err) < 0)
        return gate_refuse(g, call, d, "key", err->message, err);
    /* The hours of rules are in minutes. */
    bool same_time = !d->ruleset || clock_real_ns() / MINUTE_NS == d->at_s / 60;
    if (d->ruleset == g->ruleset && same_time)
        return 0;
    bool agrees = gate_agrees(g, call, d);
    int r = gate_decide(g, call, d, err);
    return r < 0 || agrees
               ? r
               : gate_refuse(g, call, d, d->rules.rule,
                             "the rules decide otherwise now than when this was allowed", err);
}

/* --- step 5, and what follows */

int gate_intent(struct gate *g, const struct gate_call *call, const struct gate_decision *d,
                const char *grant, struct error *err)
{
    struct audit_record r = {.kind = "intent", .outcome = grant ? "granted" : "allow"};
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    struct json_text t = put_decision(call, d, false, &details);
    if (grant)
        json_text_string(&t, "grant", grant);
    json_text_string(&t, "runtime", call->runtime ? call->runtime : "");
    if (call->put_parts)
        call->put_parts(call, &t);
    fill_record(&r, call, d);
    int e = json_text_end(&t, '}');
    r.details_text = details.data; /* which the last bracket may have moved */
    if (e < 0)
        error_set(err, ERROR_INTERNAL, -e, "audit: a record");
    else
        e = audit_write(g->audit, &r, NULL, err);
    if (e < 0)
        error_prefix(err, "not run: the audit cannot be written");
    return e;
}

static void note_record(struct gate *g, const char *kind, const char *call_id, const char *sandbox,
                        const char *exec, const char *outcome, const char *details)
{
    struct audit_record r = {.kind = kind,
                             .call_id = call_id,
                             .sandbox = sandbox,
                             .exec = exec,
                             .outcome = outcome,
                             .details_text = details};
    audit_note(g->audit, &r);
}

void gate_note_started(struct gate *g, const char *call_id, const char *sandbox, const char *exec,
                       const char *outcome, const char *details)
{
    note_record(g, "started", call_id, sandbox, exec, outcome, details);
}

void gate_note_ended(struct gate *g, const char *call_id, const char *sandbox, const char *exec,
                     const char *outcome, const char *details)
{
    note_record(g, exec ? "exited" : "done", call_id, sandbox, exec, outcome, details);
}

int gate_record(struct gate *g, const char *kind, const struct identity *who, const char *action_id,
                const char *tool, const char *outcome, json_t *details, struct error *err)
{
    struct audit_record r = {.kind = kind,
                             .who = who,
                             .action_id = action_id,
                             .tool = tool,
                             .outcome = outcome,
                             .revision = gate_revision(g),
                             .details = details};
    return audit_write(g->audit, &r, NULL, err);
}
