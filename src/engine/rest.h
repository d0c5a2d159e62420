/* SPDX-License-Identifier: Apache-2.0 */
/* One engine's REST API over its Unix socket: blocking, one request at a time, with a limit on time
 * and size. The engine is trusted with the host, not with our memory: answers are bounded and
 * parsed strictly. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define REST_VERSION_SIZE 16

struct rest {
    const char *socket; /* borrowed */
    uint32_t timeout_ms, connect_timeout_ms;
    char why[200]; /* of the last failure, or the engine's own words */
    /* What the last answer's head says, "" where nothing. */
    char api_version[REST_VERSION_SIZE], libpod_version[REST_VERSION_SIZE];
    size_t header_bytes;
    bool head_ended;
};

void rest_open(struct rest *r, const char *socket, uint32_t timeout_ms);
/* The HTTP status, or -errno with r->why: -EHOSTDOWN when nothing answers there, or not in time,
 * -EPROTO when what answers makes no sense. body may be NULL. *ret (may be NULL) gets the answer,
 * or NULL where there is none. Of a status from 400 on, why is what the engine says. */
int rest_call(struct rest *r, const char *method, const char *path, const json_t *body,
              json_t **ret);
/* The same for POST with what can be read from fd as a tar archive; takes as long as it takes while
 * bytes flow. */
int rest_upload(struct rest *r, const char *path, int fd, json_t **ret);
/* What an engine says, fit for a line of a log: printable ASCII, "?" for all else. */
void rest_make_printable(char *text);
