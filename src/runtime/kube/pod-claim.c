/* SPDX-License-Identifier: Apache-2.0 */
/* A pod that was made ahead becomes a caller's. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"

void pod_lose_claim(struct runtime_instance *in, const struct error *err)
{
    void (*cb)(void *data, const struct error *err) = steal_ptr(in->on_claimed);
    void *claimer = in->claim_data;
    if (err->code == ERROR_CONFLICT)
        cluster_leave_pod(in->cluster, in->id, err->message);
    else
        cluster_discard(in->cluster, in->id);
    in->events->on_removed(in->data, true);
    in->left = true;
    instance_free(in);
    cb(claimer, err);
}

/* Any other failure says nothing about whose it is: the sandbox gives it up, and it is
 * deleted. */
static void on_pod_claimed(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    struct error err = {0};
    fd_close(&fd);
    if (!in)
        return;
    if (reply->error)
        error_set(&err, reply->error, 0, "%s", reply->message);
    if (reply->error == ERROR_CONFLICT || reply->error == ERROR_NOT_FOUND ||
        reply->error == ERROR_FORBIDDEN) {
        pod_lose_claim(in, &err);
        return;
    }
    void (*cb)(void *data, const struct error *err) = steal_ptr(in->on_claimed);
    if (!reply->error) {
        in->ahead = false;
        in->state = KUBE_STATE_SAME; /* its namespace says the old one */
        pod_note(in);
    }
    cb(in->claim_data, reply->error ? &err : NULL);
}

void pod_send_claim(struct runtime_instance *in)
{
    _cleanup_free_ struct kube_order *order = steal_ptr(in->claim);
    cluster_send(in->cluster, order, on_pod_claimed, weak_ref(&in->weak, in));
}

/* A mark that is under way would put what it says over the claim. */
int pod_claim(struct runtime_instance *in, void (*cb)(void *data, const struct error *err),
              void *data, struct error *err)
{
    _cleanup_free_ struct kube_order *order = new0(struct kube_order);
    if (pod_record_fill(order, in->events, in->data, "", err) < 0)
        return -1;
    order->op = KUBE_CLAIM;
    order->generation = in->generation;
    order->state = KUBE_STATE_SAME;
    order->last_exec_s = 0;
    snprintf(order->id, sizeof(order->id), "%s", in->id);
    pod_record_sum(order, in->written);
    loop_timer_stop(&in->mark);
    in->on_claimed = cb;
    in->claim_data = data;
    in->claim = steal_ptr(order);
    if (!in->marking)
        pod_send_claim(in);
    return 0;
}
