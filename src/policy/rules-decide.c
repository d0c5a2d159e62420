/* SPDX-License-Identifier: Apache-2.0 */
/* All rules against all that a call does. Each thing it does (every command its line could run,
 * every file that the line redirects to or from, and the call itself) gets its own verdict: that of
 * the strictest rule, or `unknown`, or the default. The strictest of them is the call's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "policy/rules-internal.h"

#define REASON_COMMAND_MAX 120

enum { BY_DEFAULT = -1, BY_UNKNOWN = -2, BY_NONE = -3 };

struct outcome {
    struct rules_subject subject;
    enum verdict verdict;
    int by; /* index of a rule, or one of the above */
    bool maybe;
    enum risk risk;
    int would; /* index of a rule that would have decided otherwise */
};

struct decide {
    struct rules_look look;
    struct shell shell;
    char **cwds;
    struct shell_command environment; /* what a variable makes of every command */
    bool *applies;                    /* per rule: does it concern the call? */
    struct outcome *outcomes;
    size_t n_outcomes;
    struct rules_obligations obligations;
};

/* --- obligations */

static void obligations_add(struct rules_obligations *o, const struct rules_obligations *more)
{
    for (int i = 0; i < _RULES_LIMIT_MAX; i++) {
        double v = rules_limit_get(&more->caps, i);
        if (v < HUGE_VAL)
            rules_limit_cap(&o->caps, i, v);
    }
    if (*more->min_runtime && (!*o->min_runtime || rules_runtime_rank(more->min_runtime) >
                                                       rules_runtime_rank(o->min_runtime)))
        memcpy(o->min_runtime, more->min_runtime, sizeof(o->min_runtime));
    o->strip_network |= more->strip_network;
    o->redact_args |= more->redact_args;
}

/* --- one subject */

static bool is_known(const struct rules_subject *s)
{
    if (s->redirect)
        return !s->redirect->target.unknown;
    return !s->command || (!s->command->opaque && s->command->kind == SHELL_NAME_KNOWN);
}

/* The first rule that allows it, or -1. */
static int find_allow(struct decide *d, const struct rules_subject *s)
{
    const struct ruleset *rs = d->look.rs;
    for (size_t i = 0; i < rs->n_rules; i++)
        if (d->applies[i] && rs->rules[i].has_verdict && rs->rules[i].verdict == VERDICT_ALLOW &&
            rules_match_subject(&rs->rules[i], s, false, &d->look) == MATCH_YES) {
            obligations_add(&d->obligations, &rs->rules[i].obligations);
            return (int)i;
        }
    return -1;
}

static bool names_command(const struct decide *d, int allow)
{
    if (allow < 0 || !d->look.rs->rules[allow].n_commands)
        return false;
    const struct rules_rule *rule = &d->look.rs->rules[allow];
    for (size_t i = 0; i < rule->n_commands; i++)
        if (rule->commands[i].any)
            return false;
    return true;
}

/* Takes a rule into account that asks or denies, or only obliges. */
static void weigh_rule(struct decide *d, struct outcome *o, int index, bool named)
{
    const struct rules_rule *rule = &d->look.rs->rules[index];
    enum match m = rules_match_subject(rule, &o->subject, named, &d->look);
    if (m == MATCH_NO)
        return;
    obligations_add(&d->obligations, &rule->obligations);
    if (!rule->has_verdict)
        return;
    enum verdict v =
        m == MATCH_YES || rule->verdict == VERDICT_ASK ? rule->verdict : d->look.rs->unknown;
    bool stricter = o->by < 0 || v > o->verdict || (v == o->verdict && o->maybe && m == MATCH_YES);
    enum risk risk = rule->has_risk                  ? rule->risk
                     : rule->verdict == VERDICT_DENY ? RISK_HIGH
                                                     : RISK_MEDIUM;
    if (o->by >= 0 && v == o->verdict && risk > o->risk)
        o->risk = risk;
    if (!stricter) {
        if (v < o->verdict && o->would == BY_NONE)
            o->would = index;
        return;
    }
    if (o->by >= 0 && o->verdict < v)
        o->would = o->by;
    o->risk = o->by >= 0 && o->verdict == v && o->risk > risk ? o->risk : risk;
    o->verdict = v;
    o->by = index;
    o->maybe = m == MATCH_MAYBE;
}

