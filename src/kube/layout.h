/* SPDX-License-Identifier: Apache-2.0 */
/* Where the objects of a sandbox are. By default each sandbox has a namespace of its own, called
 * like it, and its pod is called KUBE_POD_NAME there. Where the ceiling names one namespace for all
 * of them, the pod has the sandbox's name in that one, which the broker neither makes nor deletes:
 * the pod is then all that a sandbox has, besides a network policy that it has in common with all
 * sandboxes of the same rules. */
#pragma once

#include <stdbool.h>

#include "proto/kube.h"

struct kube_ceiling;

#define KUBE_PLACE_SIZE 80 /* of a namespace's name and of a pod's */

bool kube_layout_is_shared(const struct kube_ceiling *c);
/* Both return buffer. */
const char *kube_layout_namespace(const struct kube_ceiling *c, const char *id,
                                  char buffer[KUBE_PLACE_SIZE]);
const char *kube_layout_pod(const struct kube_ceiling *c, const char *id,
                            char buffer[KUBE_PLACE_SIZE]);
/* The id of the sandbox whose pod has this place; false where none of ours could have it. */
bool kube_layout_find(const struct kube_ceiling *c, const char *namespace_, const char *pod,
                      char ret[KUBE_ID_SIZE]);
/* What a sandbox begins and ends with: its namespace, or its pod. */
const char *kube_layout_root(const struct kube_ceiling *c);
