/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that waits until the change that it tells of is on record, so that no caller is
 * answered about what a kill could still undo. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct api_request;
struct error;
struct weak;

struct durable_reply {
    struct weak *req;
    int status;
    bool secret;    /* no cache may keep the answer */
    json_t *answer; /* the maker sets it, at any time before the change is on record */
};

struct durable_reply *durable_reply_new(struct api_request *req, int status);
/* What a store calls (store_done_fn): answers the caller, who may have left, and frees data. */
void durable_reply_send(void *data, const struct error *err);
/* Frees it without an answer. */
void durable_reply_free(struct durable_reply *d);
