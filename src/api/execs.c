/* SPDX-License-Identifier: Apache-2.0 */
/* Native commands: one-shot runs, execs in a sandbox, and steering them. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/run-reply.h"
#include "api/signal-name.h"
#include "api/spec-json.h"
#include "api/stream.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "tool/run.h"

static bool wants_stream(const struct api_request *req, const struct exec_json *x)
{
    const char *accept = req->http ? http_request_header(req->http, "Accept") : NULL;
    return x->stream || (accept && (strstr(accept, "application/x-ndjson") ||
                                    strstr(accept, "text/event-stream")));
}

/* It is of the output that an answer holds; events are passed on as they come. */
static int check_output_limit(const struct exec_json *x, enum run_mode mode, struct error *err)
{
    if (mode == RUN_SYNC || !x->limits_output)
        return 0;
    return error_field(err, "max_output_bytes",
                       mode == RUN_ASYNC ? "'max_output_bytes' and 'async' exclude each other"
                                         : "an answer that is a stream has no 'max_output_bytes'");
}

int handle_run(struct api_request *req)
{
    _cleanup_exec_json_ struct exec_json x = {0};
    _cleanup_spec_ struct spec spec = {0};
    int r = exec_json_parse(req->body, req->services, &x, req->err);
    if (r < 0)
        return r;
    if (x.spec.open_stdin)
        return error_field(req->err, "open_stdin", "'open_stdin' needs a sandbox of its own");
    r = spec_json_parse(req->body, req->services, &spec, req->err);
    if (r < 0)
        return r;
    bool stream = wants_stream(req, &x);
    if (stream && req->idempotency)
        return error_set(req->err, ERROR_INVALID, 0, "a stream cannot have an Idempotency-Key");
    r = check_output_limit(&x, stream ? RUN_STREAM : RUN_SYNC, req->err);
    if (r < 0)
        return r;
    struct run_request run = exec_json_request(&x, req->services, req->who);
    run.spec = &spec;
    run_reply(req, &run, stream ? RUN_STREAM : RUN_SYNC, view_result, x.max_output_bytes);
    return 0;
}

static json_t *view_async(struct exec *e, size_t max_output)
{
    (void)max_output;
    return json_pack("{s:s, s:s, s:s}", "exec_id", exec_id(e), "status", "running", "sandbox_id",
                     sandbox_id(exec_sandbox(e)));
}

int handle_exec(struct api_request *req)
{
    _cleanup_exec_json_ struct exec_json x = {0};
    bool async = false;
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    int r = json_member_bool(req->body, "async", &async, req->err);
    if (r < 0)
        return r;
    r = exec_json_parse(req->body, req->services, &x, req->err);
    if (r < 0)
        return r;
    if ((x.spec.open_stdin || x.spec.pty) && !async)
        return error_field(req->err, "async", "'open_stdin' and 'pty' need 'async': true");
    if (x.stream && async)
        return error_field(req->err, "stream", "'stream' and 'async' exclude each other");
    enum run_mode mode = async ? RUN_ASYNC : wants_stream(req, &x) ? RUN_STREAM : RUN_SYNC;
    r = check_output_limit(&x, mode, req->err);
    if (r < 0)
        return r;
    struct run_request run = exec_json_request(&x, req->services, req->who);
    run.sandbox = sb;
    run_reply(req, &run, mode, async ? view_async : view_result, x.max_output_bytes);
    return 0;
}

int handle_exec_list(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    size_t max = req->services->config.max_exec_list;
    struct exec **found = xcalloc(max + 1, sizeof(struct exec *));
    size_t n = exec_list(sb, found, max + 1);
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < max; i++)
        json_array_append_new(list, view_exec(found[i]));
    free(found);
    json_t *answer = json_pack("{s:o}", "execs", list);
    if (n > max)
        json_object_set_new(answer, "truncated", json_true());
    api_reply(req, 200, answer);
    return 0;
}

static struct exec *find_exec(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    return sb ? api_find_exec(req, sb) : NULL;
}

int handle_exec_get(struct api_request *req)
{
    struct exec *e = find_exec(req);
    if (e)
        api_reply(req, 200, view_exec(e));
    return 0;
}

int handle_exec_logs(struct api_request *req)
{
    struct exec *e = find_exec(req);
    if (!e)
        return 0;
    struct stream_query q;
    if (stream_query_parse(req, &q, req->err) < 0)
        return -1;
    q.follow = api_query_switch(req, "follow");
    stream_open(req, e, &q, NULL, NULL);
    return 0;
}

