/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a host through the gateway. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;

#define DIAL_DETAIL_SIZE 256

/* Connects to the gateway's socket, asks for host and port, and returns the stream once the gateway
 * has connected it, or negative with err set: ERROR_DENIED with "host not allowed" where a policy
 * said no, ERROR_TOOL_FAILED otherwise. detail gets the gateway's own words. deadline_ms is on the
 * monotonic clock. */
int dial_open(const char *socket_path, const char *host, uint16_t port, int64_t deadline_ms,
              char detail[DIAL_DETAIL_SIZE], struct error *err);
