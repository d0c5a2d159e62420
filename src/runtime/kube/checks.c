/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/checks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/kube/cluster.h"
#include "runtime/kube/proof.h"
#include "runtime/runtime.h"

static void add_check(struct runtime_report *ret, const char *name, bool ok, const char *detail,
                      const char *advice)
{
    assert(ret->n_checks < RUNTIME_CHECKS_MAX);
    struct runtime_check *c = &ret->checks[ret->n_checks++];
    *c = (struct runtime_check){.name = name, .ok = ok, .advice = advice};
    snprintf(c->detail, sizeof(c->detail), "%s", detail);
}

static void add_rights(struct runtime_report *ret, const char *missing)
{
    char detail[KUBE_MESSAGE_SIZE + 16];
    snprintf(detail, sizeof(detail), *missing ? "missing: %s" : "all that are needed", missing);
    add_check(ret, "rights", !*missing, detail,
              *missing ? "bind the broker's account to the role in deploy/kube/base/role.yaml"
                       : NULL);
}

static void add_network(struct runtime_report *ret, const struct proof_report *proof)
{
    if (proof->state == PROOF_PENDING)
        add_check(ret, "network", false, "it is being tried whether policies are enforced", NULL);
    else if (proof->state == PROOF_FAILED)
        add_check(ret, "network", false, "it is not proven that policies are enforced",
                  "a network for the cluster that enforces NetworkPolicies on every node; it is "
                  "tried again every minute. kube_unproven_network runs pods without this wall");
}

static void add_classes(struct runtime_report *ret, const char *runtime, const char *missing,
                        const char *storage)
{
    char detail[2 * KUBE_MESSAGE_SIZE];
    snprintf(detail, sizeof(detail), "%.200s%s%.200s%s",
             *runtime ? runtime : "none but the cluster's own", *missing ? " (" : "", missing,
             *missing ? ": not in the cluster)" : "");
    add_check(ret, "runtime classes", *runtime && !*missing, detail,
              *missing
                  ? "make the RuntimeClass, as deploy/kube/gvisor does, on nodes that have its "
                    "handler; it is looked for when the broker begins"
              : *runtime ? NULL
                         : "kube_runtime_classes allows others, or runtime_classes in the settings "
                           "of a broker that stands alone: gvisor is for runtime kube-gvisor, kata "
                           "for kube-kata");
    add_check(ret, "storage classes", *storage, *storage ? storage : "none: there are no claims",
              *storage ? NULL
                       : "kube_storage_classes allows them, or storage_classes in the settings of "
                         "a broker that stands alone; 'default' is the cluster's own");
}

/* Nothing is made by them yet; an operator who has both wants to know whose pods are whose. */
static void add_crds(struct runtime_report *ret, const char *crds)
{
    add_check(ret, "agent-sandbox", *crds, *crds ? crds : "its CRDs are not in the cluster",
              *crds ? NULL : "none is needed: pods are made without them");
}

/* used: of the last connection; "" before the first one. */
static void add_carrier(struct runtime_report *ret, const char *first, const char *used)
{
    bool direct = strcmp(first, KUBE_CARRIER_DIRECT) == 0;
    if (!*used)
        used = first;
    if (strcmp(used, KUBE_CARRIER_DIRECT) == 0)
        add_check(ret, "carrier", true, "direct: TLS to the pod's address", NULL);
    else if (direct)
        add_check(ret, "carrier", false, "exec: the last pod was not reached directly",
                  "let the broker reach the port of kube_direct_port in pods, from the namespace "
                  "kube_direct_from; its log says what failed");
    else
        add_check(ret, "carrier", true,
                  "exec: a stream through the API server for each pod; kube_direct_port makes it "
                  "direct where the broker runs in the cluster",
                  NULL);
}

void kube_checks_add_waiting(struct runtime_report *ret, size_t n, const char *why)
{
    char detail[KUBE_MESSAGE_SIZE + 64];
    if (!n)
        return;
    snprintf(detail, sizeof(detail), "%zu made ahead and waited for: %s", n, why);
    add_check(ret, "pool", false, detail,
              "room in the cluster, or an image that can be had; they are kept, and "
              "warm_pool_size is how many there are");
}

void kube_checks_fill(const struct cluster_report *cluster, const struct proof_report *proof,
                      struct runtime_report *ret)
{
    if (cluster->offered) {
        add_rights(ret, cluster->offers[KUBE_OFFER_MISSING_RIGHTS]);
        add_classes(ret, cluster->offers[KUBE_OFFER_RUNTIME_CLASSES],
                    cluster->offers[KUBE_OFFER_MISSING_CLASSES],
                    cluster->offers[KUBE_OFFER_STORAGE_CLASSES]);
        add_crds(ret, cluster->offers[KUBE_OFFER_CRDS]);
        add_carrier(ret, cluster->offers[KUBE_OFFER_CARRIER], cluster->carrier);
    }
    if (cluster->available)
        add_network(ret, proof);
    add_check(ret, "io", false, "Kubernetes has no such limit",
              "another runtime: a pod for which io is asked is refused");
}
