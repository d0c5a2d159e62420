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

static struct run *run_of(const struct run_request *req)
{
    struct run *run = new0(struct run);
    run->one_shot = true;
    spec_init(&run->box);
    run->box.runtime = xstrdup("local");
    run->files = (struct run_file *)req->files;
    run->n_files = req->n_files;
    run->spec = req->exec;
    run_call_init(run, req);
    return run;
}

static void end_run(struct run *run)
{
    run_call_done(run);
    spec_done(&run->box);
    free(run);
}

/* As many paths of the call and files that are written first; wanted: shown, or 0 where refused. */
static void test_paths(size_t n_paths, size_t n_files, size_t wanted)
{
    struct rules_path *given = xcalloc(n_paths + 1, sizeof(*given));
    struct run_file *files = xcalloc(n_files + 1, sizeof(*files));
    char *argv[] = {(char *)"true", NULL};
    struct error err = {0};
    for (size_t i = 0; i < n_paths; i++)
        given[i].path = "/workspace/given";
    for (size_t i = 0; i < n_files; i++)
        files[i].path = (char *)"file";
    struct run_request req = {.call = {.tool = "exec", .paths = given, .n_paths = n_paths},
                              .files = files,
                              .n_files = n_files,
                              .exec = {.argv = argv}};
    struct run *run = run_of(&req);
    int r = run_call_fill(run, &err);
    if (wanted)
        ok(r >= 0 && run->call.n_paths == wanted, "%zu paths and %zu files are shown", n_paths,
           n_files);
    else
        ok(r < 0 && strstr(err.message, "paths"), "%zu paths and %zu files are refused: %s",
           n_paths, n_files, err.message);
    end_run(run);
    free(given);
    free(files);
}

static void test_policies(void)
{
    struct policy policy[RUN_POLICIES_MAX + 1] = {0};
    const struct policy *list[ELEMENTS(policy)];
    char *argv[] = {(char *)"true", NULL};
    struct sandbox_policy scope = {0};
    struct error err = {0};
    for (size_t i = 0; i < ELEMENTS(policy); i++)
        list[i] = &policy[i];
    struct run_request req = {
        .call = {.tool = "exec", .policies = list, .n_policies = ELEMENTS(list)},
        .exec = {.argv = argv}};
    struct run *run = run_of(&req);
    ok(run_scope_begin(run, &req.call, NULL, &err) < 0 && strstr(err.message, "policies"),
       "too many policies of a call: %s", err.message);
    err = (struct error){0};
    req.call.n_policies = RUN_POLICIES_MAX;
    ok(run_scope_begin(run, &req.call, &scope, &err) < 0 && strstr(err.message, "policies"),
       "and with the sandbox's own: %s", err.message);
    end_run(run);
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
