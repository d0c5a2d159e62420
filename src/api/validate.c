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

int handle_validate(struct api_request *req)
{
    const char *text = NULL, *other = NULL;
    const struct validate_limits limits = {.max_bytes = req->services->config.max_body_bytes,
                                           .timeout_ms = req->services->config.validate_timeout_ms};
    int r = json_member_string(req->body, "input", &text, req->err);
    if (r < 0)
        return r;
    r = json_member_string(req->body, "text", &other, req->err);
    if (r < 0)
        return r;
    if (text && other)
        return error_field(req->err, "text",
                           "'input' and 'text' are two names of one text: send one");
    text = text ? text : other;
    if (!text)
        return error_field(req->err, "input", "'input' is missing: the text to look at");
    size_t len = strlen(text);
    if (len <= INLINE_MAX) {
        struct validation v;
        validate_text(text, len, &limits, &v);
        api_reply(req, 200, validation_to_json(&v));
        validation_done(&v);
        return 0;
    }
    /* Who takes turns: the key, or the address of a caller without one. */
    struct error err = {0};
    const char *caller = *req->owner ? req->owner : http_request_address(req->http);
    req->state =
        validate_queue_add(req->api->validations, caller, text, len, on_validated, req, &err);
    if (req->state)
        req->on_abort = on_validate_abort;
    else
        api_fail(req, &err);
    return 0;
}
