/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod says of its sandbox, for the control plane that comes after this one: its state, its
 * owner and its record, written with its create and marked when they change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"
#include "runtime/kube/pod-spec.h"

#define MARK_SOON_MS  1000
#define MARK_EVERY_MS 30000 /* at most: commands start far more often than this is of interest */

bool pod_is_ahead(const struct runtime_events *events, void *data)
{
    struct runtime_record r;
    events->describe(data, &r);
    free(r.text);
    return r.pooled;
}

int pod_record_fill(struct kube_order *o, const struct runtime_events *events, void *data,
                    const char *pool_record, struct error *err)
{
    struct runtime_record r;
    events->describe(data, &r);
    _cleanup_free_ char *text = r.text;
    if (text && strlen(text) >= sizeof(o->spec))
        return error_set(
            err, ERROR_TOO_LARGE, 0,
            "the record of the sandbox that its pod carries, with the environment in it, would be "
            "over %d bytes",
            KUBE_SPEC_SIZE - 1);
    o->last_exec_s = r.last_exec_s > 0 ? (uint64_t)r.last_exec_s : 0;
    o->state = r.pooled ? KUBE_STATE_READY : KUBE_STATE_CLAIMED;
    snprintf(o->owner, sizeof(o->owner), "%s", r.owner);
    snprintf(o->spec, sizeof(o->spec), "%s",
             text       ? text
             : r.pooled ? pool_record
                        : POD_HELPER_RECORD);
    return 0;
}

void pod_record_sum(const struct kube_order *o, uint8_t out[SHA256_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, o->spec, strlen(o->spec));
    sha256_final(&s, out);
}

/* At most every MARK_EVERY_MS, and soon where nothing was written for so long. */
void pod_note(struct runtime_instance *in)
{
    int64_t since = clock_mono_ms() - in->marked_ms;
    in->mark_again = in->marking;
    bool soon = !in->marked_ms || since >= MARK_EVERY_MS;
    if (in->step == POD_RUNNING && !in->marking && !loop_timer_active(&in->mark))
        loop_timer_start(&in->mark, soon ? MARK_SOON_MS : (uint64_t)(MARK_EVERY_MS - since));
}

static void on_pod_marked(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    in->marking = false;
    if (reply->error || in->state != KUBE_STATE_READY) /* who claims it is written soon */
        in->marked_ms = clock_mono_ms();
    if (in->claim) {
        pod_send_claim(in);
        return;
    }
    if (!reply->error && in->mark_again)
        pod_note(in);
    if (!reply->error)
        return;
    log_info("the record of a sandbox in its pod is not up to date id=%s: %s", in->id,
             reply->message);
    memset(in->written, 0, sizeof(in->written));
    in->state = KUBE_STATE_SAME;
    pod_note(in);
}

void pod_mark(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_MARK, .generation = in->generation};
    struct error err = {0};
    uint8_t sum[SHA256_SIZE];
    if (in->step != POD_RUNNING || in->marking || in->on_claimed)
        return;
    if (pod_record_fill(&order, in->events, in->data, in->pool_record, &err) < 0) {
        log_warn("the record of a sandbox cannot be written to its pod id=%s: %s", in->id,
                 err.message);
        return;
    }
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    pod_record_sum(&order, sum);
    if (memcmp(sum, in->written, sizeof(sum)) == 0)
        order.spec[0] = 0;
    memcpy(in->written, sum, sizeof(sum));
    if (order.state == in->state)
        order.state = KUBE_STATE_SAME;
    else
        in->state = order.state;
    in->marking = true;
    pod_send(in, &order, on_pod_marked);
}
