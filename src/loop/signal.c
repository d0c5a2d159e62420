/* SPDX-License-Identifier: Apache-2.0 */
/* loop_signal: signals as loop callbacks. */
#include "loop/loop.h"

#include <assert.h>

static void on_signal(uv_signal_t *handle, int signo)
{
    struct loop_signal *s = handle->data;
    s->cb(s->data, signo);
}

int loop_signal_init(struct loop_signal *s, uv_loop_t *loop, int signo, void (*cb)(void *, int),
                     void *data)
{
    *s = (struct loop_signal){.cb = cb, .data = data};
    int r = uv_signal_init(loop, &s->handle);
    if (r < 0)
        return r;
    s->handle.data = s;
    r = uv_signal_start(&s->handle, on_signal, signo);
    assert(r == 0); /* only a signal that cannot be caught fails here */
    uv_unref((uv_handle_t *)&s->handle);
    return 0;
}

static void on_signal_closed(uv_handle_t *handle)
{
    struct loop_signal *s = handle->data;
    if (s->on_closed)
        s->on_closed(s->closed_data);
}

void loop_signal_close(struct loop_signal *s, void (*on_closed)(void *), void *data)
{
    s->on_closed = on_closed;
    s->closed_data = data;
    uv_close((uv_handle_t *)&s->handle, on_signal_closed);
}
