/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the gate sees it, and what the gate's rules make of the run. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "sandbox/persist.h"
#include "tool/run-internal.h"

static struct rules_limits limits_of(const struct spec *s, uint64_t timeout_ms)
{
    return (struct rules_limits){
        .box = s->limits,
        .timeout_ns = timeout_ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)timeout_ms * 1000000,
    };
}

/* Where commands start; NULL if it is not known. */
static const char *start_of(const struct spec *s, const struct sandbox *sb)
{
    const char *workdir = spec_workdir(s);
    const char *there = sb && !workdir ? sandbox_effective(sb)->workdir : "";
    if (*there)
        return there;
    const struct runtime_ops *runtime = workdir ? NULL : runtime_find(s->runtime);
    return runtime ? runtime->workdir : workdir;
}

static char *dup_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static const struct spec *box_of(const struct run *run)
{
    return run->one_shot ? &run->box : sandbox_spec(run->sandbox);
}

/* The gate's view of the run, as copies: the request is freed while the run waits. What an image
 * adds to it is known only after RUN_IMAGE (run_call_fill). */
void run_call_init(struct run *run, const struct run_request *req)
{
    const struct spec *box = box_of(run);
    struct gate_call *c = &run->call;
    *c = req->call;
    run->who = req->who ? *req->who : identity_local;
    c->who = &run->who;
    if (req->terms)
        run->terms = *req->terms;
    run->terms.approval_id = dup_or_null(run->terms.approval_id);
    run->terms.action_id = dup_or_null(run->terms.action_id);
    c->terms = &run->terms;
    /* These are borrowed from the request: run_scope_begin() asks them while it is there. */
    c->policies = NULL;
    c->n_policies = 0;
    c->tool = xstrdup(c->tool);
    c->args = json_incref((json_t *)c->args);
    c->host = dup_or_null(c->host);
    c->argv = run->spec.argv;
    c->env = run->spec.env;
    /* mas-tool-net is ours as well: its host and arguments are what there is to decide on. */
    c->builtin = run->spec.builtin || (run->one_shot && box->tool_net);
    c->sandbox_env = box->env;
    c->runtime = dup_or_null(box->runtime);
    c->limits = limits_of(box, run->spec.timeout_ms);
    c->sandbox = run->sandbox ? xstrdup(sandbox_id(run->sandbox)) : NULL;
    struct rules_path *paths = xcalloc(c->n_paths, sizeof(*paths));
    for (size_t i = 0; i < c->n_paths; i++)
        paths[i] =
            (struct rules_path){.path = xstrdup(c->paths[i].path), .write = c->paths[i].write};
    c->paths = paths;
}

/* What an image brings (its directory, variables and names) is part of the call, so this comes
 * when the image is known. */
int run_call_fill(struct run *run, struct error *err)
{
    const struct spec *box = box_of(run);
    const char *start = start_of(box, run->sandbox);
    run->call.cwd = dup_or_null(run->spec.cwd ? run->spec.cwd : start);
    run->call.image_env = box->image_env;
    /* For the rules; what has no programs of the caller's in it has no image. */
    static char *const none[] = {(char *)RULES_NO_IMAGE, NULL};
    run->call.image_names = box->tool_net ? NULL : box->image_names ? box->image_names : none;
    run->call.image_digest = box->tool_net ? NULL : box->image_digest;
    return run_paths_fill(run, start, err);
}

void run_call_done(struct run *run)
{
    struct gate_call *c = &run->call;
    free((char *)c->tool);
    json_decref((json_t *)c->args);
    free((char *)c->host);
    free((char *)c->cwd);
    free((char *)c->runtime);
    free((char *)c->sandbox);
    for (size_t i = 0; i < c->n_paths; i++)
        free((char *)c->paths[i].path);
    free((struct rules_path *)c->paths);
    free((char *)run->terms.approval_id);
    free((char *)run->terms.action_id);
    gate_decision_done(&run->decision);
}

/* --- obligations */

static int refuse_call(struct run *run, struct error *err, const char *fmt, const char *what)
{
    char rule[64], why[200];
    snprintf(rule, sizeof(rule), "%s", run->decision.rules.rule);
    snprintf(why, sizeof(why), fmt, what);
    return gate_refuse(run->gate, &run->call, &run->decision, rule, why, err);
}

/* A one-shot is made after the decision, so it is made stronger. A sandbox that is there cannot be,
 * and running the call in it all the same would be weaker than the rule says. */
