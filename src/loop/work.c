/* SPDX-License-Identifier: Apache-2.0 */
/* loop_work: blocking work as plain values on libuv's pool; loop_defer: a call from the loop. */
#include "loop/loop.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

struct work {
    uv_work_t req;
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
};

static void on_work(uv_work_t *req)
{
    struct work *w = req->data;
    w->work(w->data);
}

static void on_work_done(uv_work_t *req, int status)
{
    struct work *w = req->data;
    (void)status; /* nothing here cancels, so it always ran */
    void (*done)(void *) = w->done;
    void *data = w->data;
    free(w);
    if (done)
        done(data);
}

void loop_work(uv_loop_t *loop, void (*work)(void *data), void (*done)(void *data), void *data)
{
    struct work *w = new0(struct work);
    w->work = work;
    w->done = done;
    w->data = data;
    w->req.data = w;
    int r = uv_queue_work(loop, &w->req, on_work, on_work_done);
    assert(r == 0);
    (void)r;
}

struct deferred {
    uv_idle_t handle;
    void (*cb)(void *data);
    void *data;
};

static void on_deferred_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* An idle handle, not a timer of 0 ms: libuv runs timers that are due until none is left, so one
 * that starts another would never let the loop poll. */
static void on_deferred(uv_idle_t *handle)
{
    struct deferred *d = handle->data;
    uv_idle_stop(handle);
    uv_close((uv_handle_t *)handle, on_deferred_closed);
    d->cb(d->data);
}

void loop_defer(uv_loop_t *loop, void (*cb)(void *data), void *data)
{
    struct deferred *d = new0(struct deferred);
    d->cb = cb;
    d->data = data;
    uv_idle_init(loop, &d->handle);
    d->handle.data = d;
    uv_idle_start(&d->handle, on_deferred);
}
