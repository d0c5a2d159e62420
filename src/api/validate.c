/* POST /api/validate: what a text from outside tries. Long ones are looked at on a worker. */
#include <string.h>

#include "api/handlers.h"
#include "base/json.h"
#include "guard/validate.h"

#define INLINE_MAX 2048 /* bytes that take well under a millisecond */

static void on_validated(void *data, const struct validation *v)
{
    struct api_request *req = api_later_done(data);
    if (req)
        api_reply(req, 200, validation_to_json(v));
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
    validate_start(req->options->loop, text, len, &limits, on_validated, api_later(req));
}
