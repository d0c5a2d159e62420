/* SPDX-License-Identifier: Apache-2.0 */
/* User ids of the containers of a pod. The kernel counts processes by them, and tells a runner from
 * its link by them, so no two containers of sandboxes have the same one, whatever else a node runs.
 *
 * A slot is a number from 0 on. It has two ids from the beginning of the ceiling's range, of the
 * sandbox and of its link, and, where there is a stream container, a third from its end. So which
 * slots are in each other's way depends on whether both have such a container: pods are compared by
 * their ids, and those that are there by what they say. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kube_ceiling;

enum kube_uid { KUBE_UID_SANDBOX, KUBE_UID_LINK, KUBE_UID_STREAM, _KUBE_UID_MAX };

/* One that is not used is 0. */
struct kube_uids {
    uint32_t ids[_KUBE_UID_MAX];
};

struct kube_uids kube_uids_of_slot(const struct kube_ceiling *c, uint32_t slot, bool streamed);
/* Of a pod that is there, whatever it is. */
struct kube_uids kube_uids_read(const json_t *pod);
bool kube_uids_meet(const struct kube_uids *a, const struct kube_uids *b);
