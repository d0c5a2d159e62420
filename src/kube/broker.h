/* SPDX-License-Identifier: Apache-2.0 */
/* The broker of a cluster: orders in, replies and streams out (proto/kube.h).
 *
 * It holds the credential that makes pods, which is as good as root on every node, so that the
 * control plane never has it. An order is checked against the ceiling, its objects are written
 * here, and posted in their order; what exists already counts only if it is ours. What a lost
 * request has done is looked up before it is sent again. A create that fails is undone. */
#pragma once

#include <stdint.h>
#include <uv.h>

struct kube_access;
struct kube_ceiling;
struct kube_client;
struct kube_identity;
struct kube_plugin;

struct kube_broker_options {
    uv_loop_t *loop;
    struct kube_client *client;         /* borrowed */
    const struct kube_ceiling *ceiling; /* borrowed */
    const char *holder;                 /* whose Leases are ours; borrowed */
    /* Of the direct carrier, borrowed; NULL: every stream goes by exec. */
    const struct kube_identity *identity;
    uint32_t unused_policy_ms; /* how long a policy of no pod stays, where we may delete it; 0:
                                  minutes */
    int sock;                  /* SEQPACKET, taken; the control plane's other end */
    /* Its other end is closed. */
    void (*on_end)(void *data);
    void *data;
};

struct kube_broker;
struct kube_broker *kube_broker_new(const struct kube_broker_options *options);
/* What it has in the cluster stays. NULL is fine. */
void kube_broker_free(struct kube_broker *b);
