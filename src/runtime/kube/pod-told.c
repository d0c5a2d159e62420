/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster tells of a pod (runtime/kube/instance.h). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"

/* Reasons that waiting does not mend. */
static bool is_hopeless(const char *reason)
{
    static const char *const reasons[] = {"ImagePullBackOff",     "InvalidImageName",
                                          "ErrImageNeverPull",    "CreateContainerConfigError",
                                          "CreateContainerError", "RunContainerError",
                                          "CrashLoopBackOff"};
    for (size_t i = 0; i < ELEMENTS(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

/* A pod that another deletes says so before it ends, and what its containers ended with is
 * then no reason. A reason is there where the cluster itself wanted the room or the node. */
static void keep_deletion(struct runtime_instance *in, const struct kube_reply *told)
{
    if (told->phase == KUBE_POD_ENDING && !in->deleted[0])
        snprintf(in->deleted, sizeof(in->deleted), "was deleted, not by this daemon%s%s",
                 told->reason[0] ? ": " : "", told->reason);
}

static void on_pod_end(struct runtime_instance *in)
{
    char why[480];
    bool gone = in->told.phase == KUBE_POD_NONE;
    struct runtime_end end = {.why = why, .oom_kills = strcmp(in->told.reason, "OOMKilled") == 0};
    if (in->deleted[0])
        snprintf(why, sizeof(why), "its pod %s", in->deleted);
    else
        pod_format_reason(&in->told, gone ? "is gone from the cluster" : "has ended", why,
                          sizeof(why));
    if (in->on_claimed) {
        struct error err = {0};
        error_set(&err, ERROR_NOT_FOUND, 0, "%s", why);
        pod_lose_claim(in, &err);
        return;
    }
    if (!in->started) {
        pod_fail_start(in, ERROR_CRASH, why);
        return;
    }
    bool waits = in->stopping;
    pod_begin_delete(in);
    if (!waits)
        pod_tell_end(in, &end);
}

/* A pod vanished without having been deleted: it may be there, without the labels that make it
 * ours. Whatever the answer is, there is no sandbox any more. */
static void on_pod_missed(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    if (reply->error == ERROR_CONFLICT)
        snprintf(in->deleted, sizeof(in->deleted),
                 "does not carry this daemon's labels any more: they were changed");
    on_pod_end(in);
}

/* One that was made ahead is the other control plane's by then, or not any more: it is found anew
 * once the home is this one's again. Of a claim, or a create, that is under way, the broker says
 * what became of it. */
static void on_home_lost(struct runtime_instance *in)
{
    static const char why[] = "another control plane has the home that it was made ahead for";
    if (!in->ahead || in->on_claimed || in->step == POD_MAKING || in->step == POD_DELETING)
        return;
    error_set(&in->failure, ERROR_CONFLICT, 0, "%s", why);
    in->events->on_removed(in->data, true);
    pod_tell_end(in, &(struct runtime_end){.why = why});
    instance_free(in);
}

/* A pod that is being deleted may still end with a reason, and has no other end than that. No
 * caller is given one that was made ahead. */
void pod_on_told(void *data, const struct kube_reply *told)
{
    struct runtime_instance *in = data;
    bool listed = told->kind == KUBE_LISTED;
    char why[480];
    if (told->kind == KUBE_HELD) {
        on_home_lost(in);
        return;
    }
    if (in->step == POD_DELETING || (in->uid[0] && told->uid[0] && strcmp(in->uid, told->uid)))
        return; /* of another pod: an earlier sandbox may have had the id */
    if (in->step == POD_MAKING) {
        if (!listed)
            in->told = *told;
        return;
    }
    bool gone = told->phase == KUBE_POD_NONE;
    bool unwanted = told->phase == KUBE_POD_ENDING && in->ahead && !in->on_claimed;
    if (in->step == POD_FINDING && listed)
        snprintf(in->uid, sizeof(in->uid), "%s", told->uid);
    if (!(gone && !told->reason[0])) /* what was last known of it is why */
        in->told = *told;
    in->told.phase = told->phase;
    if (in->step == POD_FINDING && listed && !gone) {
        /* One that is being deleted has only its end to wait for. */
        in->step = told->phase == KUBE_POD_ENDING ? POD_STARTING : POD_READING;
        if (in->step == POD_READING)
            pod_read(in);
    }
    if (in->step == POD_FINDING && !listed)
        return; /* it may be news that was meant for the control plane before this one */
    keep_deletion(in, told);
    if (gone && !in->deleted[0] && !in->told.reason[0]) {
        pod_ask(in, KUBE_READ, on_pod_missed);
    } else if (gone || unwanted || told->phase == KUBE_POD_ENDED) {
        on_pod_end(in);
    } else if (in->step == POD_STARTING && told->phase == KUBE_POD_RUNNING) {
        in->step = POD_CONNECTING;
        pod_connect(in);
    } else if (in->step == POD_STARTING && is_hopeless(told->reason) && !pod_waits_ahead(in)) {
        pod_format_reason(told, "does not start", why, sizeof(why));
        pod_fail_start(in, ERROR_UNAVAILABLE, why);
    }
}
