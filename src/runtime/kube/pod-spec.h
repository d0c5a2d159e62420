/* SPDX-License-Identifier: Apache-2.0 */
/* A spec as an order for a pod; what a pod cannot be, refused by name; and what is said of its
 * walls once the runner has looked at them from inside. */
#pragma once

#include "proto/kube.h"
#include "proto/walls.h"
#include "runtime/kube/proof.h"
#include "runtime/runtime.h"

/* What the namespace's own prefix takes the place of (kube_namespace_prefix). */
#define POD_ID_PREFIX "sbx-"

/* What the pod of a helper of one call says of itself: the one record that makes a pod deletable
 * whose control plane is gone. */
#define POD_HELPER_RECORD "{\"helper\":true}"

/* The sandbox's id as orders have it. */
int pod_id_fill(const char *id, char out[KUBE_ID_SIZE], struct error *err);
/* What is known of the network wall of all pods. */
struct pod_network {
    const struct proof_report *proof;
    bool unproven; /* the operator accepts one that is not known to hold */
    bool adopted;  /* it was tried before the pod was used first; what is wrong is found again */
};
/* Whether a pod with this spec may not be used before its network wall has held. One that reaches
 * networks by address may never, whatever is accepted: its policy is all that tells them from the
 * rest. */
bool pod_needs_network_wall(const struct spec *s, const struct pod_network *n);

/* image: for a spec that names none; NULL: there is none. */
int pod_spec_check(const struct spec *s, const char *image, const struct pod_network *n,
                   struct error *err);
/* Of a spec that was checked. */
void pod_order_fill(const struct spec *s, const char *image, struct kube_order *o);
/* What enforces each wall. Negative where something that no sandbox goes without is missing, or a
 * limit that was asked for does not hold. */
int pod_walls_fill(const struct spec *s, const struct walls *w, const struct pod_network *n,
                   const char *runtime, struct effective *ret, struct error *err);
/* The same before there is a pod: what may be expected on nodes with this version of control
 * groups.
 */
void pod_walls_expect(struct effective *ret, const struct proof_report *proof, const char *runtime,
                      uint32_t cgroup);
