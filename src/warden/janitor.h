/* SPDX-License-Identifier: Apache-2.0 */
/* A process that removes cgroups for the warden.
 *
 * Making, joining and removing a cgroup can wait for the kernel's global cgroup lock, which
 * a process that joins holds for an RCU grace period (10 to 28 ms measured). The warden must not
 * wait, so blanks make and join their own groups and the janitor removes them. It also outlives a
 * warden that was killed for the moment it takes to remove all groups of that instance. */
#pragma once

#include <sys/types.h>

struct cgroup;
struct cgroup_root;

struct janitor {
    pid_t pid; /* 0: none */
    int sock;
};

/* Forks it, unless root has no driver. 0 or -errno. */
int janitor_start(struct janitor *j, const struct cgroup_root *root);
/* Hands a dead sandbox's group over; cg is empty afterwards. */
void janitor_remove(struct janitor *j, struct cgroup *cg);
/* Waits until it has removed everything of this instance, within its time limit. */
void janitor_stop(struct janitor *j);
