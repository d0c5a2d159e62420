/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that wait for a command, or stream it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct api_request;
struct exec;
struct run_request;

enum run_mode {
    RUN_SYNC,   /* the result, when it is done */
    RUN_ASYNC,  /* its id, at once */
    RUN_STREAM, /* NDJSON events until it is done */
};

/* Starts what run says (copied) and answers req. view makes the body from the exec: finished with
 * RUN_SYNC, just started with RUN_ASYNC, unused with RUN_STREAM. A client that leaves a one-shot
 * ends it. */
void run_reply(struct api_request *req, const struct run_request *run, enum run_mode mode,
               json_t *(*view)(struct exec *e, size_t max_output), size_t max_output);

/* Cancels it and answers once that is on record, so that it counts as canceled after a restart too.
 */
void cancel_reply(struct api_request *req, struct exec *e, json_t *(*view)(const struct exec *e));
