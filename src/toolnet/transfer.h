/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP exchange with its redirects, over streams of the gateway.
 *
 * Each hop is a connection of its own, so each is checked by the gateway. Only headers that
 * cannot be credentials follow a redirect to another origin. Names are never resolved here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "toolnet/dial.h"

struct error;
struct toolnet;

#define TRANSFER_HEADERS_MAX      64          /* of a request */
#define TRANSFER_HEADER_BYTES_MAX (32 * 1024) /* of a request */
#define TRANSFER_ANSWER_HEADERS   256
#define TRANSFER_ANSWER_BYTES     (128 * 1024)

struct transfer_header {
    char *name, *value;
};

struct transfer_request {
    const char *method; /* upper case */
    const char *url;
    struct transfer_header *headers;
    size_t n_headers;
    const char *body; /* NULL if there is none */
    size_t body_len;
    int64_t timeout_ms; /* for everything together */
};

struct transfer_response {
    long status;
    char status_text[128]; /* "200 OK" */
    char *url;             /* of the last hop */
    json_t *headers;       /* name in canonical case → value; repeated ones joined with ", " */
    struct strbuf body;
    bool truncated; /* the body was longer than the limit */
    int redirects;
    char detail[DIAL_DETAIL_SIZE]; /* the gateway's words, where it refused */
};

void transfer_response_done(struct transfer_response *r);
/* Appends a header after checking name and value. Headers that frame or route the message (Host,
 * Content-Length, Connection, ...) are the client's business and left out. */
int transfer_add_header(struct transfer_request *req, const char *name, const char *value,
                        struct error *err);
void transfer_request_done(struct transfer_request *req);
/* NULL when absent; name in any case. */
const char *transfer_find_header(const struct transfer_response *r, const char *name);

/* A failure in words, with the gateway's where it refused. The caller frees. */
char *transfer_failure_text(const struct transfer_response *r, const struct error *err);
int transfer_run(const struct toolnet *net, const struct transfer_request *req,
                 struct transfer_response *ret, struct error *err);
