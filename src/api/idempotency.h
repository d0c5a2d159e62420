/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Key: a repeated request is answered with what the first one got, never done twice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_request;
struct idempotency;
struct idempotency_table;
struct store;

/* store (may be NULL) keeps answers across restarts; those of earlier processes are loaded at once.
 */
struct idempotency_table *idempotency_table_new(size_t max, size_t max_per_key, uint64_t keep_ms,
                                                struct store *store);
void idempotency_table_free(struct idempotency_table *t);
/* True: go on (with req->idempotency set where a key was given). False: the request was answered,
 * or waits for the first one's answer. */
bool idempotency_begin(struct idempotency_table *t, struct api_request *req, const char *body,
                       size_t len);
/* Stops what is still being done for an API key that may not ask for the answer any more. */
void idempotency_key_ended(struct idempotency_table *t, const char *owner);
/* A name for what the request makes, the same whenever it is repeated: found again after a restart
 * in the middle. */
const char *idempotency_name(const struct idempotency *entry);
/* Remembers the answer, then calls answer(req) once it is on record: from inside where there is no
 * store. */
void idempotency_finish(struct idempotency *entry, int status, const char *body, size_t len,
                        void (*answer)(struct api_request *req, int status, const char *body,
                                       size_t len),
                        struct api_request *req);
