/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers of wardens that were killed: cgroups and disk images, told from those of living wardens
 * by the pid and start time in their names. Processes and mounts need no sweep: they die with a
 * warden. */
#pragma once

#include <stddef.h>

/* "<prefix>-<pid>-<start time>" of the calling process. */
void sweep_instance_name(const char *prefix, char *ret, size_t size);
/* Removes the directory and the groups in it; returns how many were removed. Only empty groups can
 * be, so a name that is in use after all stays. */
int sweep_cgroup_tree(int parent_fd, const char *name);
/* All cgroups of dead instances in all mounted hierarchies; and images below state_fd (-1: none).
 */
int sweep_cgroups(const char *prefix);
int sweep_images(int state_fd, const char *prefix);
