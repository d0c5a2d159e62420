/* SPDX-License-Identifier: Apache-2.0 */
/* http_client: one request with a caller's method, headers and body; the answer as it came. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "toolnet/args.h"
#include "toolnet/body.h"
#include "toolnet/toolnet.h"
#include "toolnet/transfer.h"

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};

static int parse_method(const json_t *args, const char **ret, struct error *err)
{
    const char *name = "GET";
    int r = json_member_string(args, "method", &name, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ELEMENTS(methods); i++)
        if (strcasecmp(name, methods[i]) == 0 || !*name) {
            *ret = methods[i];
            return 0;
        }
    return error_field(err, "method",
                       "'method' must be GET, HEAD, POST, PUT, DELETE, PATCH or "
                       "OPTIONS");
}

static int parse_headers(const json_t *args, struct transfer_request *req, struct error *err)
{
    json_t *headers = NULL, *value;
    const char *name;
    int r = json_member_object(args, "headers", &headers, err);
    if (r <= 0)
        return r;
    json_object_foreach(headers, name, value)
    {
        const char *text = json_string_value(value);
        if (!text)
            return error_field(err, "headers", "header '%.64s' must be a string", name);
        r = transfer_add_header(req, name, text, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_request(const struct toolnet *net, const json_t *args,
                         struct transfer_request *req, struct strbuf *json, struct error *err)
{
    int r = parse_method(args, &req->method, err);
    if (r < 0 || (r = args_string(args, "url", &req->url, err)) < 0 ||
        (r = args_timeout(net, args, &req->timeout_ms, err)) < 0 ||
        (r = parse_headers(args, req, err)) < 0)
        return r;
    /* A string is sent as it is; any other JSON value is sent as JSON. */
    json_t *body = json_object_get(args, "body");
    if (!body || json_is_null(body))
        return 0;
    if (json_is_string(body)) {
        req->body = json_string_value(body);
        req->body_len = json_string_length(body);
        return 0;
    }
    if (json_format(body, json) < 0)
        return error_field(err, "body", "'body' is too large");
    req->body = json->data;
    req->body_len = json->len;
    for (size_t i = 0; i < req->n_headers; i++)
        if (strcasecmp(req->headers[i].name, "Content-Type") == 0)
            return 0;
    return transfer_add_header(req, "Content-Type", "application/json", err);
}

/* Everything that the server said is in the result, also where its status is an error: what that
 * means is for the caller to decide. */
static json_t *format_result(const struct transfer_response *res, int64_t ns, const char *error)
{
    bool base64, success = !error && res->status >= 200 && res->status < 300;
    char duration[CLOCK_DURATION_SIZE];
    clock_format_duration(ns, duration);
    const char *data = res->body.data ? res->body.data : "";
    const char *type = transfer_find_header(res, "Content-Type");
    json_t *body = body_json(data, res->body.len, res->truncated, type, &base64);
    json_t *out =
        json_pack("{s:b, s:i, s:s, s:O, s:o, s:I, s:s}", "success", success, "status_code",
                  (int)res->status, "status", res->status_text, "headers", res->headers, "body",
                  body, "size", (json_int_t)res->body.len, "duration", duration);
    if (base64)
        json_object_set_new(out, "body_encoding", json_string("base64"));
    if (res->truncated)
        json_object_set_new(out, "truncated", json_true());
    if (error)
        json_object_set_new(out, "error", json_string(error));
    else if (!success)
        json_object_set_new(out, "error", json_sprintf("HTTP %s", res->status_text));
    return out;
}

int toolnet_http_client(const struct toolnet *net, const json_t *args, json_t **ret,
                        struct error *err)
{
    struct transfer_request req = {0};
    struct transfer_response res = {0};
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(TOOLNET_BODY_MAX);
    int64_t start_ns = clock_mono_ns();
    int r = parse_request(net, args, &req, &json, err);
    if (r == 0) {
        r = transfer_run(net, &req, &res, err);
        int64_t ns = clock_mono_ns() - start_ns;
        _cleanup_free_ char *failure = r < 0 ? transfer_failure_text(&res, err) : NULL;
        if (r == 0 || err->code != ERROR_INVALID)
            *ret = format_result(&res, ns, failure);
    }
    transfer_request_done(&req);
    transfer_response_done(&res);
    return r;
}
