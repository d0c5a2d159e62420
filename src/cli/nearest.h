/* SPDX-License-Identifier: Apache-2.0 */
/* Which known name was probably meant by an unknown word. */
#pragma once

#include <stddef.h>

struct nearest {
    const char *word; /* what was written */
    const char *name; /* the nearest name so far; NULL where none is near */
    size_t distance;  /* its number of changed letters */
};

/* Considers one more name, which must outlive n. */
void nearest_add(struct nearest *n, const char *name);
