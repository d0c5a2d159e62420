#include "tool/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/json-format.h"
#include "base/strbuf.h"
#include "sandbox/persist.h"
#include "sandbox/sandbox-policy.h"
#include "tool/builtin.h"
#include "tool/run-internal.h"
#include "tool/tool.h"

#define DETAILS_MAX   65536
#define SHORT_RUN_US  100000 /* and little work in that time: too little to have written much */
#define SHORT_WORK_US 10000

static int look_inside(struct run *run, struct error *err);
static int next_step(struct run *run, struct error *err);

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
}

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

/* An intent that no exec will end. */
static void end_intent(struct run *run, const char *outcome, const char *why)
{
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    if (!run->intent)
        return;
    run->intent = false;
    if (why) {
        struct json_text t = json_text_begin(&details, '{');
        json_text_bytes(&t, "error", why, strlen(why));
        json_text_end(&t, '}');
    }
    gate_note_ended(run->gate, run->decision.call_id,
                    run->sandbox ? sandbox_id(run->sandbox) : NULL, NULL, outcome, details.data);
}

/* A short command that left nobody behind has also left little: taking its sandbox apart can wait
 * until that is in nobody's way. */
static void end_one_shot(struct run *run)
{
    if (!run->one_shot || !run->sandbox)
        return;
    const struct exec_result *r = run->exec ? exec_result(run->exec) : NULL;
    if (r && r->alone && r->usage.wall_us < SHORT_RUN_US &&
        r->usage.user_us + r->usage.system_us < SHORT_WORK_US)
        sandbox_retire(run->sandbox);
    else
        sandbox_delete(run->sandbox, NULL);
}

static void run_free(struct run *run)
{
    run_resolve_cancel(run);
    run_names_cancel(run);
    run_probe_cancel(run);
    run_ask_cancel(run);
    free(run->grant);
    strv_free(run->file_anchors);
    json_decref(run->pins);
    json_decref(run->diff);
    free(run->program);
    end_intent(run, "canceled", NULL);
    sandbox_waiter_cancel(&run->ready);
    exec_waiter_cancel(&run->done);
    for (size_t i = 0; i < run->n_files; i++) {
        free(run->files[i].path);
        free(run->files[i].data);
    }
    free(run->files);
    run_call_done(run);
    free_spec(run);
    spec_done(&run->box);
    if (run->scope_of)
        sandbox_policy(run->scope_of)->running--;
    sandbox_unref(run->scope_of);
    end_one_shot(run);
    exec_unref(run->exec);
    sandbox_unref(run->sandbox);
    free(run);
}

static void finish(struct run *run, struct exec *e, const struct error *err)
{
    if (err)
        end_intent(run, "failed", err->message);
    run->events->on_done(run->data, run, e, err);
    run_free(run);
}

void run_fail(struct run *run, const struct error *err)
{
    finish(run, NULL, err);
}

static void on_exec_done(struct exec_waiter *w, struct exec *e)
{
    struct run *run = container_of(w, struct run, done);
    struct error err = {0};
    if (run->command_started) {
        finish(run, e, NULL);
        return;
    }
    if (builtin_check(e, &err) < 0) {
        error_prefix(&err, "cannot write file '%s'", run->files[run->next_file - 1].path);
        finish(run, NULL, &err);
        return;
    }
    exec_unref(steal_ptr(run->exec));
    if (next_step(run, &err) < 0)
        finish(run, NULL, &err);
}

static struct exec *start_file(struct run *run, struct error *err)
{
    struct run_file *f = &run->files[run->next_file++];
    char mode[16];
    snprintf(mode, sizeof(mode), "%o", f->mode);
    char *argv[] = {(char *)"fs-write", f->path, mode, (char *)"truncate", NULL};
    struct exec_spec spec = {.argv = argv,
                             .builtin = true,
                             .hidden = true,
                             .stdin_data = f->data,
                             .stdin_len = f->len,
                             .open_stdin = f->len == 0,
                             .narrow = run->spec.narrow,
                             .paths = run->spec.paths,
                             .n_paths = run->spec.n_paths};
    _cleanup_free_ struct exec_path *places = NULL;
    if (run->file_anchors) {
        places = xcalloc(run->spec.n_paths + 1, sizeof(*places));
        spec.n_paths = run_resolve_places(run, run->next_file - 1, places);
        spec.paths = places;
        spec.narrow = true;
    }
    struct exec *e = exec_start(run->sandbox, &spec, err);
    if (e && f->len == 0)
        exec_close_stdin(e, NULL);
    return e;
}

