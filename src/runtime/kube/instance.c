/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/instance.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/walls.h"

static void on_part_closed(void *data)
{
    struct runtime_instance *in = data;
    if (--in->n_open)
        return;
    spec_done(&in->spec);
    free(in);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct runtime_instance *in = h->data;
    in->closing = false;
    on_part_closed(in);
}

int pod_take_waiting(struct runtime_instance *in)
{
    if (in->fd < 0)
        return -1;
    uv_poll_stop(&in->poll);
    in->closing = true;
    in->n_open++;
    uv_close((uv_handle_t *)&in->poll, on_poll_closed);
    return fd_steal(&in->fd);
}

void pod_stop_waiting(struct runtime_instance *in)
{
    int fd = pod_take_waiting(in);
    fd_close(&fd);
}

void instance_free(struct runtime_instance *in)
{
    cluster_let_go(in->cluster, in->id, in);
    cluster_note_waiting(in->cluster, in->id, NULL);
    free(steal_ptr(in->claim));
    walls_cancel(steal_ptr(in->question));
    pod_stop_waiting(in);
    weak_clear(&in->weak);
    loop_timer_close(&in->timer, on_part_closed, in);
    loop_timer_close(&in->late, on_part_closed, in);
    loop_timer_close(&in->mark, on_part_closed, in);
}

void pod_send(struct runtime_instance *in, const struct kube_order *order, cluster_reply_fn cb)
{
    cluster_send_weak(in->cluster, order, cb, weak_ref(&in->weak, in));
}

void pod_ask(struct runtime_instance *in, enum kube_op op, cluster_reply_fn cb)
{
    struct kube_order order = {.op = op};
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    pod_send(in, &order, cb);
}

void pod_wait_then(struct runtime_instance *in, uint64_t ms, void (*go_on)(void *data))
{
    in->timer.cb = go_on;
    loop_timer_start(&in->timer, ms);
}

struct runtime_instance *instance_new(const struct runtime_ops *ops, struct runtime_host *host,
                                      const char *id, const struct spec *spec,
                                      const struct runtime_events *events, void *data)
{
    struct runtime_instance *in = new0(struct runtime_instance);
    const struct cluster_options *o = cluster_options(host->cluster);
    in->ops = ops;
    in->cluster = host->cluster;
    in->events = events;
    in->data = data;
    in->fd = -1;
    in->n_open = 3;
    in->generation = POD_FIRST_GENERATION;
    snprintf(in->id, sizeof(in->id), "%s", id);
    spec_copy(&in->spec, spec);
    loop_timer_init(&in->timer, o->loop, NULL, in);
    loop_timer_init(&in->late, o->loop, pod_on_late, in);
    loop_timer_init(&in->mark, o->loop, pod_mark, in);
    loop_timer_start(&in->late, o->start_ms);
    cluster_hold(in->cluster, in->id, pod_on_told, in);
    return in;
}