static void settle_without_rule(const struct ruleset *rs, struct outcome *o, int allow)
{
    const struct shell_command *c = o->subject.command;
    if (allow >= 0) {
        o->verdict = VERDICT_ALLOW;
        o->by = allow;
        o->risk = rs->rules[allow].has_risk ? rs->rules[allow].risk : RISK_LOW;
    } else if (!is_known(&o->subject)) {
        o->verdict = rs->unknown;
        o->by = BY_UNKNOWN;
        o->risk = RISK_HIGH;
    } else if (!(c && c->transparent)) {
        o->verdict = rs->fallback;
        o->by = BY_DEFAULT;
        o->risk = rs->fallback == VERDICT_ALLOW ? RISK_LOW : RISK_MEDIUM;
    }
}

static void judge_subject(struct decide *d, struct rules_subject subject)
{
    const struct ruleset *rs = d->look.rs;
    struct outcome o = {.subject = subject, .by = BY_NONE, .would = BY_NONE};
    int allow = find_allow(d, &subject);
    bool named = names_command(d, allow);
    for (size_t i = 0; i < rs->n_rules; i++)
        if (d->applies[i] && !(rs->rules[i].has_verdict && rs->rules[i].verdict == VERDICT_ALLOW))
            weigh_rule(d, &o, (int)i, named);
    if (o.by == BY_NONE)
        settle_without_rule(rs, &o, allow);
    else if (o.would == BY_NONE)
        o.would = allow >= 0 ? allow : is_known(&subject) ? BY_DEFAULT : BY_UNKNOWN;
    d->outcomes = xrealloc(d->outcomes, (d->n_outcomes + 1) * sizeof(*d->outcomes));
    d->outcomes[d->n_outcomes++] = o;
}

/* --- all of them */

