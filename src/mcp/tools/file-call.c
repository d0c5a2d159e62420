/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools/file-call.h"

#include "api/api.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "mcp/tools/person.h"
#include "mcp/tools/result.h"
#include "mcp/tools/workspace.h"
#include "tool/builtin.h"

#define ERROR_TEXT_MAX 4096

struct running {
    struct file_call c; /* c.call is NULL once answered */
    struct run *run;
    struct exec *exec;     /* referenced */
    struct person *person; /* while one is asked */
    bool empty_input;
    struct strbuf out, errors; /* of bytes out */
};

static void running_free(struct running *f)
{
    exec_unref(f->exec);
    strbuf_done(&f->out);
    strbuf_done(&f->errors);
    free(f);
}

/* Bytes over the limit are let go: the operation was asked for no more than that. */
static void on_output(void *data, uint8_t stream, const char *bytes, size_t len)
{
    struct running *f = data;
    strbuf_append(stream == OUTPUT_STDOUT ? &f->out : &f->errors, bytes, len);
    if (f->exec)
        exec_sink_done(f->exec, stream, len);
}

static void on_cancel(struct mcp_call *call)
{
    struct running *f = mcp_call_state(call);
    if (f->exec) {
        exec_cancel(f->exec, NULL);
        return;
    }
    run_abandon(f->run);
    person_end(f->person);
    running_free(f);
    mcp_call_finish_text(call, true, "cancelled before it started");
}

static void on_give_up(void *data)
{
    struct running *f = data;
    run_abandon(f->run);
    person_finish_pending(f->person);
    running_free(f);
}

static void on_asked(void *data, struct run *run, struct approval *a)
{
    struct running *f = data;
    f->run = run;
    f->person = person_new(f->c.call, a, on_give_up, f);
}

static void on_started(void *data, struct run *run, struct exec *e)
{
    struct running *f = data;
    person_end(steal_ptr(f->person));
    f->run = run;
    f->exec = exec_ref(e);
    if (f->empty_input)
        exec_close_stdin(e, NULL);
}

static void file_call_fail(const struct file_call *c, const struct error *err, const char *advice)
{
    if (c->fail)
        c->fail(c->call, err, advice);
    else
        result_fail(c->call, err, advice);
}

static void file_call_finish(struct running *f, struct exec *e)
{
    struct error err = {0};
    json_t *answer = NULL;
    if (f->c.finish_bytes)
        builtin_check_text(e, f->errors.data, f->errors.len, &err);
    else if (f->c.finish)
        answer = file_op_answer(e, &err);
    if (error_is_set(&err))
        file_call_fail(&f->c, &err, f->c.advise ? f->c.advise(err.code) : NULL);
    else if (f->c.finish_bytes)
        f->c.finish_bytes(&f->c, &f->out);
    else
        f->c.finish(&f->c, answer);
    json_decref(answer);
}

static void on_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    struct running *f = data;
    (void)run;
    person_end(steal_ptr(f->person));
    if (err)
        file_call_fail(&f->c, err, NULL);
    else
        file_call_finish(f, e);
    running_free(f);
}

void file_call_start(const struct file_call *c, struct file_op op, const char *input,
                     size_t input_len)
{
    static const struct run_events events = {on_started, on_done, on_asked};
    struct mcp_call *call = c->call;
    struct error err = {0};
    struct sandbox *sb = c->sandbox ? c->sandbox : workspace_sandbox(call, &err);
    if (!sb) {
        file_call_fail(c, &err, NULL);
        return;
    }
    struct running *f = new0(struct running);
    f->c = *c;
    f->empty_input = input && !input_len;
    strbuf_init(&f->out, c->max_bytes);
    strbuf_init(&f->errors, ERROR_TEXT_MAX);
    mcp_call_set_state(call, f);
    mcp_call_on_cancel(call, on_cancel);
    struct exec_sink sink = {on_output, f};
    struct run_request run =
        file_op_request(&op, &mcp_call_services(call)->tool, mcp_call_identity(call), sb);
    struct gate_terms terms = person_terms(call);
    run.terms = &terms;
    run.exec.stdin_data = input;
    run.exec.stdin_len = input_len;
    run.exec.open_stdin = f->empty_input;
    run.exec.timeout_ms = mcp_call_config(call)->command_timeout_ms;
    run.exec.sink = c->finish_bytes ? &sink : NULL;
    f->run = run_start(&run, &events, f, &err);
    if (f->run)
        return;
    running_free(f);
    file_call_fail(c, &err, NULL);
}
