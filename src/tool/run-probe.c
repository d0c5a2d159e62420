/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked up inside the sandbox before a person is asked: for a command, the files that it
 * would run and that a process in there could change, with their hashes; for a write, what is there
 * now, to show the difference. One hidden operation of the runner's; where it fails, the approval
 * says "not pinned" and shows no difference. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "guard/diff.h"
#include "shell/convention.h"
#include "tool/file-op.h"
#include "tool/run-internal.h"

#define PROBE_MS     10000
#define PINS_MAX     20000 /* entries of a runner: more than a command has words */
#define BEFORE_MAX   (256 * 1024)
#define BEFORE_TEXT  "262144"
#define DIFF_MAX     (256 * 1024)
#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"
#define HOME_DEFAULT "/home/sandbox"

/* name has its '='. */
static const char *env_find(char *const *env, const char *name)
{
    for (; env && *env; env++)
        if (strncmp(*env, name, strlen(name)) == 0)
            return *env + strlen(name);
    return NULL;
}

/* The command's own PATH, as the sandbox will build it. */
static const char *paths_of(const struct run *run)
{
    const char *own = env_find(run->spec.env, "PATH=");
    if (!own)
        own = env_find(sandbox_spec(run->sandbox)->env, "PATH=");
    return own ? own : PATH_DEFAULT;
}

/* The caller frees it. */
static char *home_of(const struct run *run)
{
    const struct spec *box = sandbox_spec(run->sandbox);
    const char *from = sandbox_effective(run->sandbox)->box;
    const char *own = env_find(run->spec.env, "HOME=");
    own = own ? own : env_find(box->env, "HOME=");
    own = own ? own : env_find(box->image_env, "HOME=");
    if (!own && *from)
        return xasprintf("%s/home", from);
    return xstrdup(own ? own : HOME_DEFAULT);
}

/* The file that is about to be overwritten; NULL if there is none. */
static const char *written_path(const struct run *run)
{
    const char *action = json_string_value(json_object_get(run->call.args, "action"));
    if (run->spec.builtin && strcmp(run->spec.argv[0], "fs-write") == 0)
        return run->spec.argv[1];
    if (strcmp(run->call.tool, "file_system") == 0 && action && strcmp(action, "write") == 0)
        return json_string_value(json_object_get(run->call.args, "path"));
    return NULL;
}

static bool new_content(const struct run *run, const char **ret, size_t *ret_len)
{
    const json_t *content = json_object_get(run->call.args, "content");
    if (run->spec.builtin && strcmp(run->spec.argv[0], "fs-write") == 0) {
        *ret = run->spec.stdin_data ? run->spec.stdin_data : "";
        *ret_len = run->spec.stdin_len;
        return strcmp(run->spec.argv[3], "truncate") == 0;
    }
    *ret = json_string_value(content);
    *ret_len = json_string_length(content);
    return *ret && !json_is_true(json_object_get(run->call.args, "append"));
}

/* --- what came back */

/* The runner is not trusted: hashes that it invents make pins that no file fits, and the command
 * does not start. */
static void take_pins(struct run *run, struct exec *e)
{
    struct error ignored = {0};
    _cleanup_json_ json_t *answer = file_op_answer(e, &ignored);
    json_t *pins = json_object_get(answer, "pins"), *named = json_object_get(answer, "named");
    const char *program = json_string_value(json_object_get(answer, "program"));
    if (json_array_size(pins) > PINS_MAX)
        return;
    run->probed.pins = json_is_array(pins) ? json_incref(pins) : NULL;
    run->probed.named = json_is_array(named) ? json_incref(named) : NULL;
    run->probed.more = json_is_true(json_object_get(answer, "more"));
    if (program && program[0] == '/')
        run->probed.program = xstrdup(program);
}

/* Only of a whole text: a difference of a part, or of bytes that look alike on a screen, would
 * show the person something else than what is written. Without one the content itself is shown. */
static void take_difference(struct run *run, struct exec *e)
{
    _cleanup_strbuf_ struct strbuf before = STRBUF_INIT(BEFORE_MAX + 1),
                                   out = STRBUF_INIT(DIFF_MAX);
    uint64_t omitted = 0;
    size_t gap, len;
    const char *after;
    bool lossy;
    const struct exec_result *r = exec_result(e);
    bool found = r->status == EXEC_COMPLETED && r->exit_code == 0;
    if (found)
        journal_collect(exec_journal(e), OUTPUT_STDOUT, BEFORE_MAX, &before, &omitted, &gap);
    if (omitted || before.len >= BEFORE_MAX || !new_content(run, &after, &len) ||
        memchr(after, 0, len) || (before.data && memchr(before.data, 0, before.len)))
        return;
    if (diff_lines(before.data ? before.data : "", before.len, after, len, &out) < 0)
        return;
    run->probed.diff = json_string_from_bytes(out.data, out.len, &lossy);
}

