/* SPDX-License-Identifier: Apache-2.0 */
/* A request about images that waits for the keeper. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/request.h"
#include "keeper/images.h"

enum image_format { IMAGE_JSON, IMAGE_NDJSON, IMAGE_SSE };

struct image_call {
    struct api_request *req;         /* NULL: its caller has left */
    const struct services *services; /* of the request, and who made it */
    struct identity who;
    struct keeper_call *call;
    const char *outcome; /* for the audit, when it changes something; or NULL */
    char *image;
    json_t *items; /* of a list */
    enum image_format format;
    bool begun;     /* what it does is on record, and how that ended is not */
    bool goes_on;   /* without its caller, too, once it has begun */
    bool streaming; /* the answer has begun */
    bool slow;      /* the client does not read: progress is left out */
    struct image_removal removal;
    void *data; /* of an upload */
    void (*free_data)(void *data);
};

/* What the client asks for with Accept. */
enum image_format image_format_wanted(const struct api_request *req);
struct image_call *image_call_new(struct api_request *req, const char *outcome, const char *image);
/* Takes request. The answer is given when the keeper has given its own, or now (false) when it
 * cannot be asked; c is gone then. */
bool image_call_start(struct image_call *c, json_t *request, int fd);
