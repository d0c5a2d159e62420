/* SPDX-License-Identifier: Apache-2.0 */
/* Validations that wait for a worker.
 *
 * A text takes up to validate_timeout of a thread, and all work shares the pool of threads. So at
 * most VALIDATE_RUNNING are looked at together, the callers take turns one text each, and both what
 * one caller and what all of them have waiting is bounded. */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "validate/validate.h"

#define VALIDATE_RUNNING 2 /* of the four threads of libuv's pool */

struct validate_queue;
struct validate_job;

struct validate_queue_options {
    uv_loop_t *loop;
    struct validate_limits limits;
    size_t max_waiting, max_waiting_per_caller; /* not counting those that are being looked at */
};

struct validate_queue *validate_queue_new(const struct validate_queue_options *o);
/* What waits is dropped without a word; what runs ends alone. */
void validate_queue_free(struct validate_queue *q);
/* Copies the text. on_done comes once, from the loop, unless the job was cancelled; v is its to
 * look at. NULL with ERROR_LIMIT when too many wait. */
struct validate_job *validate_queue_add(struct validate_queue *q, const char *caller,
                                        const char *text, size_t len,
                                        void (*on_done)(void *data, const struct validation *v),
                                        void *data, struct error *err);
/* The caller is gone: a text that still waits is not looked at. */
void validate_job_cancel(struct validate_job *job);