/* Never ends the run itself: an exec ends in a later turn of the loop. */
static int next_step(struct run *run, struct error *err)
{
    struct exec *e;
    if (run->next_file < run->n_files) {
        e = start_file(run, err);
    } else {
        run->command_started = true;
        run->spec.call = run->decision.call_id;
        fault_point("run.before-start");
        e = exec_start(run->sandbox, &run->spec, err);
        run->intent = run->intent && !e; /* from here on its end is the exec's */
        fault_point("run.start-sent");
    }
    if (!e)
        return -EINVAL;
    run->exec = exec_ref(e);
    exec_wait(e, &run->done);
    if (run->command_started && run->events->on_started)
        run->events->on_started(run->data, run, e);
    return 0;
}

static void on_ready(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err)
{
    struct run *run = container_of(w, struct run, ready);
    struct error step_err = {0};
    (void)sb;
    if (!err && (run->intent ? next_step(run, &step_err) : look_inside(run, &step_err)) < 0)
        err = &step_err;
    if (err)
        finish(run, NULL, err);
}

/* --- starting */

static struct run *run_new(const struct run_request *req, const struct gate_call *call,
                           const struct gate_decision *d)
{
    struct run *run = new0(struct run);
    list_init(&run->ready.node);
    list_init(&run->done.node);
    run->manager = req->manager;
    run->gate = req->gate;
    run->one_shot = !req->sandbox;
    run->sandbox = req->sandbox ? sandbox_ref(req->sandbox) : NULL;
    run->ready.on_event = on_ready;
    run->done.on_done = on_exec_done;
    run->decision = *d;
    spec_init(&run->box);
    if (run->one_shot)
        spec_copy(&run->box, req->spec);
    copy_spec(run, &req->exec);
    copy_files(run, req->files, req->n_files);
    run_call_copy(run, call);
    return run;
}

static int make_box(struct run *run, struct error *err)
{
    struct sandbox_maker by = {run->who.key, run->who.address};
    struct sandbox *sb = sandbox_create(run->manager, &run->box, &by, NULL, NULL, true, err);
    if (!sb)
        return -EINVAL;
    run->sandbox = sandbox_ref(sb);
    return 0;
}

/* One that was made to look into, and in which nothing has been written. */
static void drop_box(struct run *run)
{
    sandbox_delete(run->sandbox, NULL);
    sandbox_unref(steal_ptr(run->sandbox));
}

/* The gate is passed: puts that on record, then starts. */
static int go(struct run *run, struct error *err)
{
    run->call.put_parts = run_put_parts;
    int r = gate_intent(run->gate, &run->call, &run->decision, run->grant, err);
    if (r < 0)
        return r;
    run->intent = true;
    fault_point("run.intent");
    if (!run->sandbox && make_box(run, err) < 0)
        return -EINVAL;
    if (sandbox_state(run->sandbox) != SANDBOX_CREATING)
        return next_step(run, err);
    sandbox_wait_ready(run->sandbox, &run->ready);
    return 0;
}

/* What a person has said is about where it led then. */
void run_go_on(struct run *run, const char *grant)
{
    struct error err = {0};
    run->grant = xstrdup(grant);
    if ((run_resolve_wanted(run) ? look_inside(run, &err) : go(run, &err)) < 0)
        finish(run, NULL, &err);
}

/* What is approved is a file operation with all that it writes, never one that waits for more. */
static int want_input(struct run *run, struct error *err)
{
    if (!run->events->on_input_wanted)
        return error_set(err, ERROR_INTERNAL, 0,
                         "a file operation whose input is not known cannot be decided on");
    run->events->on_input_wanted(run->data, run);
    return 0;
}

/* Narrows the run as the rules oblige. 1: a one-shot that was made to look into is too large for
 * them and is gone. */
static int oblige(struct run *run, struct error *err)
{
    if (!run->one_shot || !run->sandbox)
        return run_oblige(run, err);
    _cleanup_json_ json_t *before = persist_spec_format(&run->box);
    int r = run_oblige(run, err);
    _cleanup_json_ json_t *after = persist_spec_format(&run->box);
    if (r < 0 || json_equal(before, after))
        return r;
    drop_box(run);
    return 1;
}

static int start_decided(struct run *run, struct error *err)
{
    bool ask = run->decision.rules.verdict == VERDICT_ASK || run->terms.approval_id;
    int r = oblige(run, err);
    if (r != 0)
        return r < 0 ? r : look_inside(run, err);
    if (ask && run->spec.builtin && run->spec.open_stdin)
        return want_input(run, err);
    /* It may take hours, and an empty sandbox is quickly made again. */
    if (ask && run->one_shot && run->sandbox)
        drop_box(run);
    if (ask)
        return run_ask(run, err);
    r = go(run, err);
    if (r < 0)
        end_intent(run, "failed", err->message);
    return r;
}

