#include "api/run-reply.h"

#include <signal.h>
#include <stdlib.h>

#include "api/request.h"
#include "api/stream.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "tool/run.h"

struct run_call {
    struct api_request *req; /* NULL once answered */
    struct run *run;         /* NULL once done */
    enum run_mode mode;
    bool one_shot;
    bool done;   /* on_done came */
    int waiting; /* answers that wait for a row, and the open stream */
    json_t *(*view)(struct exec *e, size_t max_output);
    size_t max_output;
};

static void call_release(struct run_call *c)
{
    if (c->done && !c->waiting)
        free(c);
}

/* The client left: nobody will see how a one-shot ends, and what waits for a person never runs. */
static void client_left(struct run_call *c)
{
    if (!c->run)
        return;
    if (c->one_shot)
        run_abandon(c->run);
    else if (!run_leave(c->run))
        return;
    c->run = NULL;
    c->done = true;
}

static void on_abort(struct api_request *req)
{
    struct run_call *c = req->state;
    c->req = NULL;
    client_left(c);
    call_release(c);
}

static void on_stream_end(void *data, bool left)
{
    struct run_call *c = data;
    if (left)
        client_left(c);
    c->waiting--;
    call_release(c);
}

struct row_wait {
    struct run_call *call;
    struct exec *exec;
};

/* The exec's id is given out once it is on record. */
static void on_recorded(void *data, const struct error *err)
{
    struct row_wait *w = data;
    struct run_call *c = w->call;
    struct api_request *req = c->req;
    c->req = NULL;
    fault_point("exec.recorded");
    if (err) /* nobody will be able to ask for it */
        exec_signal(w->exec, SIGKILL, NULL);
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, c->view(w->exec, c->max_output));
    exec_unref(w->exec);
    free(w);
    c->waiting--;
    call_release(c);
}

static void answer_started(struct run_call *c, struct exec *e)
{
    struct row_wait *w = new0(struct row_wait);
    *w = (struct row_wait){c, exec_ref(e)};
    c->waiting++;
    exec_persist(e, on_recorded, w);
}

static void on_started(void *data, struct run *run, struct exec *e)
{
    struct run_call *c = data;
    struct api_request *req = c->req;
    c->run = run;
    if (c->mode == RUN_SYNC || !req)
        return;
    if (c->mode == RUN_ASYNC) {
        answer_started(c, e);
        return;
    }
    c->req = NULL;
    c->waiting++;
    exec_keep(e); /* its events name it */
    struct stream_query q = {.kind = stream_kind_wanted(req->http), .follow = true};
    stream_open(api_take(req), e, &q, on_stream_end, c);
}

static void on_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    struct run_call *c = data;
    struct api_request *req = c->req;
    (void)run;
    c->done = true;
    c->run = NULL;
    if (req && !c->waiting) {
        c->req = NULL;
        if (err)
            api_fail(req, err);
        else
            api_reply(req, 200, c->view(e, c->max_output));
    }
    call_release(c);
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
    api_fail(req, &err);
    free(c);
}

/* --- canceling */

struct cancel_call {
    struct api_request *req; /* NULL: the client left */
    struct exec *exec;       /* referenced */
    json_t *(*view)(const struct exec *e);
};

static void on_cancel_abort(struct api_request *req)
{
    struct cancel_call *c = req->state;
    c->req = NULL;
}

/* Without a record it is canceled all the same. */
static void on_cancel_recorded(void *data, const struct error *err)
{
    struct cancel_call *c = data;
    (void)err;
    if (c->req) {
        c->req->on_abort = NULL;
        api_reply(c->req, 200, c->view(c->exec));
    }
    exec_unref(c->exec);
    free(c);
}

void cancel_reply(struct api_request *req, struct exec *e, json_t *(*view)(const struct exec *e))
{
    struct error err = {0};
    if (run_record_act(exec_sandbox(e), e, req->who, "cancel", NULL, &err) < 0 ||
        exec_cancel(e, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    struct cancel_call *c = new0(struct cancel_call);
    *c = (struct cancel_call){req, exec_ref(e), view};
    req->state = c;
    req->on_abort = on_cancel_abort;
    exec_record(e, on_cancel_recorded, c);
}
