/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes of one-shot runs that are over.
 *
 * Killing one is a millisecond of the kernel's work (mounts, network, cgroups), which would be in
 * the way of the next request. Those that are empty wait in a list: deleted together when no
 * command was started for a moment, one by one when the list is full, and all at the latest after a
 * quarter of a second. A sandbox in the list is READY, hidden and counted like any other; where
 * room is scarce nothing waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "loop/loop.h"

struct manager;
struct sandbox;

struct retirement {
    struct list list; /* oldest first */
    size_t count;
    int64_t busy_ms; /* when a command was last started */
    struct loop_timer timer;
};

void retirement_init(struct manager *m);
/* A command is being started: not now. */
void retirement_postpone(struct manager *m);
/* It is being deleted, by whomever. */
void retirement_remove(struct sandbox *sb);
bool sandbox_is_retired(const struct sandbox *sb);
