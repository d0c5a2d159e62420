/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of variables (table-env.c), for env.c and for what tests them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Names that are known to change nothing, with spaces between them: they win over all others. */
extern const char shell_env_harmless[];
/* Lists of names that are known to change what a command means. A '*' at the end: every name that
 * starts so. */
extern const char *const shell_env_harmful[];
extern const size_t shell_env_harmful_count;

/* By its look alone: is this a name that programs take code, options or places of code from? */
bool shell_env_may_load(const char *name, size_t len);
