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
#define NAMES_MAX 20000 /* paths; the runner tells of fewer */

struct run_names {
    struct run *run;
    struct exec *exec; /* referenced */
    struct exec_waiter waiter;
    void (*done)(struct run *run, const struct error *err);
};

/* Where a person is asked in any case, a rule that denies could hide behind one that asks. */
bool run_names_wanted(struct run *run)
{
    if (!run->spec.builtin || strcmp(run->spec.argv[0], "tar-extract") != 0 ||
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

static int take(struct run *run, const json_t *answer, struct error *err)
{
    const json_t *list = json_object_get(answer, "names");
    size_t i, n = json_array_size(list);
    const json_t *entry;
    int r = json_is_array(list) && n <= NAMES_MAX / 2 ? 0 : -EINVAL;
    if (r >= 0) /* each of them may be a link with a second place */
        run->call.paths =
            xrealloc((struct rules_path *)run->call.paths, (2 * n + 2) * sizeof(*run->call.paths));
    json_array_foreach(list, i, entry)
    {
        const json_t *link = json_object_get(entry, "link");
        r = r < 0 ? r : add_path(run, json_string_value(json_object_get(entry, "path")));
        r = r < 0 || !link ? r : add_path(run, json_string_value(link));
    }
    return r < 0 ? error_set(err, ERROR_CRASH, 0, "the runner did not say what is in the archive")
                 : 0;
}

static void on_done(struct exec_waiter *w, struct exec *e)
{
    struct run_names *k = container_of(w, struct run_names, waiter);
    struct run *run = k->run;
    struct error err = {0};
    _cleanup_json_ json_t *answer = file_op_answer(e, &err);
    if (answer)
        take(run, answer, &err);
    void (*done)(struct run *, const struct error *) = k->done;
    run_names_cancel(run);
    done(run, error_is_set(&err) ? &err : NULL);
}

void run_names_cancel(struct run *run)
{
    struct run_names *k = steal_ptr(run->names);
    if (!k)
        return;
    exec_waiter_cancel(&k->waiter);
    exec_unref(k->exec);
    free(k);
}

int run_names_start(struct run *run, void (*done)(struct run *run, const struct error *err),
                    struct error *err)
{
    char *argv[] = {(char *)"tar-names", NULL};
    struct exec_spec spec = {.argv = argv,
                             .builtin = true,
                             .hidden = true,
                             .stdin_data = run->spec.stdin_data,
                             .stdin_len = run->spec.stdin_len,
                             .open_stdin = run->spec.stdin_len == 0,
                             .timeout_ms = NAMES_MS};
    struct exec *e = exec_start(run->sandbox, &spec, err);
    if (!e)
        return -EINVAL;
    if (!run->spec.stdin_len)
        exec_close_stdin(e, NULL);
    struct run_names *k = new0(struct run_names);
    *k = (struct run_names){.run = run, .exec = exec_ref(e), .done = done};
    list_init(&k->waiter.node);
    k->waiter.on_done = on_done;
    run->names = k;
    exec_wait(e, &k->waiter);
    return 0;
}
