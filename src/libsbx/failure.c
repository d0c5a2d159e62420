/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: from our own checks, from libcurl, and from the daemon's answers in each of its shapes.
 */
#include "libsbx/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill_error(struct sbx_error *err, const char *code, int status, const char *message)
{
    if (!err)
        return;
    snprintf(err->code, sizeof(err->code), "%s", code);
    err->http_status = status;
    snprintf(err->message, sizeof(err->message), "%s", message);
    *err->approval_id = 0;
}

int libsbx_fail(struct sbx_error *err, const char *code, const char *fmt, ...)
{
    char message[sizeof(err->message)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    fill_error(err, code, 0, message);
    return -1;
}

/* For answers that carry no code of their own. */
static const struct {
    int status;
    const char *code;
} status_codes[] = {
    {202, "pending_approval"}, {400, "invalid_request"}, {401, "unauthorized"},
    {403, "forbidden"},        {404, "not_found"},       {405, "method_not_allowed"},
    {409, "conflict"},         {413, "too_large"},       {422, "unenforceable"},
    {429, "limit_exceeded"},   {502, "sandbox_crash"},   {503, "unavailable"},
    {504, "timeout"},          {507, "no_space"},
};

static const char *code_of_status(int status)
{
    for (size_t i = 0; i < ELEMENTS(status_codes); i++)
        if (status_codes[i].status == status)
            return status_codes[i].code;
    return status >= 500 ? "internal" : "invalid_request";
}

bool libsbx_is_ok(long status)
{
    return status / 100 == 2 && status != 202;
}

int libsbx_fail_http(struct sbx_error *err, int status, const char *body, size_t len)
{
    _cleanup_json_ json_t *root = body ? json_loadb(body, len, 0, NULL) : NULL;
    json_t *e = json_object_get(root, "error");
    const char *code = json_string_value(json_object_get(e, "code"));
    const char *message = json_string_value(json_object_get(e, "message"));
    const char *field = json_string_value(json_object_get(e, "field"));
    if (!message)
        message = json_string_value(e);
    if (!message)
        message = json_string_value(json_object_get(root, "detail"));
    if (!message)
        message = json_string_value(json_object_get(root, "message"));
    const char *approval = json_string_value(json_object_get(root, "approval_id"));
    if (approval)
        code = "pending_approval";
    char text[sizeof(err->message)];
    if (!message)
        snprintf(text, sizeof(text), "the daemon answered HTTP %d", status);
    else if (field && *field && !strstr(message, field))
        snprintf(text, sizeof(text), "%s: %s", field, message);
    else
        snprintf(text, sizeof(text), "%s", message);
    fill_error(err, code ? code : code_of_status(status), status, text);
    if (err && approval)
        snprintf(err->approval_id, sizeof(err->approval_id), "%s", approval);
    return -1;
}

static const char *code_of_curl(CURLcode code)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return "timeout";
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return "invalid_request";
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_WRITE_ERROR:
        return "canceled";
    default:
        return "unavailable";
    }
}

int libsbx_fail_curl(struct sbx_error *err, const struct sbx_client *c, CURLcode code,
                     const char *detail)
{
    if (*c->distrust)
        return libsbx_fail(err, "unavailable", "%s: %s", c->address, c->distrust);
    return libsbx_fail(err, code_of_curl(code), "%s: %s", c->address,
                       *detail ? detail : curl_easy_strerror(code));
}
