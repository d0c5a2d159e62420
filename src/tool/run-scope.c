/* The policy of the sandbox itself, which holds for everything that runs in it or for it. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "sandbox/sandbox-policy.h"
#include "tool/run-internal.h"

/* Its rule first, because the sandbox's policy is part of what is decided on. */
int run_scope_decide(const struct run_request *req, const struct sandbox_policy *scope,
                     struct gate_call *call, struct gate_decision *d, struct error *err)
{
    const struct policy *policies[RUN_POLICIES_MAX];
    size_t n = 0, all = call->n_policies + (scope ? 1 : 0);
    if (all > RUN_POLICIES_MAX) {
        *d = (struct gate_decision){0}; /* none was made */
        return error_set(err, ERROR_TOO_LARGE, 0, "%zu policies for one call are too many", all);
    }
    if (scope)
        policies[n++] = &scope->policy;
    for (size_t i = 0; i < call->n_policies; i++)
        policies[n++] = call->policies[i];
    struct gate *gate = req->gate;
    call->policies = policies;
    call->n_policies = n;
    int r = gate_decide(gate, call, d, err);
    call->policies = NULL;
    call->n_policies = 0;
    int64_t max = scope ? scope->policy.max_concurrent : 0;
    if (r >= 0 && max > 0 && scope->running >= max) {
        char why[80];
        snprintf(why, sizeof(why), "too many concurrent calls (MaxConcurrent %lld)",
                 (long long)max);
        r = gate_refuse(gate, call, d, "request policy", why, err);
    }
    return r;
}

static void narrow_time(struct exec_spec *spec, uint64_t limit_ms)
{
    if (limit_ms && (!spec->timeout_ms || limit_ms < spec->timeout_ms))
        spec->timeout_ms = limit_ms;
}

/* What a tool call has narrowed already is narrowed again here, to no effect. */
static void narrow_spec(struct run *run, const struct sandbox_policy *scope)
{
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

void run_scope_enter(struct run *run, struct sandbox *scope_of)
{
    struct sandbox_policy *scope = sandbox_policy(scope_of);
    run->scope_of = sandbox_ref(scope_of);
    scope->running++;
    narrow_spec(run, scope);
}
