/* SPDX-License-Identifier: Apache-2.0 */
/* What an archive holds, where rules could be about something below the directory that it is
 * unpacked in: the runner tells the names first, and each of them is decided on. Nothing is
 * unpacked through a link, so a name below the directory is the place that is written. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "tool/file-op.h"
#include "tool/run-internal.h"

#define NAMES_MS  60000
#define NAMES_MAX 20000 /* paths; the runner reports fewer */

/* Where a person is asked in any case, a rule that denies could hide behind one that asks. */
static bool are_names_wanted(struct run *run)
{
    if (run->grant || !run->spec.builtin || strcmp(run->spec.argv[0], "tar-extract") != 0 ||
        run->call.n_paths != 2)
        return false;
    struct rules_path *root = (struct rules_path *)run->call.paths + 1;
    root->tree = true;
    bool agrees = gate_agrees(run->gate, &run->call, &run->decision);
    root->tree = false;
    return !agrees || run->decision.rules.verdict == VERDICT_ASK;
}

static int add_path(struct run *run, const char *name)
{
    struct rules_path *paths = (struct rules_path *)run->call.paths;
    size_t n = run->call.n_paths;
    if (!name || strlen(name) >= PATH_MAX || n >= NAMES_MAX)
        return -EINVAL;
    const char *root = paths[1].path; /* where it leads */
    paths[n] = (struct rules_path){
        .path = *name ? xasprintf("%s/%s", strcmp(root, "/") ? root : "", name) : xstrdup(root),
        .write = true};
    run->call.n_paths++;
    return 0;
}

static int take_names(struct run *run, const json_t *answer, struct error *err)
{
    const json_t *list = json_object_get(answer, "names");
    size_t i, n = json_array_size(list);
    const json_t *entry;
    if (!json_is_array(list) || n > NAMES_MAX / 2)
        return error_set(err, ERROR_CRASH, 0, "the runner did not say what is in the archive");
    /* Each of them may be a link, which has a second place. */
    run->call.paths =
        xrealloc((struct rules_path *)run->call.paths, (2 * n + 2) * sizeof(*run->call.paths));
    json_array_foreach(list, i, entry)
    {
        const json_t *link = json_object_get(entry, "link");
        int r = add_path(run, json_string_value(json_object_get(entry, "path")));
        if (r >= 0 && link)
            r = add_path(run, json_string_value(link));
        if (r < 0)
            return error_set(err, ERROR_CRASH, 0, "the runner did not say what is in the archive");
    }
    return 0;
}

/* --- the phases */

/* What is approved is a file operation with all that it writes, never one that waits for more; and
 * the names in an archive are known when all of it is there. The run may have been abandoned from
 * inside the event. */
int run_input_enter(struct run *run, struct error *err)
{
    if (!run->spec.builtin || !run->spec.open_stdin ||
        !(run_ask_wanted(run) || are_names_wanted(run)))
        return run_next(run);
    if (!run->events->on_input_wanted)
        return error_set(err, ERROR_INTERNAL, 0,
                         "a file operation whose input is not known cannot be decided on");
    run->events->on_input_wanted(run->data, run);
    return RUN_INPUT;
}

int run_names_enter(struct run *run, struct error *err)
{
    char *argv[] = {(char *)"tar-names", NULL};
    struct exec_spec spec = {.argv = argv,
                             .builtin = true,
                             .hidden = true,
                             .stdin_data = run->spec.stdin_data,
                             .stdin_len = run->spec.stdin_len,
                             .open_stdin = run->spec.stdin_len == 0,
                             .timeout_ms = NAMES_MS};
    if (!are_names_wanted(run))
        return run_next(run);
    if (!run_wait_exec(run, &spec, err))
        return -EINVAL;
    if (!run->spec.stdin_len)
        exec_close_stdin(run->exec, NULL);
    return RUN_NAMES;
}

int run_names_leave(struct run *run, struct error *err)
{
    _cleanup_json_ json_t *answer = file_op_answer(run->exec, err);
    int r = answer ? take_names(run, answer, err) : -EINVAL;
    if (r < 0)
        return r;
    return run_decide(run, err);
}
