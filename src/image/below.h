/* SPDX-License-Identifier: Apache-2.0 */
/* Paths below a directory descriptor, in trees that a stranger has laid out.
 *
 * Nothing here leaves the directory it starts from: relative links that stay below are followed
 * where said, absolute ones and those that climb out are -EXDEV. */
#pragma once

#include <stdint.h>

/* Opens path ("" is the directory itself) with openat2(RESOLVE_BENEATH). */
int below_open(int dir_fd, const char *path, uint64_t flags);
/* The same where no component may be a link: -ELOOP. */
int below_open_plain(int dir_fd, const char *path, uint64_t flags);
/* Removes a file, or a directory with all that is in it. Not there is fine. Follows nothing. */
int below_remove(int dir_fd, const char *name);
/* Removes what is in a directory. */
int below_clear(int dir_fd);
