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
    pod_send(in, order, on_pod_claimed);
}

static struct kube_order *claim_new(struct runtime_instance *in, struct error *err)
{
    _cleanup_free_ struct kube_order *order = new0(struct kube_order);
    if (pod_record_fill(order, in->events, in->data, "", err) < 0)
        return NULL;
    order->op = KUBE_CLAIM;
    order->generation = in->generation;
    order->state = KUBE_STATE_SAME;
    order->last_exec_s = 0;
    snprintf(order->id, sizeof(order->id), "%s", in->id);
    pod_record_sum(order, in->written);
    return steal_ptr(order);
}

/* A mark that is under way would put what it says over the claim. */
int pod_claim(struct runtime_instance *in, void (*cb)(void *data, const struct error *err),
              void *data, struct error *err)
{
    struct kube_order *order = claim_new(in, err);
    if (!order)
        return -1;
    loop_timer_stop(&in->mark);
    in->on_claimed = cb;
    in->claim_data = data;
    in->claim = order;
    if (!in->marking)
        pod_send_claim(in);
    return 0;
}

/* --- one that an earlier control plane gave to a caller, and died before its pod said so */

static void on_own_claimed(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in || in->step != POD_CLAIMING)
        return;
    if (!reply->error) {
        in->unclaimed = false;
        pod_go_on(in);
    } else if (reply->error == ERROR_CONFLICT) {
        pod_leave(in, reply->message);
    } else {
        pod_wait_then(in, pod_note_problem(in, reply->message), pod_claim_own);
    }
}

/* No command runs before its pod says whose it is: a control plane that has lost its disk would
 * give the pod to another caller, with all that the first one left in it. */
void pod_claim_own(void *data)
{
    struct runtime_instance *in = data;
    struct error err = {0};
    if (in->step != POD_CLAIMING)
        return;
    _cleanup_free_ struct kube_order *order = claim_new(in, &err);
    if (order)
        pod_send(in, order, on_own_claimed);
    else
        pod_fail_start(in, err.code, err.message);
}
