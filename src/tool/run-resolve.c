/* SPDX-License-Identifier: Apache-2.0 */
/* File operations are decided on by where they really lead: links inside the sandbox are resolved
 * by the runner first, the rules look at the result as well, and the operation is then held to it
 * by its Landlock domain, whose places are opened without following any link. So a link that
 * appears in between leads a read nowhere but to what every operation may read (the system's own
 * directories), and a write nowhere outside of the directory that it resolved to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "tool/file-op.h"
#include "tool/run-internal.h"

#define RESOLVE_MS 10000

/* --- what it leads to */

/* What an anchor and the run's walls have in common, borrowed: itself where there are none, nothing
 * where it lies outside of them. out has room for one more than there are walls. */
static size_t common_places(const struct exec_spec *s, const char *anchor, bool write,
                            struct exec_path *out)
{
    size_t n = 0;
    if (!s->narrow)
        out[n++] = (struct exec_path){write, (char *)anchor};
    for (size_t i = 0; s->narrow && i < s->n_paths; i++) {
        const struct exec_path *wall = &s->paths[i];
        if (path_below(wall->path, anchor))
            out[n++] = (struct exec_path){write && wall->writable, (char *)anchor};
        else if (path_below(anchor, wall->path))
            out[n++] = (struct exec_path){write && wall->writable, wall->path};
    }
    return n;
}

/* Narrower than before, never wider: a place outside of what is allowed stays outside. */
static void hold_to(struct run *run, char **anchors, size_t n, bool write)
{
    struct exec_spec *s = &run->spec;
    struct exec_path *paths = xcalloc(n * (s->n_paths + 1), sizeof(*paths));
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(anchors[i], anchors[i - 1]) != 0)
            held += common_places(s, anchors[i], write, paths + held);
    for (size_t i = 0; i < held; i++)
        paths[i].path = xstrdup(paths[i].path);
    for (size_t i = 0; i < s->n_paths; i++)
        free((char *)run->paths[i].path);
    free(run->paths);
    run->paths = paths;
    s->paths = paths;
    s->n_paths = held;
    s->narrow = true;
}

size_t run_resolve_places(const struct run *run, size_t file, struct exec_path *out)
{
    return common_places(&run->spec, run->file_anchors[file], true, out);
}

static void hold_files(struct run *run, char **anchors)
{
    strv_free(run->file_anchors);
    run->file_anchors = strv_copy(anchors);
}

static int say_unknown(struct error *err)
{
    return error_set(err, ERROR_CRASH, 0, "the runner did not say where the path leads");
}

/* One answer of the runner's, which is not trusted to say anything but paths. */
static int take_path(struct rules_path *place, const json_t *entry, bool tree, char **ret_anchor,
                     bool *ret_moved, struct error *err)
{
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *anchor = json_string_value(json_object_get(entry, "anchor"));
    if (!path || !anchor || !path_is_clean(path) || !path_is_clean(anchor))
        return say_unknown(err);
    *ret_anchor = xstrdup(anchor);
    *ret_moved |= strcmp(path, place->path) != 0 || place->tree != tree;
    free((char *)place->path);
    place->path = xstrdup(path);
    place->tree = tree;
    return 0;
}

/* Rules are about what the caller named and about the place: both are looked at. */
static void make_places(struct run *run)
{
    size_t n = run->n_given;
    struct rules_path *paths =
        xrealloc((struct rules_path *)run->call.paths, 2 * n * sizeof(*paths));
    for (size_t i = 0; i < n; i++)
        paths[n + i] = (struct rules_path){.path = xstrdup(paths[i].path), .write = paths[i].write};
    run->call.paths = paths;
    run->call.n_paths = 2 * n;
}

/* The second time (known), after a grant was used, the places are compared with those of the first
 * time: *ret_moved says that a link leads elsewhere than what the person saw. */
static int take_places(struct run *run, const json_t *answer, bool *ret_moved, struct error *err)
{
    const json_t *list = json_object_get(answer, "paths");
    size_t n = run->n_given;
    bool known = run->call.n_paths > n;
    if (json_array_size(list) != n)
        return say_unknown(err);
    if (!known)
        make_places(run);
    struct rules_path *places = (struct rules_path *)run->call.paths + n;
    _cleanup_strv_ char **anchors = xcalloc(n + 1, sizeof(*anchors));
    /* What is moved decides for both places: it is a tree here and will be one there. */
    bool is_dir = json_is_true(json_object_get(json_array_get(list, 0), "directory"));
    int r = 0;
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = take_path(&places[i], json_array_get(list, i), is_dir && run_paths_has_tree(run, i),
                      &anchors[i], ret_moved, err);
    *ret_moved &= known;
    if (r < 0 || !sandbox_effective(run->sandbox)->landlock_abi)
        return r;
    if (run->n_files)
        hold_files(run, anchors);
    else
        hold_to(run, anchors, n, run_paths_mode(run) != 'r');
    return 0;
}

/* --- the phase */

/* Without a policy there is no rule about paths, and a look into the sandbox would cost each file
 * operation another one. */
bool run_resolve_wanted(const struct run *run)
{
    return run->n_given && gate_has_policy(run->gate) && run_paths_mode(run);
}

int run_resolve_enter(struct run *run, struct error *err)
{
    if (!run_resolve_wanted(run))
        return run_next(run);
    char mode[2] = {run_paths_mode(run), 0};
    size_t n = run->n_given;
    _cleanup_free_ const char **argv = xcalloc(n + 3, sizeof(*argv));
    argv[0] = "fs-resolve";
    argv[1] = mode;
    for (size_t i = 0; i < n; i++) {
        argv[2 + i] = run_paths_given(run, i);
        if (!argv[2 + i])
            return error_set(err, ERROR_INTERNAL, 0, "a path of the call is not known");
    }
    struct exec_spec spec = {.argv = (char *const *)argv,
                             .builtin = true,
                             .hidden = true,
                             .cwd = run->n_files ? NULL : run->spec.cwd,
                             .timeout_ms = RESOLVE_MS};
    return run_wait_exec(run, &spec, err) ? RUN_RESOLVE : -EINVAL;
}

/* Where the paths really lead is decided on as well. */
int run_resolve_leave(struct run *run, struct error *err)
{
    bool moved = false;
    _cleanup_json_ json_t *answer = file_op_answer(run->exec, err);
    int r = answer ? take_places(run, answer, &moved, err) : -EINVAL;
    if (r < 0)
        return r;
    return run->grant ? run_ask_confirm(run, moved, err) : run_decide(run, err);
}
