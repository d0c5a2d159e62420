/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan's limits to what enforces them; fails by name where nothing can. */
#pragma once

#include <stdbool.h>

#include "proto/plan.h"

struct cell;
struct warden;

/* Writes cgroup limits, chooses the kind of disk, fills the order's limits and s->mechanism. limits
 * are the plan's with the ceiling's in the gaps: only what the plan itself asked for, and did not
 * accept to be weaker, fails. -errno with reply's wall and message set. */
int limits_apply(struct cell *s, const struct plan *p, const struct limits *limits,
                 struct plan_reply *reply);
/* The same question about limits that were applied already, for a plan that asks for just them. */
int limits_check(const struct cell *s, const struct plan *p, struct plan_reply *reply);

/* For cell_ops.apply_limits. Reply says that this wall cannot be limited, and why; returns error.
 */
int limits_refuse(struct plan_reply *reply, enum wall wall, int error, const char *why);
/* What can count the processes of a sandbox. */
enum limits_means {
    LIMITS_COUNT_IN_GROUP = 1, /* its control group, if there is one */
    LIMITS_COUNT_BY_UID = 2,   /* the kernel, by RLIMIT_NPROC: its user is no other sandbox's */
};
/* Writes the limits of control groups and says what enforces each wall but the disk. */
int limits_apply_groups(struct cell *s, const struct plan *p, const struct limits *limits,
                        unsigned means, struct plan_reply *reply);
/* Chooses the kind of disk; after the groups, because a tmpfs depends on the memory limit. */
int limits_apply_disk(struct cell *s, const struct plan *p, const struct limits *limits,
                      struct plan_reply *reply);
