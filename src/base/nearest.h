/* SPDX-License-Identifier: Apache-2.0 */
/* Names that were mistyped, and the ones that were meant. */
#pragma once

#include <stddef.h>

#define NEAREST_NAME_MAX 63 /* longer ones are never taken for one another */

/* How many letters have to be added, taken away or changed; SIZE_MAX when either is too long. */
size_t nearest_distance(const char *a, const char *b);
/* How far off a name may be and still be taken for a mistyped one. */
size_t nearest_patience(const char *written);
