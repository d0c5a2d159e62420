/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of mas-kube's socket: sends orders, matches answers by tag, passes on
 * what the cluster tells of a pod.
 *
 * Theory of operation. The broker may die at any moment, and so may this process; the socket
 * outlives both (proto/kube.h). An order is kept until it is answered. When another broker begins,
 * all that are kept go to it again, and the cluster's sandboxes are listed anew, because what
 * happened while there was no broker was told by none. A sandbox of this home that no holder here
 * knows is made known again where the first list has it and its pod says what it is (rebuild.h).
 * One that says that it belonged to one call of a control plane that died is deleted, and so is
 * what appears later, which is of a create that was given up. A pod of the first list that cannot
 * be read, or believed, is left as it is. So all holders must be there before cluster_start().
 * Sandboxes of another home are another control plane's. Of several control planes of the same home
 * one has it, by a Lease that the broker renews (KUBE_HOLD); the orders of the others are kept
 * until they have it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "proto/kube.h"

struct cluster;
struct weak;

struct error;
struct spec;

/* A sandbox that the cluster has and no holder knows. */
struct cluster_found {
    const char *runtime_id;
    const char *record; /* struct runtime_record.text as it was written */
    size_t len;
    const char *owner;   /* runtime_record.owner, as it is written beside the record */
    int64_t last_exec_s; /* 0: not known */
    bool pooled;         /* it was made ahead, of pool_spec, and has no caller */
};
/* Positive: it is known from now on, and has a holder. 0: no daemon needs it, and it is deleted.
 * Negative with err set: it is left as it is. */
typedef int (*cluster_found_fn)(void *data, const struct cluster_found *found, struct error *err);

struct cluster_options {
    uv_loop_t *loop;
    int sock;              /* SEQPACKET, taken */
    uint64_t generation;   /* of this control plane */
    const char *home;      /* this control plane's name in its sandboxes' pods. Borrowed */
    const char *image;     /* of pods whose spec names none; NULL: there is none. Borrowed */
    bool unproven_network; /* pods run although their network wall is not proven */
    /* What a pod asks its node for, where that is below its limit; 0: the limit. */
    uint32_t cpu_request_millicores;
    uint64_t memory_request_bytes;
    const struct spec *pool_spec; /* of pods that are made ahead; NULL: there are none. Borrowed */
    cluster_found_fn on_found;    /* NULL: none is needed */
    /* All that was there was found, and none was left as it is; NULL: not of interest. */
    void (*on_rebuilt)(void *data);
    /* Another control plane has or had the home after this one: what this one knows of its
     * sandboxes is old, and its connections are not theirs any more. NULL: not of interest. */
    void (*on_home_lost)(void *data);
    void *found_data;
    uint64_t start_ms; /* how long a pod may take until its runner answers */
};

struct cluster *cluster_new(const struct cluster_options *options);
void cluster_start(struct cluster *c);
/* Orders that are not answered stay so. NULL is fine. */
void cluster_close(struct cluster *c);
const struct cluster_options *cluster_options(const struct cluster *c);

/* fd is the reply's descriptor or -1, taken by the callback. */
typedef void (*cluster_reply_fn)(void *data, const struct kube_reply *reply, int fd);
/* version, tag and epoch are filled in. cb comes later, once. */
void cluster_send(struct cluster *c, const struct kube_order *order, cluster_reply_fn cb,
                  void *data);
/* The same with a reference, which is given back when the cluster is closed before the answer. */
void cluster_send_weak(struct cluster *c, const struct kube_order *order, cluster_reply_fn cb,
                       struct weak *ref);
/* The same for an order that says no more than what is to be done with which sandbox. */
void cluster_ask(struct cluster *c, enum kube_op op, const char *id, cluster_reply_fn cb,
                 void *data);

/* Every change of the pod of this sandbox, by KUBE_TOLD; and by KUBE_LISTED, after each list of all
 * sandboxes, what is known of it: KUBE_POD_NONE where nothing is; and by KUBE_HELD, that the home
 * is another control plane's, or was. One holder per id: a later one takes the place of the one
 * before. */
typedef void (*cluster_told_fn)(void *data, const struct kube_reply *told);
void cluster_hold(struct cluster *c, const char *id, cluster_told_fn fn, void *data);
void cluster_let_go(struct cluster *c, const char *id, const void *data);
/* Nothing of this sandbox is deleted as a stranger's: it is not the one that had a holder here. */
void cluster_leave_pod(struct cluster *c, const char *id, const char *why);
/* Deletes what there is of a sandbox. A failure is only logged. */
void cluster_discard(struct cluster *c, const char *id);

/* What the broker said when it was asked last. */
struct cluster_report {
    bool known;       /* it has answered */
    bool available;   /* the cluster is there, and lets the broker do what it must */
    char version[64]; /* "Kubernetes v1.35.8" */
    char why[256];    /* where it is not available */
    bool offered;     /* the cluster was there, and the broker has said this: */
    char offers[_KUBE_OFFER_MAX][KUBE_MESSAGE_SIZE];
    char carrier[KUBE_NAME_SIZE]; /* of the last connection to a runner; "": there was none */
};
const struct cluster_report *cluster_probed(const struct cluster *c);
/* Whether the first list is done and what it found is known. Until then a create may take the name
 * of a sandbox that lives. */
bool cluster_is_rebuilt(const struct cluster *c);
/* Which version of control groups its nodes have, as the last pod found it; 2 before there was one,
 * which is all that kubelets take by default. */
void cluster_note_cgroup(struct cluster *c, uint32_t version);
uint32_t cluster_cgroup(const struct cluster *c);
/* A pod that was made ahead is kept although it does not start: why; NULL: it is not waited for any
 * more. */
void cluster_note_waiting(struct cluster *c, const char *id, const char *why);
size_t cluster_waiting(const struct cluster *c, const char **ret_why); /* how many; why one does */
/* By which carrier a runner was reached. */
void cluster_note_carrier(struct cluster *c, const char *carrier);
/* Is the home this control plane's? While it is not, no order goes out but to look at the cluster.
 */
bool cluster_is_held(const struct cluster *c);
const char *cluster_why_not_held(const struct cluster *c); /* "": it is, or that is not known yet */
/* And whether its network policies count (runtime/kube/proof.h). */
const struct proof_report *cluster_proven(const struct cluster *c);
/* Deletes what this control plane has in the cluster besides sandboxes, at its end, as proof_end();
 * where there is a cb, the home is given back, too. c may be NULL. */
void cluster_leave(struct cluster *c, void (*cb)(void *data), void *data);
