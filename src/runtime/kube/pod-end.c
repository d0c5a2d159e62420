/* SPDX-License-Identifier: Apache-2.0 */
/* How the pod of a sandbox ends, or does not come to run in time (runtime/kube/instance.h). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"
#include "runtime/kube/walls.h"

#define LATE_AGAIN_MS   5000 /* one that is late already is not asked for in a hurry */
#define DELETE_AGAIN_MS 5000

static void pod_delete(void *data);

void pod_tell_end(struct runtime_instance *in, const struct runtime_end *end)
{
    if (in->left)
        return;
    in->left = true;
    if (in->started)
        in->events->on_exited(in->data, end);
    else
        in->events->on_started(in->data, -1, NULL, &in->failure);
}

/* Waiting, or the operator, may mend it. */
static bool may_be_mended(enum error_code code)
{
    return code == ERROR_TIMEOUT || code == ERROR_UNAVAILABLE || code == ERROR_LIMIT ||
           code == ERROR_INTERNAL || code == ERROR_FORBIDDEN;
}

/* The credential may have lost the right to delete: then the caller is not kept waiting until the
 * operator gives it back. */
static void on_pod_deleted(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = data;
    bool later = may_be_mended(reply->error);
    fd_close(&fd);
    if (reply->error)
        log_warn("a pod is not deleted%s id=%s: %s", later ? " yet" : "", in->id, reply->message);
    if (later && reply->error != ERROR_FORBIDDEN) {
        pod_wait_then(in, DELETE_AGAIN_MS, pod_delete);
        return;
    }
    error_set(&in->failure, ERROR_CONFLICT, 0, "it was deleted while it was created");
    if (reply->error == ERROR_CONFLICT && reply->generation > in->generation)
        cluster_leave_pod(in->cluster, in->id, reply->message);
    if (!later)
        in->events->on_removed(in->data, true);
    pod_tell_end(in, &(struct runtime_end){0});
    if (later)
        pod_wait_then(in, DELETE_AGAIN_MS, pod_delete);
    else
        instance_free(in);
}

static void pod_delete(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_DELETE, .generation = in->taken ? in->generation : 0};
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    snprintf(order.uid, sizeof(order.uid), "%s", in->uid);
    cluster_send(in->cluster, &order, on_pod_deleted, in);
}

void pod_begin_delete(struct runtime_instance *in)
{
    if (in->step == POD_DELETING || in->step == POD_MAKING)
        return;
    in->step = POD_DELETING;
    loop_timer_stop(&in->timer);
    loop_timer_stop(&in->late);
    loop_timer_stop(&in->mark);
    walls_cancel(steal_ptr(in->question));
    pod_stop_waiting(in);
    weak_clear(&in->weak);
    in->asked = false;
    pod_delete(in);
}

void pod_fail_start(struct runtime_instance *in, enum error_code code, const char *why)
{
    if (in->left || in->step == POD_DELETING)
        return;
    error_clear(&in->failure);
    error_set(&in->failure, code, 0, "%s", why);
    bool waits = in->stopping; /* then the deletion is what is waited for */
    if (in->step == POD_MAKING)
        in->step = POD_STARTING;
    pod_begin_delete(in);
    if (!waits)
        pod_tell_end(in, NULL);
}

void pod_format_reason(const struct kube_reply *r, const char *what, char *out, size_t size)
{
    snprintf(out, size, "its pod %s%s%s%s%.300s", what, r->reason[0] ? ": " : "", r->reason,
             r->message[0] ? ": " : "", r->message);
}

uint64_t pod_note_problem(struct runtime_instance *in, const char *why)
{
    snprintf(in->problem, sizeof(in->problem), "%.159s", why);
    return in->overdue ? LATE_AGAIN_MS : POD_TRY_AGAIN_MS;
}

/* An adopted pod holds a sandbox that its callers use. That it is not reached says nothing about
 * it: the cluster, the broker or the role may be what is in the way. So it is waited for, until it
 * is reached, its pod ends, or its sandbox is deleted. */
static void on_adoption_late(struct runtime_instance *in)
{
    in->overdue = true;
    log_warn("a pod is not taken over yet, and is waited for id=%s: %s", in->id,
             in->problem[0]                       ? in->problem
             : *cluster_why_not_held(in->cluster) ? cluster_why_not_held(in->cluster)
             : in->step == POD_FINDING            ? "the cluster has not listed its sandboxes"
                                                  : "its runner does not answer");
    loop_timer_start(&in->late, cluster_options(in->cluster)->start_ms);
}

/* A pod that was made ahead keeps no caller waiting. Where it is only not placed, or its image is
 * not there yet, another one in its stead would meet the same: so it is kept, until it starts or
 * its pool is not wanted any more. */
bool pod_waits_ahead(struct runtime_instance *in)
{
    bool unlisted = in->step == POD_FINDING;
    if (!in->ahead || (!unlisted && in->told.phase != KUBE_POD_PENDING))
        return false;
    char why[480];
    pod_format_reason(&in->told, unlisted ? "is not listed yet" : "does not start", why,
                      sizeof(why));
    cluster_note_waiting(in->cluster, in->id, why);
    return true;
}

void pod_on_late(void *data)
{
    struct runtime_instance *in = data;
    char why[480];
    if (in->step != POD_MAKING && pod_waits_ahead(in)) {
        loop_timer_start(&in->late, cluster_options(in->cluster)->start_ms);
        return;
    }
    if (in->adopted && !in->ahead) {
        on_adoption_late(in);
        return;
    }
    bool runs = in->told.phase == KUBE_POD_RUNNING;
    pod_format_reason(&in->told,
                      runs ? "runs, and its runner does not answer" : "did not start in time", why,
                      sizeof(why));
    if (runs && in->problem[0])
        snprintf(why, sizeof(why), "its pod runs, and cannot be used: %s", in->problem);
    in->stopping |= in->step == POD_MAKING;
    if (in->step == POD_MAKING) /* the create's answer is waited for, and then undone */
        error_set(&in->failure, ERROR_TIMEOUT, 0, "%s", why);
    else
        pod_fail_start(in, ERROR_TIMEOUT, why);
}
