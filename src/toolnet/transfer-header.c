/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of both directions: what a caller may set, and what an answer's become. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "toolnet/transfer.h"

/* Set by the client itself. A caller's Host could name another site behind an allowed address. */
static const char *const own_headers[] = {
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Keep-Alive",
    "TE",
    "Trailer",
    "Upgrade",
    "Expect",
    "Proxy-Connection",
    "Proxy-Authorization",
};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(own_headers); i++)
        if (strcasecmp(name, own_headers[i]) == 0)
            return true;
    return false;
}

static bool name_ok(const char *name)
{
    if (!*name)
        return false;
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("!#$%&'*+-.^_`|~", *p))
            return false;
    return true;
}

static bool value_ok(const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if ((*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

static size_t headers_bytes(const struct transfer_request *req)
{
    size_t n = 0;
    for (size_t i = 0; i < req->n_headers; i++)
        n += strlen(req->headers[i].name) + strlen(req->headers[i].value);
    return n;
}

int transfer_add_header(struct transfer_request *req, const char *name, const char *value,
                        struct error *err)
{
    if (!name_ok(name))
        return error_field(err, "headers", "'%.64s' is not a header name", name);
    if (!value_ok(value))
        return error_field(err, "headers", "the value of header '%.64s' has control characters",
                           name);
    if (is_own(name))
        return 0;
    if (req->n_headers == TRANSFER_HEADERS_MAX ||
        headers_bytes(req) + strlen(name) + strlen(value) > TRANSFER_HEADER_BYTES_MAX)
        return error_field(err, "headers", "too many headers: at most %d and %d bytes",
                           TRANSFER_HEADERS_MAX, TRANSFER_HEADER_BYTES_MAX);
    req->headers = xrealloc(req->headers, (req->n_headers + 1) * sizeof(*req->headers));
    req->headers[req->n_headers++] =
        (struct transfer_header){.name = xstrdup(name), .value = xstrdup(value)};
    return 0;
}

void transfer_request_done(struct transfer_request *req)
{
    for (size_t i = 0; i < req->n_headers; i++) {
        free(req->headers[i].name);
        free(req->headers[i].value);
    }
    free(req->headers);
    *req = (struct transfer_request){0};
}

const char *transfer_find_header(const struct transfer_response *r, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach(r->headers, key,
                        value) if (strcasecmp(key, name) == 0) return json_string_value(value);
    return NULL;
}

void transfer_response_done(struct transfer_response *r)
{
    free(r->url);
    json_decref(r->headers);
    strbuf_done(&r->body);
    *r = (struct transfer_response){0};
}