/* Files that only pass on what is written to them, or nothing. */
static bool is_harmless_target(const struct shell_word *w)
{
    static const char *const names[] = {"/dev/null",  "/dev/stdout", "/dev/stderr",
                                        "/dev/stdin", "/dev/zero",   "/dev/tty",
                                        "/dev/fd/1",  "/dev/fd/2",   "/dev/urandom"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (!w->unknown && strcmp(w->text, names[i]) == 0)
            return true;
    return false;
}

/* A variable that changes what commands mean makes all of them unknown. */
static void judge_environment(struct decide *d, char *const *env)
{
    struct shell_command *c = &d->environment;
    for (; env && *env && !c->opaque; env++)
        if (shell_env_is_harmful(*env, strcspn(*env, "=")))
            *c = (struct shell_command){
                .opaque = "a variable of the call may change what its commands mean",
                .opaque_word = SHELL_NOT_NAMED,
                .kind = SHELL_NAME_UNKNOWN};
}

static void judge_command(struct decide *d, const struct shell_command *c)
{
    if (c->n_words || c->opaque)
        judge_subject(d, (struct rules_subject){.command = c});
    for (size_t i = 0; i < c->n_redirects; i++)
        if (!c->redirects[i].inside && !is_harmless_target(&c->redirects[i].target))
            judge_subject(d, (struct rules_subject){.redirect = &c->redirects[i], .owner = c});
}

/* Each change of directory may or may not have happened before a command runs. */
static void find_directories(struct decide *d)
{
    size_t n = 1;
    if (!d->look.call->cwd)
        return;
    d->cwds = xcalloc(((size_t)1 << d->shell.n_directories) + 1, sizeof(char *));
    d->cwds[0] = xstrdup(d->look.call->cwd);
    for (size_t i = 0; i < d->shell.n_directories; i++, n *= 2)
        for (size_t k = 0; k < n; k++)
            d->cwds[n + k] = rules_word_path(d->look.rs, d->shell.directories[i], d->cwds[k]);
    d->look.cwds = d->cwds;
}

static void decide_all(struct decide *d)
{
    const struct ruleset *rs = d->look.rs;
    const struct rules_call *call = d->look.call;
    d->applies = xcalloc(rs->n_rules + 1, sizeof(bool));
    for (size_t i = 0; i < rs->n_rules; i++)
        d->applies[i] = rules_match_call(&rs->rules[i], &d->look);
    if (call->argv)
        shell_parse_argv(call->argv, &d->shell);
    find_directories(d);
    for (size_t i = 0; i < d->shell.n_commands; i++)
        judge_command(d, &d->shell.commands[i]);
    if (call->argv) {
        judge_environment(d, call->env);
        judge_environment(d, call->sandbox_env);
    }
    if (d->environment.opaque)
        judge_subject(d, (struct rules_subject){.command = &d->environment});
    if (!call->argv || call->n_paths || call->host)
        judge_subject(d, (struct rules_subject){0});
}

static void decide_done(struct decide *d)
{
    shell_done(&d->shell);
    strv_free(d->cwds);
    free(d->applies);
    free(d->outcomes);
}

/* NULL when nothing of the call needs leave: "sh -c ''". */
static const struct outcome *strictest_outcome(const struct decide *d)
{
    const struct outcome *best = NULL;
    for (size_t i = 0; i < d->n_outcomes; i++) {
        const struct outcome *o = &d->outcomes[i];
        if (o->by != BY_NONE && (!best || o->verdict > best->verdict ||
                                 (o->verdict == best->verdict && best->by < 0 && o->by >= 0)))
            best = o;
    }
    return best;
}

/* --- words */

static const char *name_of(const struct ruleset *rs, int by)
{
    return by >= 0            ? rs->rules[by].id
           : by == BY_DEFAULT ? "default"
           : by == BY_UNKNOWN ? "unknown"
                              : "";
}

/* What the subject is, for people: at most max bytes, valid UTF-8. The caller frees it. */
static char *subject_describe(const struct rules_subject *s, const struct rules_call *call,
                              size_t max)
{
    _cleanup_free_ char *text = NULL;
    if (s->command) {
        text = shell_command_format(s->command);
    } else if (s->redirect) {
        struct shell_command c = {.words = (struct shell_word *)&s->redirect->target, .n_words = 1};
        _cleanup_free_ char *target = shell_command_format(&c);
        text = xasprintf("%s %s", s->redirect->write ? ">" : "<", target);
    } else {
        text = xasprintf("%s%s%s%s%s", call->tool ? call->tool : "call", call->n_paths ? " " : "",
                         call->n_paths ? call->paths[0].path : "", call->host ? " " : "",
                         call->host ? call->host : "");
    }
    size_t len = strlen(text), valid = utf8_valid_prefix(text, len);
    for (; valid < len; valid = utf8_valid_prefix(text, len))
        text[valid] = '?';
    if (len <= max)
        return steal_ptr(text);
    len = max - utf8_incomplete_suffix(text, max);
    return xasprintf("%.*s...", (int)len, text);
}

static void explain_in_words(const struct decide *d, const struct outcome *o, char *out,
                             size_t size)
{
    const struct ruleset *rs = d->look.rs;
    _cleanup_free_ char *what = subject_describe(&o->subject, d->look.call, REASON_COMMAND_MAX);
    const struct shell_command *c = o->subject.command;
    char text[512];
    if (o->by == BY_UNKNOWN)
        snprintf(text, sizeof(text), "'%s' cannot be known before it runs: %s", what,
                 c && c->opaque ? c->opaque
                 : c            ? "its path may lead to any program"
                                : "its target is not known");
    else if (o->by == BY_DEFAULT)
        snprintf(text, sizeof(text), "no rule speaks of '%s', and the default is %s", what,
                 verdict_name(o->verdict));
    else
        snprintf(text, sizeof(text), "%s%s%s%s", *what ? what : "the environment",
                 o->maybe ? " may turn out to be what the rule means" : "",
                 rs->rules[o->by].reason ? ": " : "",
                 rs->rules[o->by].reason ? rs->rules[o->by].reason : "");
    size_t len = strlen(text);
    if (len >= size)
        len = size - 1 - utf8_incomplete_suffix(text, size - 1);
    memcpy(out, text, len);
    out[len] = 0;
}

static void decision_conclude(const struct decide *d, struct rules_decision *ret)
{
    const struct ruleset *rs = d->look.rs;
    const struct outcome *o = strictest_outcome(d);
    *ret = (struct rules_decision){.obligations = d->obligations};
    if (!o) {
        ret->verdict = rs->fallback;
        ret->risk = RISK_LOW;
        snprintf(ret->rule, sizeof(ret->rule), "default");
        snprintf(ret->reason, sizeof(ret->reason),
                 "no part of it needs permission; the default is %s", verdict_name(rs->fallback));
        return;
    }
    ret->verdict = o->verdict;
    for (size_t i = 0; i < d->n_outcomes; i++)
        if (d->outcomes[i].by != BY_NONE && d->outcomes[i].verdict == o->verdict &&
            d->outcomes[i].risk > ret->risk)
            ret->risk = d->outcomes[i].risk;
    snprintf(ret->rule, sizeof(ret->rule), "%s", name_of(rs, o->by));
    snprintf(ret->would, sizeof(ret->would), "%s", name_of(rs, o->would));
    explain_in_words(d, o, ret->reason, sizeof(ret->reason));
}

static void decide_nothing(struct rules_decision *ret)
{
    *ret = (struct rules_decision){.verdict = VERDICT_ALLOW};
    snprintf(ret->rule, sizeof(ret->rule), "no policy");
    snprintf(ret->reason, sizeof(ret->reason), "there is no policy");
}

void ruleset_decide(const struct ruleset *rs, const struct rules_call *call,
                    struct rules_decision *ret)
{
    if (!rs) {
        decide_nothing(ret);
        return;
    }
    struct decide d = {.look = {.rs = rs, .call = call, .budget = RULES_STEPS_MAX}};
    decide_all(&d);
    decision_conclude(&d, ret);
    decide_done(&d);
}

static json_t *outcome_to_json(const struct decide *d, const struct outcome *o)
{
    const struct shell_command *c = o->subject.command;
    _cleanup_free_ char *what = subject_describe(&o->subject, d->look.call, 4000);
    json_t *json =
        json_pack("{s:s,s:s,s:s}", "kind",
                  c                     ? "command"
                  : o->subject.redirect ? "redirection"
                                        : "call",
                  "what", what, "verdict", o->by == BY_NONE ? "none" : verdict_name(o->verdict));
    if (o->by != BY_NONE) {
        char reason[256];
        explain_in_words(d, o, reason, sizeof(reason));
        json_object_set_new(json, "rule", json_string(name_of(d->look.rs, o->by)));
        json_object_set_new(json, "match", json_string(o->maybe ? "maybe" : "yes"));
        json_object_set_new(json, "reason", json_string(reason));
    }
    if (o->would != BY_NONE)
        json_object_set_new(json, "would", json_string(name_of(d->look.rs, o->would)));
    if (c && c->opaque)
        json_object_set_new(json, "unknown", json_string(c->opaque));
    if (c && c->transparent)
        json_object_set_new(json, "transparent", json_true());
    return json;
}

json_t *ruleset_explain(const struct ruleset *rs, const struct rules_call *call)
{
    struct rules_decision r;
    json_t *parts = json_array();
    struct decide d = {.look = {.rs = rs, .call = call, .budget = RULES_STEPS_MAX}};
    if (rs) {
        decide_all(&d);
        decision_conclude(&d, &r);
        for (size_t i = 0; i < d.n_outcomes; i++)
            json_array_append_new(parts, outcome_to_json(&d, &d.outcomes[i]));
    } else {
        decide_nothing(&r);
    }
    decide_done(&d);
    return json_pack("{s:s,s:s,s:s,s:s,s:s*,s:s,s:o,s:o}", "verdict", verdict_name(r.verdict),
                     "risk", risk_name(r.risk), "rule", r.rule, "reason", r.reason, "would",
                     *r.would ? r.would : NULL, "revision", ruleset_revision(rs), "obligations",
                     rules_obligations_to_json(&r.obligations), "parts", parts);
}
