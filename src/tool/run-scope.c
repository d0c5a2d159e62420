/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of the sandbox itself, which holds for everything that runs in it or for it. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "sandbox/network.h"
#include "sandbox/sandbox-policy.h"
#include "tool/network.h"
#include "tool/run-internal.h"

static void narrow_time(struct exec_spec *spec, uint64_t limit_ms)
{
    if (limit_ms && (!spec->timeout_ms || limit_ms < spec->timeout_ms))
        spec->timeout_ms = limit_ms;
}

/* A call that may use less of its sandbox's network than the others gets a proxy of its own, which
 * knows the hosts that are left. A sandbox that is made for the call is decided on with the hosts
 * that it is to reach. */
static int narrow_network(struct run *run, const struct policy *const *policies, size_t n,
                          struct error *err)
{
    struct error why = {0};
    if (sandbox_check_own_proxy(run->sandbox, &why) < 0) {
        gate_refuse(run->gate, &run->call, &run->decision, "request policy", why.message, err);
        err->code = why.code;
        return -EOPNOTSUPP;
    }
    run->hosts = network_narrow(policies, n);
    run->spec.hosts = run->hosts;
    return 0;
}

/* A call that may use all that its sandbox may use now needs no proxy of its own. It is not reached
 * by what the sandbox may use later: while it runs, the sandbox's network is widened no further
 * than its policies go. */
static void bind_network(struct run *run, const struct sandbox_policy *scope,
                         const struct policy *const *policies, size_t n)
{
    bool stays = true;
    for (size_t i = 0; i < n; i++)
        stays = stays && network_stays_within(scope ? &scope->policy : NULL, policies[i]);
    if (stays)
        return;
    run->hosts = network_narrow(policies, n);
    run->spec.bound = run->hosts;
}

static int check_box_network(struct run *run, const struct sandbox_policy *scope,
                             const struct policy *const *policies, size_t n, struct error *err)
{
    const struct spec *box = run->one_shot ? &run->box : sandbox_spec(run->sandbox);
    if (!spec_has_network(box) || run->spec.builtin)
        return 0;
    bool within = true;
    for (size_t i = 0; i < n; i++)
        within = within && network_is_within(box, policies[i]);
    if (!within && run->one_shot)
        return gate_refuse(run->gate, &run->call, &run->decision, "request policy",
                           "Network of a policy cannot narrow the network of this sandbox", err);
    if (!run->one_shot && within)
        bind_network(run, scope, policies, n);
    if (!run->one_shot)
        return within ? 0 : narrow_network(run, policies, n, err);
    int r = gate_check_network(run->gate, &run->who, box->runtime, box->hosts, err);
    if (r < 0)
        return r;
    return gate_check_network(run->gate, &run->who, box->runtime, box->cidrs, err);
}

/* The policies of a request are borrowed, so they are asked before anything is waited for. */
int run_scope_begin(struct run *run, const struct gate_call *given,
                    const struct sandbox_policy *scope, struct error *err)
{
    const struct policy *policies[RUN_POLICIES_MAX];
    size_t n = 0, all = given->n_policies + (scope ? 1 : 0);
    if (all > RUN_POLICIES_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "%zu policies for one call are too many", all);
    if (scope)
        policies[n++] = &scope->policy;
    for (size_t i = 0; i < given->n_policies; i++)
        policies[n++] = given->policies[i];
    /* The array is on this stack: the call has it only until the two questions are answered. */
    run->call.policies = policies;
    run->call.n_policies = n;
    int r = gate_begin(run->gate, &run->call, &run->decision, err);
    if (r >= 0)
        r = check_box_network(run, scope, policies, n, err);
    run->call.policies = NULL;
    run->call.n_policies = 0;
    if (r < 0)
        return r;
    /* Checked before run_scope_enter() counts this run in: the limit is of runs beside each other.
     */
    char why[80];
    int64_t max = scope ? scope->policy.max_concurrent : 0;
    if (max <= 0 || scope->running < max)
        return 0;
    snprintf(why, sizeof(why), "too many concurrent calls (MaxConcurrent %lld)", (long long)max);
    return gate_refuse(run->gate, &run->call, &run->decision, "request policy", why, err);
}

void run_scope_enter(struct run *run, struct sandbox *scope_of)
{
    struct sandbox_policy *scope = sandbox_policy(scope_of);
    run->scope_of = sandbox_ref(scope_of);
    scope->running++;
    /* What a tool call has narrowed already is narrowed again here, to no effect. */
    narrow_time(&run->spec, scope->timeout_ms);
    narrow_time(&run->spec, clock_ms_up(scope->policy.timeout_ns));
    char **paths = policy_paths(&scope->policy);
    if (!paths || run->spec.narrow || run->one_shot) {
        strv_free(paths);
        return;
    }
    run->spec.narrow = true;
    run->spec.n_paths = strv_length(paths);
    free(run->paths);
    run->paths = xcalloc(run->spec.n_paths, sizeof(*run->paths));
    for (size_t i = 0; i < run->spec.n_paths; i++)
        run->paths[i] = (struct exec_path){true, paths[i]};
    run->spec.paths = run->paths;
    free(paths);
}

/* The count is the sandbox's, which is gone from the tables perhaps, but not from memory: the run
 * has a reference to it. */
void run_scope_end(struct run *run)
{
    if (!run->scope_of)
        return;
    sandbox_policy(run->scope_of)->running--;
    sandbox_unref(run->scope_of);
}
