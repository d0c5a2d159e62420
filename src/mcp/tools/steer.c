/* SPDX-License-Identifier: Apache-2.0 */
/* send_input and stop_command: steering what start_command started. */
#include "api/api.h"
#include "api/signal-name.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"
#include "mcp/tools/workspace.h"
#include "tool/run.h"

#define NOT_KNOWN "exec_id comes from start_command."

void tool_send_input(struct mcp_call *call)
{
    struct error err = {0};
    const json_t *args = mcp_call_arguments(call), *text = json_object_get(args, "text");
    struct exec *e = workspace_exec(call, &err);
    if (!e) {
        result_fail(call, &err, NOT_KNOWN);
        return;
    }
    struct audit_stream *input = NULL;
    int r = exec_write(e, json_string_value(text), json_string_length(text), &err);
    if (r >= 0) {
        audit_stream_add(&input, json_string_value(text), json_string_length(text));
        run_record_input(mcp_call_services(call)->audit, e, mcp_call_identity(call), input);
    }
    if (r >= 0 && json_is_true(json_object_get(args, "close")))
        r = exec_close_stdin(e, &err);
    if (r < 0) {
        result_fail(call, &err,
                    err.code == ERROR_LIMIT
                        ? "The command does not read: call again when it has."
                        : "The command reads nothing more. read_output says how it is doing.");
        return;
    }
    json_t *o = result_of_exec(e);
    json_object_del(o, "started_at");
    json_object_set_new(o, "unread_bytes", json_integer((json_int_t)exec_stdin_queued(e)));
    result_finish(call, o, NULL);
}

/* --- stopping: answered when it has ended */

struct stop_call {
    struct mcp_call *call;
    struct exec_waiter done;
};

static void on_stopped(struct exec_waiter *w, struct exec *e)
{
    struct stop_call *c = container_of(w, struct stop_call, done);
    result_finish(c->call, result_of_exec(e), NULL);
    free(c);
}

static void on_cancel(struct mcp_call *call)
{
    struct stop_call *c = mcp_call_state(call);
    exec_waiter_cancel(&c->done);
    free(c);
    mcp_call_finish_text(call, true, "cancelled; the command is being stopped all the same");
}

static int send_signal(struct mcp_call *call, struct exec *e, struct error *err)
{
    int signo;
    int r = signal_parse(json_object_get(mcp_call_arguments(call), "signal"), &signo, err);
    if (r < 0)
        return r;
    r = run_record_steer(mcp_call_services(call)->audit, e, mcp_call_identity(call), "signal",
                         json_pack("{s:i}", "signal", signo), err);
    if (r < 0)
        return r;
    return exec_signal(e, signo, err);
}

void tool_stop_command(struct mcp_call *call)
{
    struct error err = {0};
    struct exec *e = workspace_exec(call, &err);
    if (!e) {
        result_fail(call, &err, NOT_KNOWN);
        return;
    }
    if (json_object_get(mcp_call_arguments(call), "signal")) {
        if (send_signal(call, e, &err) < 0)
            result_fail(call, &err, NULL);
        else
            result_finish(call, result_of_exec(e), NULL);
        return;
    }
    if (exec_status(e) == EXEC_RUNNING &&
        (run_record_steer(mcp_call_services(call)->audit, e, mcp_call_identity(call), "cancel",
                          NULL, &err) < 0 ||
         exec_cancel(e, &err) < 0)) {
        result_fail(call, &err, NULL);
        return;
    }
    struct stop_call *c = new0(struct stop_call);
    c->call = call;
    c->done.on_done = on_stopped;
    list_init(&c->done.node);
    mcp_call_set_state(call, c);
    mcp_call_on_cancel(call, on_cancel);
    exec_wait(e, &c->done);
}
