/* The policy of the sandbox itself, which holds for everything that runs in it or for it. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "tool/run-internal.h"
#include "tool/tool.h"

/* Its rule first, because the sandbox's policy is part of what is decided on. */
int run_scope_decide(const struct run_request *req, const struct tool_scope *scope,
                     struct gate_call *call, struct gate_decision *d, struct error *err)
{
    const struct policy *policies[RUN_POLICIES_MAX];
    size_t n = call->n_policies;
    bool named = !scope;
    for (size_t i = 0; i < n; i++)
        named = named || call->policies[i] == &scope->policy;
    if (n + !named > RUN_POLICIES_MAX) {
        *d = (struct gate_decision){0}; /* none was made */
        return error_set(err, ERROR_TOO_LARGE, 0, "%zu policies for one call are too many",
                         n + !named);
    }
    for (size_t i = 0; i < n; i++)
        policies[i] = call->policies[i];
    if (!named)
        policies[n++] = &scope->policy;
    struct gate *gate = manager_options(req->manager)->gate;
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
static void narrow_spec(struct run *run, const struct tool_scope *scope)
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
    struct tool_scope *scope = sandbox_attached(scope_of);
    run->scope_of = sandbox_ref(scope_of);
    scope->running++;
    narrow_spec(run, scope);
}
