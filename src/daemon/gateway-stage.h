/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's process between execution and gateway_main(). */
#pragma once

#include <stdbool.h>

struct config;

/* Before the process becomes the warden: a sealed memory file with what a gateway needs to know,
 * and nothing else of the configuration, or -errno. */
int gateway_stage_seal(bool privileged, const struct config *c);
/* Returns the exit status. */
int gateway_stage(void);
