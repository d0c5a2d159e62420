/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: which phase follows which, what it is made of, and how it ends. */
#include "tool/run.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/weak.h"
#include "tool/run-internal.h"

/* --- the phases */

static void on_image_found(struct image_find *f, const struct error *err)
{
    run_resume(container_of(f, struct run, image), err);
}

static int image_enter(struct run *run, struct error *err)
{
    run->image.on_done = on_image_found;
    int r = image_find_start(&run->image, run->images, run->gate, &run->who, run->terms.approval_id,
                             &run->box, err);
    if (r < 0)
        return r;
    return r > 0 ? RUN_IMAGE : run_next(run);
}

static void image_cancel(struct run *run)
{
    image_find_cancel(&run->image);
}

/* For phases in which it is enough that what they wait for is there. */
static int phase_leave(struct run *run, struct error *err)
{
    (void)err;
    return run_next(run);
}

/* What each of them waits for is in run.h. */
static const struct phase {
    const char *name;
    int (*enter)(struct run *run, struct error *err);
    int (*leave)(struct run *run, struct error *err); /* NULL if run_resume() is not for it */
    void (*cancel)(struct run *run);                  /* NULL if there is nothing to end */
} phases[] = {
    [RUN_IMAGE] = {"image", image_enter, phase_leave, image_cancel},
    [RUN_DECIDE] = {"decide", run_decide_enter, NULL, NULL},
    [RUN_BOX] = {"box", run_box_enter, phase_leave, run_cancel_ready},
    [RUN_RESOLVE] = {"resolve", run_resolve_enter, run_resolve_leave, run_cancel_exec},
    [RUN_INPUT] = {"input", run_input_enter, run_decide, NULL},
    [RUN_NAMES] = {"names", run_names_enter, run_names_leave, run_cancel_exec},
    [RUN_PROBE] = {"probe", run_probe_enter, run_probe_leave, run_probe_cancel},
    [RUN_ASK] = {"ask", run_ask_enter, NULL, run_ask_cancel},
    [RUN_INTENT] = {"intent", run_intent_enter, NULL, NULL},
    [RUN_CREATE] = {"create", run_create_enter, run_confirm, run_cancel_ready},
    [RUN_FILES] = {"files", run_files_enter, run_files_leave, run_cancel_exec},
    [RUN_COMMAND] = {"command", run_command_enter, phase_leave, run_cancel_exec},
};
static_assert(ELEMENTS(phases) == RUN_DONE, "every phase has a row");

/* Enters phase after phase until one of them waits. Negative: the run fails, and is the caller's to
 * end. A phase that waits may have ended the run already, when its caller left from inside an
 * event: nothing of the run is touched then. */
static int run_step(struct run *run, int phase, struct error *err)
{
    int now = -1;
    /* A phase that waits returns itself. One loop in place of calls from phase to phase: the stack
     * does not grow with the way, and run->phase is always the phase that is entered. */
    while (phase >= 0 && phase != now) {
        now = phase;
        run->phase = (enum run_phase)phase;
        phase = phases[phase].enter(run, err);
    }
    return phase < 0 ? phase : 0;
}

static void run_end(struct run *run, struct exec *e, const struct error *err);

void run_fail(struct run *run, const struct error *err)
{
    run_end(run, NULL, err);
}

/* For phases that go on by themselves, from an answer that only they understand. The run may be
 * freed in here. */
void run_go_on(struct run *run, enum run_phase phase)
{
    struct error err = {0};
    if (run_step(run, phase, &err) < 0)
        run_fail(run, &err);
}

void run_resume(struct run *run, const struct error *failed)
{
    struct error err = {0};
    const struct phase *p = &phases[run->phase];
    int next = failed ? -ECANCELED : p->leave(run, &err);
    log_debug("a run goes on phase=%s call=%s", p->name, run->decision.call_id);
    /* Only the last phase's exec is the caller's command. Those of earlier phases looked something
     * up or wrote files, and are dropped before the next phase starts its own. */
    if (next == RUN_DONE) {
        run_end(run, run->exec, NULL);
        return;
    }
    exec_unref(steal_ptr(run->exec));
    if (next < 0)
        run_fail(run, failed ? failed : &err);
    else
        run_go_on(run, (enum run_phase)next);
}

/* --- a phase's exec */

static void on_exec_ended(struct exec_waiter *w, struct exec *e)
{
    (void)e;
    run_resume(container_of(w, struct run, ended), NULL);
}

/* It ends in a later turn of the loop, so that a phase has returned before run_resume() comes for
 * it. */
bool run_wait_exec(struct run *run, const struct exec_spec *spec, struct error *err)
{
    struct exec *e = exec_start(run->sandbox, spec, err);
    if (!e)
        return false;
    run->exec = exec_ref(e);
    run->ended.on_done = on_exec_ended;
    exec_wait(e, &run->ended);
    return true;
}

void run_cancel_exec(struct run *run)
{
    exec_waiter_cancel(&run->ended);
}

/* --- what it is made of */

static void free_spec(struct run *run)
{
    strv_free((char **)run->spec.argv);
    strv_free((char **)run->spec.env);
    strv_free((char **)run->spec.env_whitelist);
    free((char *)run->spec.cwd);
    free((char *)run->spec.pins);
    free((char *)run->spec.stdin_data);
    for (size_t i = 0; i < run->spec.n_paths; i++)
        free((char *)run->paths[i].path);
    free(run->paths);
    strv_free(run->hosts);
}

