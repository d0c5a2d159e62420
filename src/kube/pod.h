/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod's object says of it, in one word and a sentence.
 *
 * Where a failure stands differs: killed for memory in a container's last state, an image that does
 * not come in a container that waits, no node in a condition, eviction and a deadline in the status
 * itself. "Terminating" is no phase but a time in the metadata. */
#pragma once

#include <jansson.h>

#include "proto/kube.h"

/* Fills id, uid, generation, phase, reason and message of ret; the rest is as it was. */
void kube_pod_read(const json_t *pod, struct kube_reply *ret);
