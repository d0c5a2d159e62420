/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox: each operation is one of the runner's built-in tools, run as the tool user.
 *
 * Three shapes: an answer of JSON (list, stat, mkdir, ...), bytes in (write, tar upload) and, in
 * download.c, bytes out (read, tar download). Bytes go through without being kept: the runner's
 * window holds the sandbox back when the client is slow, and the connection is paused when the
 * sandbox is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "tool/builtin.h"
#include "tool/file-op.h"

struct run_request file_request(struct api_request *req, struct sandbox *sb,
                                const struct file_op *op)
{
    struct run_request run = file_op_request(op, &req->services->tool, req->who, sb);
    run.terms = &req->terms;
    return run;
}

const char *file_query_path(struct api_request *req)
{
    struct error err = {0};
    const char *path = http_request_query(req->http, "path");
    if (path && *path)
        return path;
    error_field(&err, "path", "'path' is missing in the query");
    api_fail(req, &err);
    return NULL;
}

/* --- answers of JSON */

struct json_call {
    struct api_request *req; /* NULL when the client left */
    struct run *run;
    bool has_answer;
};

/* What waits for a person never runs once its client has left. */
static void on_json_abort(struct api_request *req)
{
    struct json_call *c = req->state;
    c->req = NULL;
    if (run_leave(c->run))
        free(c);
}

static void on_json_done(void *data, struct run *run, struct exec *e, const struct error *run_err)
{
    struct json_call *c = data;
    struct api_request *req = c->req;
    bool has_answer = c->has_answer;
    struct error err = {0};
    json_t *answer = NULL;
    (void)run;
    free(c);
    if (!req)
        return;
    if (run_err)
        err = *run_err;
    else if (has_answer)
        answer = file_op_answer(e, &err);
    else if (builtin_check(e, &err) >= 0)
        answer = json_pack("{s:b}", "ok", 1);
    if (answer)
        api_reply(req, 200, answer);
    else
        api_fail(req, &err);
}

static void run_json(struct api_request *req, struct file_op op, bool has_answer)
{
    static const struct run_events events = {.on_done = on_json_done};
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return;
    struct json_call *c = new0(struct json_call);
    c->req = req;
    c->has_answer = has_answer;
    req->state = c;
    req->on_abort = on_json_abort;
    struct run_request run = file_request(req, sb, &op);
    c->run = run_start(&run, &events, c, &err);
    if (!c->run) {
        free(c);
        api_fail(req, &err);
    }
}

int handle_file_list(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (path)
        run_json(req, file_op_list(path, api_query_switch(req, "recursive")), true);
    return 0;
}

int handle_file_stat(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (path)
        run_json(req, file_op_stat(path), true);
    return 0;
}

int handle_file_remove(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (path)
        run_json(req, file_op_remove(path, api_query_switch(req, "recursive")), false);
    return 0;
}

int handle_file_mkdir(struct api_request *req)
{
    const char *path = NULL;
    bool parents = false;
    int r = json_member_string(req->body, "path", &path, req->err);
    if (r < 0)
        return r;
    r = json_member_bool(req->body, "parents", &parents, req->err);
    if (r < 0)
        return r;
    if (!path || !*path)
        return error_field(req->err, "path", "'path' is missing");
    run_json(req, file_op_mkdir(path, parents), false);
    return 0;
}

int handle_file_move(struct api_request *req)
{
    const char *from = NULL, *to = NULL;
    int r = json_member_string(req->body, "from", &from, req->err);
    if (r < 0)
        return r;
    r = json_member_string(req->body, "to", &to, req->err);
    if (r < 0)
        return r;
    if (!from || !to || !*from || !*to)
        return error_field(req->err, from ? "to" : "from", "'from' and 'to' are needed");
    run_json(req, file_op_move(from, to), false);
    return 0;
}

int handle_processes(struct api_request *req)
{
    run_json(req, file_op_processes(), true);
    return 0;
}

/* --- bytes in */

struct upload {
    struct exec_drain drain;
    struct api_request *req; /* NULL when the client left */
    struct exec *exec;
    struct run *waiting; /* for all of the body, before anything runs; or NULL */
    struct run *given;   /* one that has got it; or NULL */
    uint64_t received, max;
    bool ended; /* the whole body came */
    bool too_large;
};

static void upload_free(struct upload *u)
{
    exec_unwatch_stdin(&u->drain);
    exec_unref(u->exec);
    free(u);
}

static void on_upload_drain(struct exec_drain *w)
{
    struct upload *u = container_of(w, struct upload, drain);
    if (u->req && !u->ended)
        http_request_resume(u->req->http);
}

