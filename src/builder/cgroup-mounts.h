/* SPDX-License-Identifier: Apache-2.0 */
/* Where control groups are mounted, in the caller's mount namespace. */
#pragma once

/* Calls fn for each such mount, with the options of its hierarchy in super, until it returns less
 * than 0, which is returned. */
int cgroup_each_mount(int (*fn)(const char *fstype, const char *mountpoint, const char *super,
                                void *data),
                      void *data);
