/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that came over the channel and has not said HELLO yet.
 *
 * The one in use stays until then. What carries connections into a sandbox may deliver one late,
 * after a newer one: its other end is gone and it says nothing, or its HELLO tells that it is the
 * older one. Either way it is closed here, and disturbs nothing. */
#pragma once

#include <stddef.h>

#include "base/list.h"

#define NEWCOMERS_MAX 8     /* the oldest makes room */
#define NEWCOMER_MS   10000 /* how long HELLO may take */

struct runner;

struct newcomers {
    struct runner *runner;
    struct list list;
    size_t n;
};

void newcomers_init(struct newcomers *n, struct runner *r);
void newcomers_done(struct newcomers *n);
/* Takes fd. */
void newcomers_take(struct newcomers *n, int fd);