/* The client left in the middle: the tool is ended, so that half a file does not become one. What
 * waits for a person never runs. */
static void on_upload_abort(struct api_request *req)
{
    struct upload *u = req->state;
    u->req = NULL;
    if (u->waiting) {
        run_abandon(u->waiting);
        upload_free(u);
    } else if (u->given && run_leave(u->given)) {
        upload_free(u);
    } else if (u->exec && !u->ended) {
        exec_signal(u->exec, SIGKILL, NULL);
    }
}

static void on_upload_chunk(struct http_request *http, const char *data, size_t len)
{
    struct api_request *req = http_request_data(http);
    if (!req)
        return; /* answered already */
    struct upload *u = req->state;
    if (len == 0) {
        u->ended = true;
        exec_close_stdin(u->exec, NULL);
        return;
    }
    u->received += len;
    if (u->received > u->max && !u->too_large) {
        u->too_large = true;
        exec_signal(u->exec, SIGKILL, NULL);
    }
    /* A tool that has ended takes nothing more; its own error is the answer. */
    if (!u->too_large && exec_write(u->exec, data, len, NULL) >= 0 && exec_stdin_queued(u->exec))
        http_request_pause(http);
}

static void on_upload_started(void *data, struct run *run, struct exec *e)
{
    struct upload *u = data;
    (void)run;
    u->exec = exec_ref(e);
    if (u->ended)
        return; /* it has all of it */
    u->drain.on_drain = on_upload_drain;
    exec_watch_stdin(e, &u->drain);
    if (u->req)
        http_request_stream_body(u->req->http, on_upload_chunk);
    else
        exec_signal(e, SIGKILL, NULL); /* left before the sandbox was ready */
}

static void on_upload_done(void *data, struct run *run, struct exec *e, const struct error *run_err)
{
    struct upload *u = data;
    struct api_request *req = u->req;
    struct error err = {0};
    (void)run;
    if (run_err)
        err = *run_err;
    else if (u->too_large)
        error_set(&err, ERROR_TOO_LARGE, 0, "the upload is over %llu bytes (max_upload_bytes)",
                  (unsigned long long)u->max);
    else
        builtin_check(e, &err);
    upload_free(u);
    if (!req)
        return;
    if (error_is_set(&err))
        api_fail(req, &err);
    else
        api_reply(req, 200, json_pack("{s:b}", "ok", 1));
}

static void on_upload_whole(struct http_request *http, const char *body, size_t len)
{
    struct api_request *req = http_request_data(http);
    struct upload *u = req->state;
    u->ended = true;
    u->given = steal_ptr(u->waiting);
    run_set_input(u->given, body, len);
}

static void on_upload_not_whole(struct http_request *http)
{
    struct api_request *req = http_request_data(http);
    struct upload *u = req->state;
    struct error err = {0};
    run_abandon(u->waiting);
    upload_free(u);
    error_set(
        &err, ERROR_TOO_LARGE, 0,
        "the content of this upload has to be approved or compared with rules about paths, so it "
        "may have at most %zu bytes (max_body_bytes)",
        req->services->config.max_body_bytes);
    api_fail(req, &err);
}

/* The one that decides, a person or a rule about what is in an archive, needs all of it. */
static void on_upload_wanted(void *data, struct run *run)
{
    struct upload *u = data;
    if (!u->req) { /* left before the sandbox was ready */
        run_abandon(run);
        upload_free(u);
        return;
    }
    u->waiting = run;
    http_request_read_body(u->req->http, u->req->services->config.max_body_bytes, on_upload_whole,
                           on_upload_not_whole);
}

static void run_upload(struct api_request *req, struct file_op op)
{
    static const struct run_events events = {.on_started = on_upload_started,
                                             .on_done = on_upload_done,
                                             .on_input_wanted = on_upload_wanted};
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return;
    struct upload *u = new0(struct upload);
    u->req = req;
    u->max = req->services->config.max_upload_bytes;
    req->state = u;
    req->on_abort = on_upload_abort;
    struct run_request run = file_request(req, sb, &op);
    run.exec.open_stdin = true;
    if (!run_start(&run, &events, u, &err)) {
        upload_free(u);
        api_fail(req, &err);
    }
}

int handle_file_write(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (!path)
        return 0;
    const char *mode = http_request_query(req->http, "mode");
    if (file_op_check_mode(mode, req->err) < 0)
        return -1;
    run_upload(req, file_op_write(path, mode, api_query_switch(req, "append")));
    return 0;
}

int handle_tar_write(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (path)
        run_upload(req, file_op_tar_write(path));
    return 0;
}
