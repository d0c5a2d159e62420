/* SPDX-License-Identifier: Apache-2.0 */
/* Places where a test has the control plane or the warden killed, by name:
 * MAS_FAULT=name[:count[:generation]], or several with commas between them, one for a generation.
 *
 * The process gets SIGKILL when it passes the place for the count-th time (1). Only the control
 * plane of that generation (1, the first after the start) is armed, so that the next one lives; and
 * only with --debug-endpoints. Unarmed, a place costs one comparison. */
#pragma once

#include <stddef.h>
#include <stdint.h>

extern const char *fault_armed; /* NULL if there is none */

#define FAULT_WARDEN 0 /* instead of a generation: the warden, and with it the daemon */

/* text may be NULL. Not for concurrent use; fault_point() may then be on any thread. */
void fault_arm(const char *text, uint64_t generation);
void fault_hit(const char *name);

static inline void fault_point(const char *name)
{
    if (__builtin_expect(fault_armed != NULL, 0))
        fault_hit(name);
}