/* Answers with the exec's state, or with why not. */
static void reply_steered(struct api_request *req, struct exec *e, int r, const struct error *err)
{
    if (r < 0)
        api_fail(req, err);
    else
        api_reply(req, 200, view_exec(e));
}

int handle_exec_signal(struct api_request *req)
{
    int signo = 0;
    struct exec *e = find_exec(req);
    if (!e)
        return 0;
    int r = signal_parse(json_object_get(req->body, "signal"), &signo, req->err);
    if (r < 0)
        return r;
    r = run_record_steer(req->services->audit, e, req->who, "signal",
                         json_pack("{s:i}", "signal", signo), req->err);
    if (r < 0)
        return r;
    r = exec_signal(e, signo, req->err);
    reply_steered(req, e, r, req->err);
    return 0;
}

int handle_exec_resize(struct api_request *req)
{
    int64_t rows = 0, cols = 0;
    struct exec *e = find_exec(req);
    if (!e)
        return 0;
    int r = json_member_int(req->body, "rows", 1, 10000, &rows, req->err);
    if (r < 0)
        return r;
    r = json_member_int(req->body, "cols", 1, 10000, &cols, req->err);
    if (r < 0)
        return r;
    if (!rows || !cols)
        return error_field(req->err, rows ? "cols" : "rows", "'rows' and 'cols' are needed");
    r = run_record_steer(
        req->services->audit, e, req->who, "resize",
        json_pack("{s:I, s:I}", "rows", (json_int_t)rows, "cols", (json_int_t)cols), req->err);
    if (r < 0)
        return r;
    r = exec_resize(e, (uint16_t)rows, (uint16_t)cols, req->err);
    reply_steered(req, e, r, req->err);
    return 0;
}

int handle_exec_cancel(struct api_request *req)
{
    struct exec *e = find_exec(req);
    if (e)
        cancel_reply(req, e, view_exec);
    return 0;
}

/* --- stdin: the body as it comes, held back while the command does not read */

struct stdin_call {
    struct exec_drain drain;
    struct api_request *req;
    struct exec *exec;
    bool close, ended, failed;
    struct error err;
    struct identity who;
    struct audit *audit;
    struct audit_stream *input;
};

static void stdin_free(struct stdin_call *c)
{
    exec_unwatch_stdin(&c->drain);
    run_record_input(c->audit, c->exec, &c->who, c->input);
    exec_unref(c->exec);
    free(c);
}

static void on_stdin_abort(struct api_request *req)
{
    stdin_free(req->state);
}

static void finish_stdin(struct stdin_call *c)
{
    struct api_request *req = c->req;
    int r = c->failed ? -1 : 0;
    if (r >= 0 && c->close)
        r = exec_close_stdin(c->exec, &c->err);
    if (r < 0)
        api_fail(req, &c->err);
    else
        api_reply(req, 200, view_exec(c->exec));
    stdin_free(c);
}

static void on_stdin_drain(struct exec_drain *w)
{
    struct stdin_call *c = container_of(w, struct stdin_call, drain);
    if (!c->ended)
        http_request_resume(c->req->http);
}

static void on_stdin_chunk(struct http_request *http, const char *data, size_t len)
{
    struct api_request *req = http_request_data(http);
    if (!req)
        return; /* answered already */
    struct stdin_call *c = req->state;
    if (len == 0) {
        c->ended = true;
        finish_stdin(c);
        return;
    }
    if (!c->failed && exec_write(c->exec, data, len, &c->err) < 0)
        c->failed = true;
    else if (!c->failed)
        audit_stream_add(&c->input, data, len);
    if (!c->failed && exec_stdin_queued(c->exec) > 0)
        http_request_pause(http);
}

int handle_exec_stdin(struct api_request *req)
{
    struct exec *e = find_exec(req);
    if (!e)
        return 0;
    struct stdin_call *c = new0(struct stdin_call);
    c->req = req;
    c->exec = exec_ref(e);
    c->who = *req->who;
    c->audit = req->services->audit;
    c->close = api_query_switch(req, "close");
    req->state = c;
    req->on_abort = on_stdin_abort;
    c->drain.on_drain = on_stdin_drain;
    exec_watch_stdin(e, &c->drain);
    http_request_stream_body(req->http, on_stdin_chunk);
    return 0;
}
