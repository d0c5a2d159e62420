/* SPDX-License-Identifier: Apache-2.0 */
/* The right that Landlock lacks before ABI 3 (Linux 6.2): a process that may not write a file could
 * still empty it, by its path or by opening it for reading with O_TRUNC. */
#pragma once

#include <stdbool.h>

/* Refuses both to the calling process and what it starts, by a system call filter; openat2, whose
 * flags a filter cannot see, is ENOSYS. Not narrow: empties are allowed. Further filters are
 * refused in any case, as the sandbox's own filter does where the runner needs none. no_new_privs
 * must be set. Allocates nothing. 0 or -errno. */
int truncate_filter_enter(bool narrow);
