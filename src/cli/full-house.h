/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this host has what all sandboxes at once may take, each with the daemon's default
 * limits: memory, and what the kernel shares out among all users and charges to no sandbox. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define FULL_HOUSE_DETAIL 200

/* One row of the comparison. Capacity is that of GET /v1/status. */
struct full_house_row {
    bool fits;
    const char *name, *advice;
    char detail[FULL_HOUSE_DETAIL];
};

/* Calls on_row for each pool that both sides know. */
void full_house_compare(const json_t *capacity, void (*on_row)(const struct full_house_row *row));
