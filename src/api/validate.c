/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/validate: what a text from outside tries. Long ones wait for a worker. */
#include <string.h>

#include "api/handlers.h"
#include "api/internal.h"
#include "base/json.h"
#include "validate/queue.h"

#define INLINE_MAX 2048 /* bytes that take well under a millisecond */

static void on_validated(void *data, const struct validation *v)
{
    struct api_request *req = data;
    req->on_abort = NULL;
    api_reply(req, 200, validation_to_json(v));
}

static void on_validate_abort(struct api_request *req)
{
    validate_job_cancel(req->state);
}

/* Who takes turns: the key, or the address of a caller without one. */
static void validate_later(struct api_request *req, const char *text, size_t len)
{
    struct error err = {0};
    const char *caller = *req->owner ? req->owner : http_request_address(req->http);
    req->state =
        validate_queue_add(req->api->validations, caller, text, len, on_validated, req, &err);
    if (req->state)
        req->on_abort = on_validate_abort;
    else
        api_fail(req, &err);
}

void handle_validate(struct api_request *req)
{
    struct error err = {0};
    const char *text = NULL, *other = NULL;
    const struct validate_limits limits = {.max_bytes = req->services->config.max_body_bytes,
                                           .timeout_ms = req->services->config.validate_timeout_ms};
    int r = json_member_string(req->body, "input", &text, &err);
    if (r >= 0)
        r = json_member_string(req->body, "text", &other, &err);
    if (r >= 0 && text && other)
        r = error_field(&err, "text", "'input' and 'text' are two names of one text: send one");
    text = text ? text : other;
    if (r >= 0 && !text)
        r = error_field(&err, "input", "'input' is missing: the text to look at");
    if (r < 0) {
        api_fail(req, &err);
        return;
    }
    size_t len = strlen(text);
    if (len <= INLINE_MAX) {
        struct validation v;
        validate_text(text, len, &limits, &v);
        api_reply(req, 200, validation_to_json(&v));
        validation_done(&v);
        return;
    }
    validate_later(req, text, len);
}
