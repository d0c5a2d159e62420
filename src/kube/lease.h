/* SPDX-License-Identifier: Apache-2.0 */
/* The Lease by which one control plane at a time has a home of the cluster
 * (coordination.k8s.io/v1).
 *
 * Theory of operation. Every write has the resourceVersion of what was seen before, so of two
 * that write at once one is refused. The holder renews; one that could not for
 * KUBE_LEASE_FENCE_MS does not count itself as the holder any more, which is well before another
 * may take the Lease. That other one goes by its own clock alone: it takes the Lease when it has
 * seen no change of it for as long as the holder said that it lasts. The times that are written
 * in it are for people. One that is given back has no holder, and can be taken at once. */
#pragma once

#include <stdbool.h>

struct kube_client;
struct kube_lease;

#define KUBE_LEASE_S        15    /* that we write into it */
#define KUBE_LEASE_FENCE_MS 10000 /* after so long without a renewal it is not ours any more */

struct kube_lease_options {
    struct kube_client *client; /* borrowed */
    const char *namespace_, *name, *instance, *holder;
    /* Comes when that is known for the first time, and when it changes. other: another one has it,
     * or has had it since it was held here. why: where it is not held. */
    void (*on_change)(void *data, bool other, const char *why);
    void *data;
};

struct kube_lease *kube_lease_new(const struct kube_lease_options *options); /* all is copied */
const char *kube_lease_name(const struct kube_lease *l);
bool kube_lease_is_held(const struct kube_lease *l);
/* Calls on_change once more, if it was called at all. */
void kube_lease_tell(const struct kube_lease *l);
/* Leaves it as it is: it runs out. NULL is fine. */
void kube_lease_free(struct kube_lease *l);
/* Gives it back where it is held, and frees l; on_done(data) comes from the loop, within seconds.
 */
void kube_lease_release(struct kube_lease *l, void (*on_done)(void *data), void *data);
