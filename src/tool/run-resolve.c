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

/* How each of the runner's operations treats a link at the end of its path. */
static const struct {
    const char *name;
    char mode; /* as fs-resolve has it */
} operations[] = {
    {"fs-read", 'r'}, {"fs-lines", 'r'},  {"fs-list", 'r'},    {"fs-search", 'r'},
    {"fs-stat", 'l'}, {"fs-remove", 'l'}, {"fs-move", 'l'},    {"fs-write", 'w'},
    {"fs-edit", 'w'}, {"fs-mkdir", 'w'},  {"tar-create", 'r'}, {"tar-extract", 'w'},
};

struct run_resolve {
    struct run *run;
    struct exec *exec; /* referenced */
    struct exec_waiter waiter;
    void (*done)(struct run *run, bool changed, const struct error *err);
};

/* 0: there is nothing to resolve. */
static char mode_of(const struct run *run)
{
    if (!run->spec.builtin && run->n_files && run->n_files == run->call.n_paths)
        return 'w'; /* what is written before a command runs */
    if (!run->spec.builtin || !run->call.n_paths)
        return 0;
    for (size_t i = 0; i < ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, run->spec.argv[0]) == 0)
            return operations[i].mode;
    if (strcmp(run->call.tool, "file_system") == 0)
        return run->call.paths[0].write ? 'w' : 'r';
    return 0; /* the file skill follows no links by itself */
}

/* --- what it leads to */

static bool allows(const struct exec_spec *s, const char *place)
{
    for (size_t i = 0; i < s->n_paths; i++)
        if (path_below(s->paths[i].path, place))
            return true;
    return false;
}

/* Narrower than before, never wider: a place outside of what is allowed stays outside. */
static void hold_to(struct run *run, char **anchors, size_t n, bool write)
{
    for (size_t i = 0; i < n && run->spec.narrow; i++)
        if (!allows(&run->spec, anchors[i]))
            return;
    for (size_t i = 0; i < run->spec.n_paths; i++)
        free((char *)run->paths[i].path);
    free(run->paths);
    run->paths = xcalloc(n, sizeof(*run->paths));
    for (size_t i = 0; i < n; i++)
        run->paths[i] = (struct exec_path){write, xstrdup(anchors[i])};
    run->spec.paths = run->paths;
    run->spec.n_paths = n;
    run->spec.narrow = true;
}

static int take(struct run *run, const json_t *answer, bool *ret_changed, struct error *err)
{
    const json_t *list = json_object_get(answer, "paths");
    struct rules_path *paths = (struct rules_path *)run->call.paths;
    size_t n = run->call.n_paths;
    if (json_array_size(list) != n)
        return error_set(err, ERROR_CRASH, 0, "the runner did not say where the path leads");
    char **anchors = xcalloc(n + 1, sizeof(*anchors));
    int r = 0;
    for (size_t i = 0; r >= 0 && i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(entry, "path"));
        const char *anchor = json_string_value(json_object_get(entry, "anchor"));
        if (!path || !anchor || !path_is_clean(path) || !path_is_clean(anchor)) {
            r = error_set(err, ERROR_CRASH, 0, "the runner did not say where the path leads");
            break;
        }
        anchors[i] = xstrdup(anchor);
        if (strcmp(path, paths[i].path) == 0)
            continue;
        *ret_changed = true;
        free((char *)paths[i].path);
        paths[i].path = xstrdup(path);
    }
    bool can_hold = r >= 0 && sandbox_effective(run->sandbox)->landlock_abi;
    if (can_hold && run->n_files)
        run->file_anchors = steal_ptr(anchors);
    else if (can_hold)
        hold_to(run, anchors, n, mode_of(run) != 'r');
    strv_free(anchors);
    return r;
}

static void on_done(struct exec_waiter *w, struct exec *e)
{
    struct run_resolve *k = container_of(w, struct run_resolve, waiter);
    struct run *run = k->run;
    struct error err = {0};
    bool changed = false;
    _cleanup_json_ json_t *answer = file_op_answer(e, &err);
    if (answer)
        take(run, answer, &changed, &err);
    void (*done)(struct run *, bool, const struct error *) = k->done;
    run_resolve_cancel(run);
    done(run, changed, error_is_set(&err) ? &err : NULL);
}

void run_resolve_cancel(struct run *run)
{
    struct run_resolve *k = steal_ptr(run->resolve);
    if (!k)
        return;
    exec_waiter_cancel(&k->waiter);
    exec_unref(k->exec);
    free(k);
}

int run_resolve_start(struct run *run,
                      void (*done)(struct run *run, bool changed, const struct error *err),
                      struct error *err)
{
    char mode[2] = {mode_of(run), 0};
    size_t n = run->call.n_paths;
    if (!mode[0] || !gate_has_policy(run->gate) || !run->sandbox ||
        sandbox_state(run->sandbox) != SANDBOX_READY)
        return 0;
    char **argv = xcalloc(n + 3, sizeof(*argv));
    argv[0] = (char *)"fs-resolve";
    argv[1] = mode;
    for (size_t i = 0; i < n; i++)
        argv[2 + i] = (char *)run->call.paths[i].path;
    struct exec_spec spec = {
        .argv = argv, .builtin = true, .hidden = true, .timeout_ms = RESOLVE_MS};
    struct exec *e = exec_start(run->sandbox, &spec, err);
    free(argv);
    if (!e)
        return -EINVAL;
    struct run_resolve *k = new0(struct run_resolve);
    *k = (struct run_resolve){.run = run, .exec = exec_ref(e), .done = done};
    list_init(&k->waiter.node);
    k->waiter.on_done = on_done;
    run->resolve = k;
    exec_wait(e, &k->waiter);
    return 1;
}
