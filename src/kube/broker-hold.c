/* SPDX-License-Identifier: Apache-2.0 */
/* One control plane at a time has a home (KUBE_HOLD, kube/lease.h). While another one has it,
 * nothing is written to the cluster, and what was being written is given up: a pod that is half
 * made is deleted by the control plane that has the home. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/lease.h"

struct giving_back {
    struct kube_broker *broker;
    struct kube_order order;
};

static bool order_writes(const struct kube_order *o)
{
    return o->op == KUBE_CREATE || o->op == KUBE_DELETE || o->op == KUBE_TAKE ||
           o->op == KUBE_MARK || o->op == KUBE_PROVE || o->op == KUBE_CLAIM;
}

bool hold_refuses(const struct kube_broker *b, const struct kube_order *o, struct error *err)
{
    if (!b->lease || !order_writes(o) || kube_lease_is_held(b->lease))
        return false;
    error_set(err, ERROR_UNAVAILABLE, 0, "this control plane does not have the Lease %s",
              kube_lease_name(b->lease));
    return true;
}

static void on_lease_change(void *data, bool other, const char *why)
{
    struct kube_broker *b = data;
    struct error err = {0};
    struct kube_reply r = {.kind = KUBE_HELD, .error = why ? ERROR_UNAVAILABLE : ERROR_NONE};
    snprintf(r.reason, sizeof(r.reason), "%s", other ? KUBE_REASON_OTHER : "");
    snprintf(r.message, sizeof(r.message), "%s", why ? why : "");
    if (why)
        log_warn("nothing is written to the cluster: %s", why);
    if (why)
        sweep_give_up(b);
    broker_send(b, &r, -1);
    list_for_each_safe(t, &b->tasks, struct broker_task, node) {
        if (!hold_refuses(b, &t->order, &err))
            continue;
        task_finish(t, &err);
        error_clear(&err);
    }
}

static void on_given_back(void *data)
{
    struct giving_back *g = data;
    struct kube_broker *b = g->broker;
    if (!b->freed)
        broker_answer_error(b, &g->order, &(struct error){0});
    free(g);
    broker_unref(b);
}

/* The home is the ceiling's, or the order would not have come here. */
void hold_start(struct kube_broker *b, const struct kube_order *o)
{
    char name[2 * KUBE_NAME_SIZE];
    snprintf(name, sizeof(name), "%s.%s", b->o.ceiling->instance, o->home);
    if (!o->home[0] && b->lease) {
        struct giving_back *g = new0(struct giving_back);
        g->broker = b;
        g->order = *o;
        b->n_open++;
        sweep_give_up(b);
        kube_lease_release(steal_ptr(b->lease), on_given_back, g);
        return;
    }
    broker_answer_error(b, o, &(struct error){0});
    if (!o->home[0])
        return;
    if (b->lease) {
        kube_lease_tell(b->lease);
        return;
    }
    struct kube_lease_options options = {.client = b->o.client,
                                         .namespace_ = b->o.ceiling->lease_namespace,
                                         .name = name,
                                         .instance = b->o.ceiling->instance,
                                         .holder = b->o.holder,
                                         .on_change = on_lease_change,
                                         .data = b};
    b->lease = kube_lease_new(&options);
}
