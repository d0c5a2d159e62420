/* SPDX-License-Identifier: Apache-2.0 */
/* loop_timer: libuv's timers are a heap in the loop, so thousands cost no system call each. */
#include "loop/loop.h"

#include <assert.h>

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = handle->data;
    t->cb(t->data);
}

void loop_timer_init(struct loop_timer *t, uv_loop_t *loop, void (*cb)(void *), void *data)
{
    *t = (struct loop_timer){.cb = cb, .data = data};
    uv_timer_init(loop, &t->handle);
    t->handle.data = t;
}

void loop_timer_start(struct loop_timer *t, uint64_t ms)
{
    int r = uv_timer_start(&t->handle, on_timer, ms, 0);
    assert(r == 0);
    (void)r;
}

void loop_timer_start_every(struct loop_timer *t, uint64_t ms)
{
    if (ms == 0)
        ms = 1;
    int r = uv_timer_start(&t->handle, on_timer, ms, ms);
    assert(r == 0);
    (void)r;
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->handle);
}

bool loop_timer_active(const struct loop_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->handle) != 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct loop_timer *t = handle->data;
    if (t->on_closed)
        t->on_closed(t->closed_data);
}

void loop_timer_close(struct loop_timer *t, void (*on_closed)(void *), void *data)
{
    t->on_closed = on_closed;
    t->closed_data = data;
    uv_close((uv_handle_t *)&t->handle, on_timer_closed);
}
