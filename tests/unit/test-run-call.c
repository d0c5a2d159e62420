/* What the gate is shown of a run is all of it: what does not fit is refused, never left out. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/policy.h"
#include "sandbox/sandbox-policy.h"
#include "tests/unit/tap.h"
#include "tool/run-internal.h"
#include "tool/tool.h"

/* As many paths of the call and files that are written first; wanted: shown, or 0 where refused. */
static void test_paths(size_t n_paths, size_t n_files, size_t wanted)
{
    struct rules_path shown[RUN_PATHS_MAX], *given = xcalloc(n_paths + 1, sizeof(*given));
    struct run_file *files = xcalloc(n_files + 1, sizeof(*files));
    char *argv[] = {(char *)"true", NULL};
    struct error err = {0};
    struct gate_call call;
    struct spec spec;
    _cleanup_strv_ char **owned = NULL;
    spec_init(&spec);
    spec.runtime = xstrdup("local");
    for (size_t i = 0; i < n_paths; i++)
        given[i].path = "/workspace/given";
    for (size_t i = 0; i < n_files; i++)
        files[i].path = (char *)"file";
    struct run_request req = {.spec = &spec,
                              .call = {.tool = "exec", .paths = given, .n_paths = n_paths},
                              .files = files,
                              .n_files = n_files,
                              .exec = {.argv = argv}};
    int r = run_call_fill(&req, &call, shown, &owned, &err);
    if (wanted)
        ok(r >= 0 && call.n_paths == wanted, "%zu paths and %zu files are shown", n_paths, n_files);
    else
        ok(r < 0 && strstr(err.message, "paths"), "%zu paths and %zu files are refused: %s",
           n_paths, n_files, err.message);
    spec_done(&spec);
    free(given);
    free(files);
}

static void test_policies(void)
{
    struct policy policy[RUN_POLICIES_MAX + 1] = {0};
    const struct policy *list[ELEMENTS(policy)];
    struct gate_call call = {.tool = "exec", .policies = list, .n_policies = ELEMENTS(list)};
    struct gate_decision d = {0};
    struct run_request req = {0};
    struct sandbox_policy scope = {0};
    struct error err = {0};
    for (size_t i = 0; i < ELEMENTS(policy); i++)
        list[i] = &policy[i];
    ok(run_scope_decide(&req, NULL, &call, &d, &err) < 0 && strstr(err.message, "policies"),
       "too many policies of a call: %s", err.message);
    err = (struct error){0};
    call.n_policies = RUN_POLICIES_MAX;
    ok(run_scope_decide(&req, &scope, &call, &d, &err) < 0 && strstr(err.message, "policies"),
       "and with the sandbox's own: %s", err.message);
}

int main(void)
{
    test_paths(75, 0, 75);
    test_paths(76, 0, 76);
    test_paths(1, 256, 257);
    test_paths(0, RUN_PATHS_MAX + 1, 0);
    test_paths(RUN_PATHS_MAX + 1, 0, 0);
    test_policies();
    return tap_done();
}
