/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan may ask for at most: fixed from the operator's configuration before the control plane
 * existed. */
#pragma once

#include "proto/plan.h"

struct child_trees;
struct warden;

/* Whether there can be what the plan asks for: on this host, by what the kind says, and by limits
 * and mounts against the ceiling. Limits that the plan leaves open become the ceiling's. Returns
 * -errno with reply's message set. */
int ceiling_check(const struct warden *w, const struct plan *p, struct limits *ret_limits,
                  struct plan_reply *reply);
/* The answer where the plan's kind needs namespaces and the host allows none. */
int ceiling_refuse_namespaces(const struct warden *w, const struct plan *p,
                              struct plan_reply *reply);
/* Opens the plan's host directories and its image as detached mounts. */
int ceiling_open_trees(const struct warden *w, const struct plan *p, struct child_trees *ret,
                       struct plan_reply *reply);
