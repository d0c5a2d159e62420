/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that pass an interceptor: a request on its way to the server, which gets its secrets
 * here, and the answers on their way back.
 *
 * A connection carries one request and its answer, both written anew with "Connection: close", so
 * that nothing can hide behind a body. A request must be HTTP/1.1 with one Host that is the host of
 * its connection. HTTP/2 has no place here, so gRPC and WebSockets are refused by name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/http-head.h"

struct pair;
struct strbuf;

#define ANSWER_HEAD_MAX (2 * HTTP_HEAD_MAX)

enum head_body { BODY_NONE, BODY_LENGTH, BODY_CHUNKED };

struct head_request {
    enum head_body body;
    uint64_t body_bytes;        /* of BODY_LENGTH */
    struct text method, target; /* borrowed from the head */
    bool overrides;             /* see http_head_has_override() */
};

/* Of the connection that the head came on. */
struct head_place {
    const char *host;
    uint16_t port;
    const struct pair *pairs; /* those for other hosts are passed over */
    size_t n_pairs;
};

/* Appends the head that the server gets to out. 0, or the HTTP status of a refusal with its reason.
 */
int head_rewrite_request(const char *data, size_t len, const struct head_place *place,
                         struct head_request *ret, struct strbuf *out, const char **ret_why);
/* Appends the head that the client gets to out. 0 with the answer's status, or 502 with a reason.
 */
int head_rewrite_answer(const char *data, size_t len, int *ret_status, struct strbuf *out,
                        const char **ret_why);
