/* SPDX-License-Identifier: Apache-2.0 */
/* Pods that are made ahead, for no caller yet: what they say of themselves, so that the next
 * control plane takes over those that are what its pool is made of, and deletes the others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cluster_options;
struct kube_order;
struct spec;

#define POOL_RECORD_SIZE 96

/* The order for a pod with this spec: all but whose it is and what it says of itself. */
void pool_order_fill(const struct cluster_options *o, const struct spec *spec,
                     struct kube_order *order);
/* What a pod of this spec says of itself while no caller has it. Two pods that say the same are the
 * same to a caller. */
void pool_record_format(const struct cluster_options *o, const struct spec *spec,
                        char out[POOL_RECORD_SIZE]);
/* Whether this is such a record, of any spec. */
bool pool_is_record(const char *text, size_t len);
