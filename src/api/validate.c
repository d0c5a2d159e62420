/* POST /api/validate: what a text from outside tries. Long ones are looked at on a worker. */
#include <string.h>

#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "guard/validate.h"

#define INLINE_MAX 2048 /* bytes that take well under a millisecond */

static void on_abort(struct api_request *req)
{
    *(struct api_request **)req->state = NULL;
}

static void on_validated(void *data, const struct validation *v)
{
    struct api_request **req = data;
    if (*req)
        api_reply(*req, 200, validation_to_json(v));
    free(data);
}

void handle_validate(struct api_request *req)
{
    struct error err = {0};
    const char *text = NULL;
    const struct validate_limits limits = {.max_bytes = req->options->max_body_bytes,
                                           .timeout_ms = req->options->validate_timeout_ms};
    int r = json_member_string(req->body, "input", &text, &err);
    if (r >= 0 && !text)
        r = json_member_string(req->body, "text", &text, &err);
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
    struct api_request **pending = xcalloc(1, sizeof(*pending));
    *pending = req;
    req->state = pending;
    req->on_abort = on_abort;
    validate_start(req->options->loop, text, len, &limits, on_validated, pending);
}
