/* From a plan's limits to what enforces them; fails by name where nothing can. */
#pragma once

#include "proto/plan.h"

struct cell;
struct warden;

/* The walls that are not limits, for a sandbox of this backend, or for one without namespaces. */
void limits_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism);
void limits_describe_fence(const struct warden *w, uint8_t *mechanism);
/* Writes cgroup limits, chooses the kind of disk, fills the order's limits and s->mechanism. limits
 * are the plan's with the ceiling's in the gaps: only what the plan itself asked for, and did not
 * accept to be weaker, fails. -errno with reply's wall and message set. */
int limits_apply(struct cell *s, const struct plan *p, const struct limits *limits,
                 struct plan_reply *reply);
/* The same question about limits that were applied already, for a plan that asks for just them. */
int limits_check(const struct cell *s, const struct plan *p, struct plan_reply *reply);
