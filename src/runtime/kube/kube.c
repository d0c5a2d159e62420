/* SPDX-License-Identifier: Apache-2.0 */
/* See kube.h: what may be made, how an instance begins, and what the runtime says of itself. How an
 * instance goes on is in instance.h and the files that it names. */
#include "runtime/kube/kube.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "runtime/kube/addresses.h"
#include "runtime/kube/checks.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"
#include "runtime/kube/pod-class.h"
#include "runtime/kube/pod-spec.h"
#include "runtime/kube/pool.h"
#include "runtime/kube/proof.h"
#include "runtime/runtime.h"

static void on_pod_made(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = data;
    fd_close(&fd);
    if (reply->error) { /* the broker has undone what it had made, where the cluster let it */
        if (!error_is_set(&in->failure))
            error_set(&in->failure, reply->error, 0, "%s", reply->message);
        enum error_code code = reply->error;
        bool certain = code != ERROR_TIMEOUT && code != ERROR_UNAVAILABLE && code != ERROR_INTERNAL;
        if (certain)
            in->events->on_removed(in->data, true);
        pod_tell_end(in, NULL);
        if (!certain)
            in->events->on_removed(in->data, false);
        instance_free(in);
        return;
    }
    in->step = POD_STARTING;
    if (error_is_set(&in->failure) && !in->left) { /* it took too long */
        pod_begin_delete(in);
        pod_tell_end(in, NULL);
        return;
    }
    if (in->stopping) {
        pod_begin_delete(in);
        return;
    }
    snprintf(in->uid, sizeof(in->uid), "%s", reply->uid);
    struct kube_reply told = in->told; /* while the answer was on its way */
    in->told = (struct kube_reply){0};
    if (strcmp(told.uid, in->uid) == 0)
        pod_on_told(in, &told);
}

/* What is wrong with a spec comes first: ERROR_UNAVAILABLE says that it may work later. */
static int kube_check(const struct runtime_ops *ops, const struct runtime_host *host,
                      const struct spec *spec, struct error *err)
{
    if (!host->cluster)
        return error_set(
            err, ERROR_UNSUPPORTED, 0,
            "runtime '%s' needs a cluster: set kube_config, kube_in_cluster or kube_socket",
            ops->name);
    const struct cluster_report *r = cluster_probed(host->cluster);
    const struct cluster_options *o = cluster_options(host->cluster);
    struct pod_network n = pod_network_of(host->cluster, false);
    int e = pod_addresses_check(spec, host->network, n.proof, err);
    e = e < 0 ? e : pod_spec_check(spec, o->image, &n, err);
    if (e < 0)
        return e;
    if (r->known && !r->available)
        return error_set(err, ERROR_UNAVAILABLE, 0, "runtime '%s': %s", ops->name, r->why);
    if ((e = pod_class_check(ops->name, r, err)) < 0)
        return e;
    if (*cluster_why_not_held(host->cluster))
        return error_set(err, ERROR_UNAVAILABLE, 0, "runtime '%s': %s", ops->name,
                         cluster_why_not_held(host->cluster));
    if (!cluster_is_rebuilt(host->cluster))
        return error_set(err, ERROR_UNAVAILABLE, 0,
                         "runtime '%s': the sandboxes that the cluster has are not known yet",
                         ops->name);
    return 0;
}

static struct runtime_instance *kube_start(const struct runtime_ops *ops, struct runtime_host *host,
                                           const char *id, const struct spec *spec,
                                           const struct runtime_events *events, void *data,
                                           struct error *err)
{
    struct kube_order order = {.op = KUBE_CREATE, .generation = POD_FIRST_GENERATION};
    char pool_record[POOL_RECORD_SIZE] = "";
    if (kube_check(ops, host, spec, err) < 0 || pod_id_fill(id, order.id, err) < 0)
        return NULL;
    const struct cluster_options *o = cluster_options(host->cluster);
    if (pod_is_ahead(events, data))
        pool_record_format(o, spec, pool_record);
    if (pod_record_fill(&order, events, data, pool_record, err) < 0)
        return NULL;
    pool_order_fill(o, spec, &order);
    snprintf(order.home, sizeof(order.home), "%s", o->home);
    struct runtime_instance *in = instance_new(ops, host, order.id, spec, events, data);
    in->step = POD_MAKING;
    in->taken = true;
    pod_record_sum(&order, in->written);
    in->state = order.state == KUBE_STATE_CLAIMED ? KUBE_STATE_CLAIMED : KUBE_STATE_SAME;
    if (order.state == KUBE_STATE_READY)
        order.flags |= KUBE_POOL_MEMBER;
    in->ahead = order.state == KUBE_STATE_READY;
    memcpy(in->pool_record, pool_record, sizeof(pool_record));
    order.state = KUBE_STATE_SAME; /* it is what the flag says */
    cluster_send(in->cluster, &order, on_pod_made, in);
    return in;
}

