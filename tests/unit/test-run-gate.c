/* SPDX-License-Identifier: Apache-2.0 */
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

/* A run whose every path is p; the canonical text of what a person would approve. */
static char *subject_of(const char *p)
{
    char *argv[] = {(char *)"true", NULL};
    struct run_file file = {.path = (char *)p, .data = (char *)""};
    struct exec_path wall = {.writable = true, .path = (char *)p};
    struct rules_path place = {.path = p, .write = true};
    struct run run = {
        .one_shot = true,
        .files = &file,
        .n_files = 1,
        .spec =
            {.argv = argv, .builtin = true, .cwd = p, .narrow = true, .paths = &wall, .n_paths = 1},
        .call = {.tool = "exec", .paths = &place, .n_paths = 1}};
    spec_init(&run.box);
    run.box.runtime = xstrdup("local");
    json_t *o = run_subject(&run);
    char *text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(o);
    spec_done(&run.box);
    return text;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

static void test_names(void)
{
    _cleanup_free_ char *one = subject_of("/workspace/a\xff"),
                        *two = subject_of("/workspace/a\xfe");
    _cleanup_free_ char *plain = subject_of("/workspace/a\xef\xbf\xbd");
    const char *shown = "\"/workspace/a\xef\xbf\xbd\"";
    ok(count(one, shown) == 4 && count(two, shown) == 4, "names that are not UTF-8 are shown: %s",
       one);
    ok(count(one, "path_digest\"") == 3 && count(one, "cwd_digest\"") == 1,
       "each with a digest of its bytes");
    ok(strcmp(one, two) != 0, "and no two of them are one subject");
    ok(count(plain, shown) == 4 && count(plain, "path_digest") + count(plain, "cwd_digest") == 0,
       "names that are UTF-8 are what they were: %s", plain);
}

int main(void)
{
    test_names();
    test_paths(75, 0, 75);
    test_paths(76, 0, 76);
    test_paths(1, 256, 257);
    test_paths(0, RUN_PATHS_MAX + 1, 0);
    test_paths(RUN_PATHS_MAX + 1, 0, 0);
    test_policies();
    return tap_done();
}