/* --- the phase */

static char **pin_argv(const struct run *run)
{
    size_t n = strv_length(run->spec.argv);
    char **argv = xcalloc(n + 3, sizeof(*argv));
    argv[0] = xstrdup("pin");
    argv[1] = xstrdup(paths_of(run));
    for (size_t i = 0; i < n; i++)
        argv[2 + i] = xstrdup(run->spec.argv[i]);
    return argv;
}

/* The same, with the files that the command finds by itself before its own words. */
static char **pin_named_argv(const struct run *run)
{
    _cleanup_free_ char *home = home_of(run);
    size_t n = strv_length(run->spec.argv), at = 0;
    struct shell_conventions c;
    run_conventions(run, &c);
    char **argv = xcalloc(n + 2 * c.n_looks + 4, sizeof(*argv));
    argv[at++] = xstrdup("pin-named");
    argv[at++] = xstrdup(paths_of(run));
    argv[at++] = xasprintf("%zu", c.n_looks);
    for (size_t i = 0; i < c.n_looks; i++) {
        const struct shell_look *l = &c.looks[i];
        argv[at++] = xstrdup(l->home ? home : l->start);
        argv[at++] = xasprintf("%c%s", l->above ? '^' : l->only_inside ? ':' : '-', l->name);
    }
    for (size_t i = 0; i < n; i++)
        argv[at++] = xstrdup(run->spec.argv[i]);
    shell_conventions_done(&c);
    return argv;
}

void run_probed_done(struct run_probed *p)
{
    json_decref(p->pins);
    json_decref(p->named);
    json_decref(p->diff);
    free(p->program);
    *p = (struct run_probed){0};
}

/* The files that are found by their names are many, and those who run there can make them more. A
 * look at them that fails must not take the pins of the program itself with it: it is made once
 * more without them. */
static bool is_named_look(const struct run *run)
{
    return !written_path(run) && !run->probed.plain && sandbox_pins_named(run->sandbox);
}

/* Where the look cannot be started, the approval says so by what it lacks. */
static int start_probe(struct run *run)
{
    const char *path = written_path(run);
    struct error ignored = {0};
    char *read[] = {(char *)"fs-read", (char *)path, (char *)"0", (char *)BEFORE_TEXT, NULL};
    _cleanup_strv_ char **pin = path                 ? NULL
                                : is_named_look(run) ? pin_named_argv(run)
                                                     : pin_argv(run);
    struct exec_spec spec = {.argv = path ? read : pin,
                             .builtin = true,
                             .hidden = true,
                             .cwd = run->spec.cwd,
                             .timeout_ms = PROBE_MS,
                             .narrow = run->spec.narrow,
                             .paths = run->spec.paths,
                             .n_paths = run->spec.n_paths};
    if (run_wait_exec(run, &spec, &ignored))
        return RUN_PROBE;
    if (!is_named_look(run))
        return run_next(run);
    run->probed.plain = true;
    return start_probe(run);
}

/* A lasting sandbox that is being created is waited for, because without the look it would be
 * another subject than the same call a moment later. */
int run_probe_enter(struct run *run, struct error *err)
{
    if (!run_ask_wanted(run))
        return run_next(run);
    if (run->left)
        return error_set(err, ERROR_DENIED, 0, "the caller left before a person was asked");
    bool plain = run->probed.plain;
    run_probed_done(&run->probed); /* of an earlier look */
    run->probed.plain = plain;
    bool has_command = !run->spec.builtin && !run->box.tool_net;
    if (run->one_shot || (!has_command && !written_path(run)))
        return run_next(run);
    if (run_wait_ready(run))
        return RUN_PROBE;
    return sandbox_state(run->sandbox) == SANDBOX_READY ? start_probe(run) : run_next(run);
}

int run_probe_leave(struct run *run, struct error *err)
{
    (void)err;
    if (!run->exec) /* it was the sandbox that was waited for */
        return RUN_PROBE;
    if (written_path(run))
        take_difference(run, run->exec);
    else
        take_pins(run, run->exec);
    if (run->probed.pins || !is_named_look(run))
        return run_next(run);
    run->probed.plain = true;
    return RUN_PROBE;
}

void run_probe_cancel(struct run *run)
{
    run_cancel_ready(run);
    run_cancel_exec(run);
}