static struct runtime_instance *kube_adopt(const struct runtime_ops *ops, struct runtime_host *host,
                                           const char *id, const struct spec *spec,
                                           const struct runtime_events *events, void *data,
                                           struct error *err)
{
    char name[KUBE_ID_SIZE];
    if (!host->cluster) {
        error_set(err, ERROR_UNAVAILABLE, 0, "its cluster is not configured any more");
        return NULL;
    }
    if (pod_id_fill(id, name, err) < 0)
        return NULL;
    struct runtime_instance *in = instance_new(ops, host, name, spec, events, data);
    in->step = POD_FINDING;
    in->adopted = true;
    in->ahead = pod_is_ahead(events, data);
    if (in->ahead)
        pool_record_format(cluster_options(host->cluster), spec, in->pool_record);
    return in;
}

static void kube_reconnect(struct runtime_instance *in)
{
    pod_connect(in);
}

static void kube_rebind(struct runtime_instance *in, void *data)
{
    in->data = data;
}

static uint64_t kube_generation(const struct runtime_instance *in)
{
    return in->generation;
}

static void kube_stop(struct runtime_instance *in)
{
    if (in->stopping)
        return;
    in->stopping = true;
    pod_begin_delete(in);
}

static void kube_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                       struct runtime_report *ret)
{
    *ret = (struct runtime_report){0};
    pod_walls_expect(&ret->walls,
                     host->cluster ? cluster_proven(host->cluster) : &(struct proof_report){0},
                     ops->name, host->cluster ? cluster_cgroup(host->cluster) : 2);
    if (!host->cluster) {
        snprintf(ret->why, sizeof(ret->why), "no cluster is configured (kube_config)");
        return;
    }
    const struct cluster_report *r = cluster_probed(host->cluster);
    struct error class_why = {0};
    bool class_known = pod_class_check(ops->name, r, &class_why) == 0;
    const char *lease_why = cluster_why_not_held(host->cluster);
    ret->available = r->available && cluster_is_held(host->cluster) && class_known;
    snprintf(ret->version, sizeof(ret->version), "%s", r->version);
    const struct proof_report *proof = cluster_proven(host->cluster);
    snprintf(ret->why, sizeof(ret->why), "%s",
             !r->known         ? "its broker has not answered yet"
             : !r->available   ? r->why
             : !class_known    ? class_why.message
             : !ret->available ? (*lease_why ? lease_why : "its Lease is being asked for")
             : proof->state == PROOF_PENDING
                 ? "whether network policies are enforced is being tried"
                 : proof->why);
    kube_checks_fill(r, proof, ret);
    const char *waits_why;
    size_t n_waiting = cluster_waiting(host->cluster, &waits_why);
    kube_checks_add_waiting(ret, n_waiting, waits_why);
}

#define KUBE_RUNTIME(ident, text, words, level)                                                    \
    const struct runtime_ops ident = {                                                             \
        .name = text,                                                                              \
        .summary = words,                                                                          \
        .isolation = level,                                                                        \
        .workdir = "/workspace",                                                                   \
        .has_proxy = true,                                                                         \
        .has_addresses = true,                                                                     \
        .connections_break = true,                                                                 \
        .lives_elsewhere = true,                                                                   \
        .has_volumes = true,                                                                       \
        .has_streams = true,                                                                       \
        .has_own_images = true,                                                                    \
        .needs_cluster = true,                                                                     \
        .record_max = KUBE_SPEC_SIZE,                                                              \
        .probe = kube_probe,                                                                       \
        .check = kube_check,                                                                       \
        .start = kube_start,                                                                       \
        .stop = kube_stop,                                                                         \
        .adopt = kube_adopt,                                                                       \
        .reconnect = kube_reconnect,                                                               \
        .generation = kube_generation,                                                             \
        .note = pod_note,                                                                          \
        .claim = pod_claim,                                                                        \
        .rebind = kube_rebind,                                                                     \
    }

KUBE_RUNTIME(runtime_kube, "kube", "pods of a Kubernetes cluster", ISOLATION_NAMESPACES);
KUBE_RUNTIME(runtime_kube_gvisor, "kube-gvisor", "pods with the RuntimeClass gvisor of a cluster",
             ISOLATION_USER_SPACE_KERNEL);
KUBE_RUNTIME(runtime_kube_kata, "kube-kata", "pods with the RuntimeClass kata of a cluster",
             ISOLATION_VIRTUAL_MACHINE);
