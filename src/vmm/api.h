/* SPDX-License-Identifier: Apache-2.0 */
/* Firecracker's API: HTTP/1.1 requests with JSON bodies over a Unix socket, one after another on
 * one connection. Everything here waits for the answer, but never for longer than API_TIMEOUT_MS
 * and never for an emulator that is gone. The emulator may have been taken over by its guest: an
 * answer has a greatest length, and of one that is no HTTP nothing is used. */
#pragma once

#include <jansson.h>

#define API_TIMEOUT_MS 60000

struct vm;

/* Connects as soon as the emulator listens at this path. 0 or -errno. */
int api_open(struct vm *vm, const char *path);
/* Sends a request whose body is the object, which it takes. 0, or -errno; the emulator's own words
 * about a refusal are in api_message(). */
int api_call(const char *method, const char *path, json_t *body);
/* What was last refused, in the emulator's words, or "". */
const char *api_message(void);
void api_close(void);
