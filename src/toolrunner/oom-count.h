/* SPDX-License-Identifier: Apache-2.0 */
/* How many processes the kernel has killed at this container's limit of memory. In a pod only the
 * inside can say so: the control plane sees no control group of the node's. */
#pragma once

#include <stdint.h>

/* 0 also where it is not to be read. */
uint64_t oom_count(void);
