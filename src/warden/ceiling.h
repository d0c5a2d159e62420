/* What a plan may ask for at most: fixed from the operator's configuration before the control plane
 * existed. */
#pragma once

#include "proto/plan.h"

struct child_trees;
struct warden;

/* Checks limits and mounts against the ceiling. Limits that the plan leaves open become the
 * ceiling's. -EPERM or -EINVAL with reply's message set. */
int ceiling_check(const struct warden *w, const struct plan *p, struct limits *ret_limits,
                  struct plan_reply *reply);
/* May there be a runner without walls? Only where the operator enabled it. */
int ceiling_check_plain(const struct warden *w, const struct plan *p, struct plan_reply *reply);
/* Can there be what the plan asks for on a host without namespaces? */
int ceiling_check_namespaces(const struct warden *w, const struct plan *p,
                             struct plan_reply *reply);
/* The answer where there cannot. */
int ceiling_refuse_namespaces(const struct warden *w, const struct plan *p,
                              struct plan_reply *reply);
/* Can there be sandboxes without namespaces? */
int ceiling_check_fence(const struct warden *w, struct plan_reply *reply);
/* Opens the plan's host directories and its image as detached mounts. */
int ceiling_open_trees(const struct warden *w, const struct plan *p, struct child_trees *ret,
                       struct plan_reply *reply);