/* A run outlives its request, which may wait for a person for an hour: it borrows nothing of it. */
static void copy_spec(struct run *run, const struct exec_spec *s)
{
    run->spec = *s;
    run->spec.argv = strv_copy(s->argv);
    run->spec.env = s->env ? strv_copy(s->env) : NULL;
    run->spec.env_whitelist = s->env_whitelist ? strv_copy(s->env_whitelist) : NULL;
    run->spec.cwd = s->cwd ? xstrdup(s->cwd) : NULL;
    run->spec.pins = NULL; /* ours to make */
    run->spec.stdin_data = NULL;
    if (s->stdin_len) {
        char *data = xcalloc(1, s->stdin_len);
        memcpy(data, s->stdin_data, s->stdin_len);
        run->spec.stdin_data = data;
    }
    run->paths = xcalloc(s->n_paths, sizeof(*run->paths));
    for (size_t i = 0; i < s->n_paths; i++)
        run->paths[i] = (struct exec_path){s->paths[i].writable, xstrdup(s->paths[i].path)};
    run->spec.paths = run->paths;
    if (s->sink) {
        run->sink = *s->sink;
        run->spec.sink = &run->sink;
    }
}

static void copy_files(struct run *run, const struct run_file *files, size_t n)
{
    run->files = xcalloc(n, sizeof(*run->files));
    run->n_files = n;
    for (size_t i = 0; i < n; i++) {
        run->files[i] = files[i];
        run->files[i].path = xstrdup(files[i].path);
        run->files[i].data = xcalloc(1, files[i].len + 1);
        memcpy(run->files[i].data, files[i].data, files[i].len);
    }
}

/* Nothing here can fail: a run exists before the first question is asked of it, so that every
 * refusal has one way to its end. */
static struct run *run_new(const struct run_request *req, const struct run_events *events,
                           void *data)
{
    struct run *run = new0(struct run);
    list_init(&run->ready.node);
    list_init(&run->ended.node);
    list_init(&run->watch.node);
    run->events = events;
    run->data = data;
    run->manager = req->manager;
    run->gate = req->gate;
    run->images = req->images;
    run->one_shot = !req->sandbox;
    run->sandbox = req->sandbox ? sandbox_ref(req->sandbox) : NULL;
    spec_init(&run->box);
    if (run->one_shot)
        spec_copy(&run->box, req->spec);
    copy_spec(run, &req->exec);
    copy_files(run, req->files, req->n_files);
    run_call_init(run, req);
    return run;
}

/* The phase goes first: as long as it waits, its callback may come and find half a run. The
 * sandbox's own policy counts its calls, so run_scope_end() comes before the sandbox is given up.
 */
static void run_free(struct run *run)
{
    if (phases[run->phase].cancel)
        phases[run->phase].cancel(run);
    weak_clear(&run->weak);
    free(run->grant);
    run_probed_done(&run->probed);
    for (size_t i = 0; i < run->n_files; i++) {
        free(run->files[i].path);
        free(run->files[i].data);
    }
    free(run->files);
    strv_free(run->file_anchors);
    run_call_done(run);
    free_spec(run);
    spec_done(&run->box);
    run_scope_end(run);
    run_end_box(run);
    exec_unref(run->exec);
    sandbox_unref(run->sandbox);
    free(run);
}

/* The record of the end comes before the caller's answer, which may be the last thing that this
 * process does for the call. */
static void run_end(struct run *run, struct exec *e, const struct error *err)
{
    if (err)
        run_intent_end(run, "failed", err->message);
    /* The caller looks at the run and its exec in here for the last time. */
    run->events->on_done(run->data, run, e, err);
    run_free(run);
}

/* --- for callers */

/* A run that fails before it waits for anything has no on_done: the caller has the error as this
 * call's own. */
struct run *run_start(const struct run_request *req, const struct run_events *events, void *data,
                      struct error *err)
{
    /* What no kernel would start is not worth a decision, least of all a person's. */
    if (exec_spec_check_size(&req->exec, err) < 0)
        return NULL;
    struct sandbox *scope_of = req->scope_of ? req->scope_of : req->sandbox;
    const struct sandbox_policy *scope = scope_of ? sandbox_policy(scope_of) : NULL;
    struct run *run = run_new(req, events, data);
    int r = run_scope_begin(run, &req->call, scope, err);
    if (r >= 0 && scope)
        run_scope_enter(run, scope_of);
    if (r >= 0 && run_step(run, RUN_IMAGE, err) >= 0)
        return run;
    run_intent_end(run, "failed", err->message);
    run_free(run);
    return NULL;
}

void run_abandon(struct run *run)
{
    if (!run)
        return;
    run_intent_end(run, "canceled", NULL);
    run_free(run);
}

/* The client is gone. A run that waits for a person must not run afterwards, because no client
 * would see what it did. One that runs already goes on to its end, and only must not begin to
 * wait. */
bool run_leave(struct run *run)
{
    bool waited = run_is_waiting(run);
    if (waited)
        run_abandon(run);
    else
        run->left = true;
    return waited;
}

/* With a grant, the phases between its use and the intent count as waiting, too: a caller that
 * leaves there has not got anything yet. */
bool run_is_waiting(const struct run *run)
{
    return run->phase == RUN_PROBE || run->phase == RUN_ASK ||
           (run->grant && run->phase < RUN_INTENT);
}

void run_set_input(struct run *run, const char *data, size_t len)
{
    char *copy = len ? xcalloc(1, len) : NULL;
    if (copy)
        memcpy(copy, data, len);
    free((char *)run->spec.stdin_data);
    run->spec.stdin_data = copy;
    run->spec.stdin_len = len;
    run->spec.open_stdin = false;
    run_resume(run, NULL);
}
