/* SPDX-License-Identifier: Apache-2.0 */
/* Unguessable ids. */
#pragma once

#include <stddef.h>

/* Writes len characters of [a-z0-9] (about 5.17 bits each) and a NUL. */
void random_id(char *out, size_t len);
