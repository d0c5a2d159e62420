/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that came over the channel and has not said HELLO yet.
 *
 * The one in use stays until then. What carries connections into a sandbox may deliver one late,
 * after a newer one: its other end is gone and it says nothing, or its HELLO tells that it is the
 * older one. Either way it is closed here, and disturbs nothing. */
#pragma once

#include <stddef.h>

#include "base/list.h"

#define NEWCOMERS_MAX 8 /* the oldest makes room */
/* How long HELLO may take: as long as mas-vmm waits for a guest's own answer (vmm/serve.c). A guest
 * under emulation on a busy host needs more than ten seconds to carry it to the runner, and a
 * connection that is given up is a dead sandbox. */
#define NEWCOMER_MS 60000

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
