/* SPDX-License-Identifier: Apache-2.0 */
/* Unguessable ids, and numbers that keep others from doing the same at the same moment. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Writes len characters of [a-z0-9] (about 5.17 bits each) and a NUL. */
void random_id(char *out, size_t len);
/* From 0 to n - 1; 0 for n = 0. Not for secrets: small numbers are a little likelier. */
uint32_t random_below(uint32_t n);
