/* SPDX-License-Identifier: Apache-2.0 */
/* The bounding set: what no program that is executed from here on can bring back. */
#pragma once

#include <stdint.h>

/* Takes every capability out of it whose bit is not in keep. 0, or -errno, which is -EPERM for a
 * process that may not (CAP_SETPCAP): no_new_privs is what keeps them away from such a one. */
int capability_bound(uint64_t keep);
