/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator is told of a cluster: each thing that is missing, with what to do. */
#include "runtime/kube/checks.h"

#include <stdio.h>
#include <string.h>

#include "runtime/kube/cluster.h"
#include "runtime/kube/proof.h"
#include "runtime/runtime.h"
#include "tests/unit/tap.h"

static struct runtime_report report;
static struct cluster_report cluster = {.known = true, .available = true, .offered = true};
static struct proof_report proof = {.state = PROOF_GIVEN};

static void offer(enum kube_offer which, const char *text)
{
    snprintf(cluster.offers[which], sizeof(cluster.offers[which]), "%s", text);
}

static void fill(void)
{
    report = (struct runtime_report){0};
    kube_checks_fill(&cluster, &proof, &report);
}

static const struct runtime_check *find(const char *name)
{
    for (size_t i = 0; i < report.n_checks; i++)
        if (strcmp(report.checks[i].name, name) == 0)
            return &report.checks[i];
    return NULL;
}

static bool says(const char *name, bool good, const char *detail, const char *advice)
{
    const struct runtime_check *c = find(name);
    printf("# %s: %d '%s' '%s'\n", name, c && c->ok, c ? c->detail : "-",
           c && c->advice ? c->advice : "");
    return c && c->ok == good && strstr(c->detail, detail) &&
           (advice ? c->advice && strstr(c->advice, advice) : !c->advice);
}

int main(void)
{
    offer(KUBE_OFFER_CARRIER, KUBE_CARRIER_EXEC);
    fill();
    ok(says("rights", true, "all", NULL), "all rights");
    ok(says("runtime classes", false, "none", "kube_runtime_classes"), "no RuntimeClass");
    ok(says("storage classes", false, "none", "kube_storage_classes"), "no storage class");
    ok(says("agent-sandbox", false, "not in the cluster", "none is needed"), "no CRDs");
    ok(says("carrier", true, "exec", NULL), "the carrier that is the only one");
    ok(!find("network"), "a network wall that holds is no matter");
    ok(says("io", false, "no such limit", "another runtime"),
       "io is refused, whatever the host has");

    char much[KUBE_MESSAGE_SIZE];
    memset(much, 'x', sizeof(much) - 1);
    much[sizeof(much) - 1] = 0;
    offer(KUBE_OFFER_MISSING_RIGHTS, much);
    offer(KUBE_OFFER_RUNTIME_CLASSES, "gvisor, kata");
    offer(KUBE_OFFER_MISSING_CLASSES, "kata");
    fill();
    ok(says("runtime classes", false, "gvisor, kata (kata: not in the cluster)", "handler"),
       "a RuntimeClass that the cluster lacks");
    offer(KUBE_OFFER_MISSING_CLASSES, "");
    offer(KUBE_OFFER_STORAGE_CLASSES, "default");
    offer(KUBE_OFFER_CRDS, "sandboxclaims, sandboxwarmpools");
    offer(KUBE_OFFER_CARRIER, KUBE_CARRIER_DIRECT);
    cluster.available = false;
    fill();
    ok(says("rights", false, much, "role.yaml"), "the longest list of rights that are missing");
    ok(says("runtime classes", true, "gvisor, kata", NULL), "RuntimeClasses");
    ok(says("storage classes", true, "default", NULL), "storage classes");
    ok(says("agent-sandbox", true, "sandboxclaims, sandboxwarmpools", NULL), "CRDs");
    ok(says("carrier", true, "direct", NULL), "the carrier that is tried first");

    cluster.available = true;
    proof.state = PROOF_FAILED;
    snprintf(cluster.carrier, sizeof(cluster.carrier), "%s", KUBE_CARRIER_EXEC);
    fill();
    ok(says("network", false, "not proven", "enforces NetworkPolicies"), "policies do not count");
    ok(says("carrier", false, "not reached directly", "kube_direct_port"), "the other carrier");
    proof.state = PROOF_PENDING;
    fill();
    ok(says("network", false, "being tried", NULL), "policies may count yet");

    cluster = (struct cluster_report){0};
    fill();
    ok(report.n_checks == 1 && find("io"), "before the broker has answered");
    return tap_done();
}
