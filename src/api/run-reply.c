/* SPDX-License-Identifier: Apache-2.0 */
#include "api/run-reply.h"

#include <signal.h>
#include <stdlib.h>

#include "api/request.h"
#include "api/stream.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "base/weak.h"
#include "tool/run.h"

struct run_call {
    struct weak *weak;
    struct api_request *req; /* NULL once its answer is another's to give, or its client has left */
    struct run *run;
    enum run_mode mode;
    bool one_shot;
    json_t *(*view)(struct exec *e, size_t max_output);
    size_t max_output;
};

static void call_free(struct run_call *c)
{
    weak_clear(&c->weak);
    free(c);
}

/* A one-shot whose client has left ends, since its result would be lost, and a run that waits for a
 * person never starts. Any other run goes on to its end. */
static void call_leave(struct run_call *c)
{
    if (c->one_shot)
        run_abandon(c->run);
    else if (!run_leave(c->run))
        return;
    call_free(c);
}

static void on_abort(struct api_request *req)
{
    struct run_call *c = req->state;
    c->req = NULL;
    call_leave(c);
}

static void on_stream_end(void *data, bool left)
{
    struct run_call *c = weak_unref(data);
    if (c && left)
        call_leave(c);
}

/* The answer to a run that was started, which waits for its row. The run may end before. */
struct row_wait {
    struct api_request *req; /* NULL once its client has left */
    struct weak *call;
    struct exec *exec; /* referenced */
    json_t *(*view)(struct exec *e, size_t max_output);
    size_t max_output;
};

static void on_row_abort(struct api_request *req)
{
    struct row_wait *w = req->state;
    struct run_call *c = weak_get(w->call);
    w->req = NULL;
    if (c)
        call_leave(c);
}

/* The exec's id is given out once it is on record. */
static void on_recorded(void *data, const struct error *err)
{
    struct row_wait *w = data;
    struct api_request *req = w->req;
    weak_unref(w->call);
    fault_point("exec.recorded");
    if (err) /* no client could ask for it by its id */
        exec_signal(w->exec, SIGKILL, NULL);
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, w->view(w->exec, w->max_output));
    exec_unref(w->exec);
    free(w);
}

static void on_started(void *data, struct run *run, struct exec *e)
{
    struct run_call *c = data;
    c->run = run;
    if (c->mode == RUN_SYNC || !c->req)
        return;
    if (c->mode == RUN_ASYNC) {
        struct row_wait *w = new0(struct row_wait);
        *w = (struct row_wait){.req = steal_ptr(c->req),
                               .call = weak_ref(&c->weak, c),
                               .exec = exec_ref(e),
                               .view = c->view,
                               .max_output = c->max_output};
        w->req->state = w;
        w->req->on_abort = on_row_abort;
        exec_persist(e, on_recorded, w);
        return;
    }
    struct api_request *req = steal_ptr(c->req);
    exec_keep(e); /* its events name it */
    struct stream_query q = {.kind = stream_kind_wanted(req->http), .follow = true};
    stream_open(req, e, &q, on_stream_end, weak_ref(&c->weak, c));
}

static void on_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    struct run_call *c = data;
    (void)run;
    if (c->req && err)
        api_fail(c->req, err);
    else if (c->req)
        api_reply(c->req, 200, c->view(e, c->max_output));
    call_free(c);
}

void run_reply(struct api_request *req, const struct run_request *run, enum run_mode mode,
               json_t *(*view)(struct exec *e, size_t max_output), size_t max_output)
{
    static const struct run_events events = {on_started, on_done};
    struct error err = {0};
    struct run_call *c = new0(struct run_call);
    c->req = req;
    c->mode = mode;
    c->one_shot = !run->sandbox;
    c->view = view;
    c->max_output = max_output;
    req->state = c;
    req->on_abort = on_abort;
    struct run_request on_terms = *run;
    on_terms.terms = &req->terms;
    struct run *started = run_start(&on_terms, &events, c, &err);
    if (started) {
        c->run = started;
        return;
    }
    call_free(c);
    req->on_abort = NULL;
    api_fail(req, &err);
}

/* --- canceling */

struct cancel_call {
    struct weak *req;
    struct exec *exec; /* referenced */
    json_t *(*view)(const struct exec *e);
};

/* Without a record it is canceled all the same. */
static void on_cancel_recorded(void *data, const struct error *err)
{
    struct cancel_call *c = data;
    struct api_request *req = weak_unref(c->req);
    (void)err;
    if (req)
        api_reply(req, 200, c->view(c->exec));
    exec_unref(c->exec);
    free(c);
}

void cancel_reply(struct api_request *req, struct exec *e, json_t *(*view)(const struct exec *e))
{
    struct error err = {0};
    if (run_record_steer(req->services->audit, e, req->who, "cancel", NULL, &err) < 0 ||
        exec_cancel(e, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    struct cancel_call *c = new0(struct cancel_call);
    *c = (struct cancel_call){api_later(req), exec_ref(e), view};
    exec_record(e, on_cancel_recorded, c);
}