static int oblige_runtime(struct run *run, struct error *err)
{
    const char *least = run->decision.rules.obligations.min_runtime;
    const char *have = run->call.runtime ? run->call.runtime : "";
    int want = rules_runtime_rank(least);
    if (!*least || (want >= 0 && rules_runtime_rank(have) >= want))
        return 0;
    if (!run->one_shot || !runtime_find(least))
        return refuse_call(run, err, "a rule wants the runtime '%s' or a stronger one", least);
    free(run->box.runtime);
    run->box.runtime = xstrdup(least);
    free((char *)run->call.runtime);
    run->call.runtime = xstrdup(least);
    return 0;
}

/* Lowers one limit of the box, or refuses the call where the sandbox is there and has more. */
static int oblige_limit(struct run *run, const struct limit *row, struct error *err)
{
    uint64_t cap = limit_get(row, &run->decision.rules.obligations.caps);
    uint64_t have = limit_get(row, &run->call.limits);
    if (!cap || (have && have <= cap))
        return 0;
    if (!run->one_shot)
        return refuse_call(run, err, "a rule limits %s to less than this sandbox has", row->name);
    limit_set(row, &run->box.limits, cap);
    /* As if the caller had asked: a runtime that cannot enforce the limit refuses it. */
    if (row->wall >= 0)
        run->box.asked[row->wall] = true;
    return 0;
}

/* The timeout is not the sandbox's but the command's own. */
static int oblige_limits(struct run *run, struct error *err)
{
    limit_for_each(row) {
        int r = oblige_limit(run, row, err);
        if (r < 0)
            return r;
    }
    uint64_t timeout_ms = clock_ms_up(run->decision.rules.obligations.caps.timeout_ns);
    if (timeout_ms && (!run->spec.timeout_ms || timeout_ms < run->spec.timeout_ms))
        run->spec.timeout_ms = timeout_ms;
    return 0;
}

static int oblige_all(struct run *run, struct error *err)
{
    int r = oblige_runtime(run, err);
    if (r < 0)
        return r;
    r = oblige_limits(run, err);
    if (r < 0)
        return r;
    if (!run->decision.rules.obligations.strip_network ||
        !(run->box.tool_net || spec_has_network(box_of(run))))
        return 0;
    return refuse_call(run, err,
                       "a rule of the policy takes the network away, which the tool '%s' needs",
                       run->call.tool);
}

/* 1: a one-shot that was made to look into is too large for the rules, and is gone. */
static int oblige_run(struct run *run, struct error *err)
{
    if (!run->one_shot || !run->sandbox)
        return oblige_all(run, err);
    /* Programs were looked up in a sandbox that was made before the decision. Where the rules
     * change its spec, that is not the sandbox that was decided about, and another one is made. */
    _cleanup_json_ json_t *before = persist_spec_format(&run->box);
    int r = oblige_all(run, err);
    _cleanup_json_ json_t *after = persist_spec_format(&run->box);
    if (r < 0 || json_equal(before, after))
        return r;
    run_drop_box(run);
    return 1;
}

/* --- deciding */

/* Comes more than once in a run: each time something was learned that rules may be about (where
 * paths lead, what an archive holds), and after every wait. Each decision replaces the one before.
 */
int run_decide(struct run *run, struct error *err)
{
    int r = gate_decide(run->gate, &run->call, &run->decision, err);
    if (r < 0)
        return r;
    r = oblige_run(run, err);
    if (r < 0)
        return r;
    return r > 0 ? RUN_BOX : run_next(run);
}

int run_decide_enter(struct run *run, struct error *err)
{
    int r = run_call_fill(run, err);
    if (r < 0)
        return r;
    return run_decide(run, err);
}

/* Between the decision and this a person may have taken an hour, in which the policy changed or the
 * key ended. The decision holds only if it would be the same now. */
int run_confirm(struct run *run, struct error *err)
{
    if (run->grant &&
        strcmp(gate_revision(run->gate), ruleset_revision(run->decision.ruleset)) != 0)
        return gate_refuse(run->gate, &run->call, &run->decision, "approval",
                           "the policy has changed since it was approved", err);
    int r = gate_confirm(run->gate, &run->call, &run->decision, err);
    if (r >= 0 && run->grant)
        r = run_ask_check(run, err);
    return r < 0 ? r : run_next(run);
}
