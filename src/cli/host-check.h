/* SPDX-License-Identifier: Apache-2.0 */
/* What this host offers for isolation, looked at directly: each check is a row of a table with
 * advice for when it fails. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HOST_CHECK_DETAIL 160

struct host_check {
    const char *name;
    const char *advice; /* how to get it */
    bool (*look)(char detail[HOST_CHECK_DETAIL]);
};

/* The number in a one-number file, or fallback. */
long host_number(const char *path, long fallback);

extern const struct host_check host_checks[];
extern const size_t n_host_checks;
