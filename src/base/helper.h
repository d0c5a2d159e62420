/* SPDX-License-Identifier: Apache-2.0 */
/* Helper processes: copies of a process of ours that do one thing for it and end.
 *
 * A helper that outlived its parent would keep what it copied: listening sockets, locks, keys. So
 * every helper is tied to its parent by its very first instructions, and has no descriptors but
 * those that it needs. The caller must be single-threaded or call this from the thread that lives
 * as long as the process: the kernel ties a child to the thread that forked it. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* fork(), except that the child dies with the caller and has only standard input, output and error
 * and the descriptors in keep (-1 is skipped). A change of credentials in the child undoes the tie;
 * helper_tie() after it makes it again. Returns -errno, 0 in the child, or the child's pid. */
pid_t helper_fork(const int *keep, size_t n_keep);
/* In a child: kills it when its parent ends, and ends it now if that has happened already. */
void helper_tie(pid_t parent);
