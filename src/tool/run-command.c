/* SPDX-License-Identifier: Apache-2.0 */
/* The last phases: the intent is put on record, files that come with the command are written one by
 * one, and the command is started. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/json-format.h"
#include "base/strbuf.h"
#include "tool/builtin.h"
#include "tool/run-internal.h"

#define DETAILS_MAX 65536

/* --- the intent */

/* Written, not only queued, before the run goes on: there is no call without a record. */
int run_intent_enter(struct run *run, struct error *err)
{
    run->call.put_parts = run_put_parts;
    int r = gate_intent(run->gate, &run->call, &run->decision, run->grant, err);
    if (r < 0)
        return r;
    fault_point("run.intent");
    return run_next(run);
}

/* From its start on the end of a call is its command's. */
static bool is_intent_open(const struct run *run)
{
    return run->phase > RUN_INTENT && !(run->phase == RUN_COMMAND && run->exec);
}

void run_intent_end(struct run *run, const char *outcome, const char *why)
{
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    if (!is_intent_open(run))
        return;
    if (why) {
        struct json_text t = json_text_begin(&details, '{');
        json_text_bytes(&t, "error", why, strlen(why));
        json_text_end(&t, '}');
    }
    gate_note_ended(run->gate, run->decision.call_id,
                    run->sandbox ? sandbox_id(run->sandbox) : NULL, NULL, outcome, details.data);
}

/* --- files */

static bool start_file(struct run *run, const struct run_file *f, struct error *err)
{
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
        spec.n_paths = run_resolve_places(run, run->next_file, places);
        spec.paths = places;
        spec.narrow = true;
    }
    if (!run_wait_exec(run, &spec, err))
        return false;
    if (f->len == 0)
        exec_close_stdin(run->exec, NULL);
    return true;
}

int run_files_enter(struct run *run, struct error *err)
{
    if (run->next_file == run->n_files)
        return run_next(run);
    return start_file(run, &run->files[run->next_file], err) ? RUN_FILES : -1;
}

/* One file at a time. Between two files the policy may change and the key may end, so each of them
 * is confirmed as the command is. */
int run_files_leave(struct run *run, struct error *err)
{
    int r = builtin_check(run->exec, err);
    if (r < 0)
        error_prefix(err, "cannot write file '%s'", run->files[run->next_file].path);
    else
        r = run_confirm(run, err);
    run->next_file++;
    return r < 0 ? r : RUN_FILES;
}

/* --- the command */

/* The run may have been abandoned from inside on_started. */
int run_command_enter(struct run *run, struct error *err)
{
    run->spec.call = run->decision.call_id;
    fault_point("run.before-start");
    bool started = run_wait_exec(run, &run->spec, err);
    fault_point("run.start-sent");
    if (!started)
        return -1;
    if (run->events->on_started)
        run->events->on_started(run->data, run, run->exec);
    return RUN_COMMAND;
}
