/* SPDX-License-Identifier: Apache-2.0 */
/* The system call filter of sandboxes, in the runner's own program: for a pod, whose container was
 * not built by a warden that could hand one over. */
#pragma once

#include <linux/filter.h>

/* Made by filter/write-filters.c; the second one where the runner still adds one to it. */
extern const struct sock_fprog own_filter_whole, own_filter_nesting;

/* For good, and for every command. no_new_privs must be set. 0 or -errno. */
int own_filter_apply(int landlock_abi);