/* --- what is only known inside */

static void on_named(struct run *run, const struct error *err)
{
    struct error failed = {0};
    if (!err && (gate_decide_again(run->gate, &run->call, &run->decision, &failed) < 0 ||
                 start_decided(run, &failed) < 0))
        err = &failed;
    if (err)
        finish(run, NULL, err);
}

static int start_resolved(struct run *run, struct error *err)
{
    if (!run->wants_names)
        return start_decided(run, err);
    if (run->spec.open_stdin)
        return want_input(run, err);
    run->wants_names = false;
    return run_names_start(run, on_named, err);
}

void run_set_input(struct run *run, const char *data, size_t len)
{
    struct error err = {0};
    char *copy = len ? xcalloc(1, len) : NULL;
    if (copy)
        memcpy(copy, data, len);
    free((char *)run->spec.stdin_data);
    run->spec.stdin_data = copy;
    run->spec.stdin_len = len;
    run->spec.open_stdin = false;
    if (start_resolved(run, &err) < 0)
        finish(run, NULL, &err);
}

/* After a person has said yes, the paths must still lead there, and the yes must still do. */
static int take_granted(struct run *run, bool moved, struct error *err)
{
    bool same = strcmp(gate_revision(run->gate), ruleset_revision(run->decision.ruleset)) == 0;
    if (moved || !same)
        return gate_refuse(run->gate, &run->call, &run->decision, "approval",
                           moved ? "the path leads elsewhere than when it was approved"
                                 : "the policy has changed since it was approved",
                           err);
    int r = run_ask_again(run, err);
    r = r < 0 ? r : oblige(run, err);
    if (r != 0)
        return r < 0 ? r : look_inside(run, err);
    return go(run, err);
}

/* Where the paths really lead is decided on as well. */
static int take_resolved(struct run *run, bool moved, struct error *err)
{
    if (run->grant)
        return take_granted(run, moved, err);
    if (gate_decide_again(run->gate, &run->call, &run->decision, err) < 0)
        return -EPERM;
    run->wants_names = run_names_wanted(run);
    return start_resolved(run, err);
}

static void on_resolved(struct run *run, bool moved, const struct error *err)
{
    struct error failed = {0};
    if (!err && take_resolved(run, moved, &failed) < 0)
        err = &failed;
    if (err)
        finish(run, NULL, err);
}

/* In the sandbox itself, which for that is made or waited for. */
static int look_inside(struct run *run, struct error *err)
{
    if (!run->sandbox && make_box(run, err) < 0)
        return -EINVAL;
    if (sandbox_state(run->sandbox) != SANDBOX_CREATING)
        return run_resolve_start(run, on_resolved, err);
    sandbox_wait_ready(run->sandbox, &run->ready);
    return 0;
}

static int start(struct run *run, struct error *err)
{
    if (!run_resolve_wanted(run))
        return start_decided(run, err);
    int r = oblige(run, err);
    return r < 0 ? r : look_inside(run, err);
}

struct run *run_start(const struct run_request *req, const struct run_events *events, void *data,
                      struct error *err)
{
    struct sandbox *scope_of = req->scope_of ? req->scope_of : req->sandbox;
    const struct sandbox_policy *scope = scope_of ? sandbox_policy(scope_of) : NULL;
    struct rules_path paths[RUN_PATHS_MAX];
    _cleanup_strv_ char **owned = NULL;
    struct gate_call call;
    struct gate_decision d;
    /* What no kernel would start is not worth a decision, least of all a person's. */
    if (exec_spec_check_size(&req->exec, err) < 0)
        return NULL;
    if (run_call_fill(req, &call, paths, &owned, err) < 0)
        return NULL;
    if (run_scope_decide(req, scope, &call, &d, err) < 0) {
        gate_decision_done(&d);
        return NULL;
    }
    struct run *run = run_new(req, &call, &d);
    run->events = events;
    run->data = data;
    if (scope)
        run_scope_enter(run, scope_of);
    if (start(run, err) >= 0)
        return run;
    run_free(run);
    return NULL;
}

void run_abandon(struct run *run)
{
    if (run)
        run_free(run);
}

bool run_leave(struct run *run)
{
    bool waited = run_is_waiting(run);
    if (waited)
        run_free(run);
    else
        run->left = true;
    return waited;
}

bool run_is_waiting(const struct run *run)
{
    return run->asking && !run->intent && !run->exec;
}

struct sandbox *run_sandbox(const struct run *run)
{
    return run->sandbox;
}
