/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC 2.0 as MCP narrows it: from bytes to messages, and the envelopes of what is sent.
 *
 * An id is a string or a whole number of any size, and is kept as the JSON text that is echoed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "mcp/call.h"

struct error;
struct strbuf;

#define RPC_ID_MAX 1024 /* bytes of an id's text */

enum rpc_kind {
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESPONSE,
    RPC_INVALID, /* error says why; id is there when it could be read */
};

/* Borrows from the parsed text, but for id. */
struct rpc_message {
    enum rpc_kind kind;
    char *id;             /* JSON text, or NULL */
    const char *method;   /* of requests and notifications */
    const json_t *params; /* an object, or NULL */
    const json_t *result; /* of responses: one of the two */
    const json_t *error;
    int code; /* of RPC_INVALID */
    char why[200];
};

/* A whole number that json may have no room for: the "id" of a message, or its params' "requestId".
 */
struct rpc_big_id {
    size_t message;
    bool request_id;
    char *text;
};

/* What came in one piece: a message, or several. */
struct rpc_text {
    json_t *json; /* with 0 in place of the big ids */
    bool batch;
    struct rpc_big_id *big_ids;
    size_t n_big_ids;
};

/* 0, or negative with err set when it is not JSON. */
int rpc_text_parse(struct rpc_text *t, const char *data, size_t len, struct error *err);
void rpc_text_done(struct rpc_text *t);
size_t rpc_text_count(const struct rpc_text *t);
/* How many of the messages get an answer: requests, and what is not a message at all. */
size_t rpc_count_answers(const struct rpc_text *t);
/* The i-th message; the caller calls rpc_message_done(). */
void rpc_message_init(struct rpc_message *m, const struct rpc_text *t, size_t i);
void rpc_message_done(struct rpc_message *m);
/* The text of the "requestId" of the i-th message, which is m; NULL when there is none. The caller
 * frees it. */
char *rpc_request_id(const struct rpc_text *t, size_t i, const struct rpc_message *m);

/* Each appends one whole message; -EFBIG when it does not fit. id NULL: null. */
int rpc_format_result(struct strbuf *out, const char *id, const json_t *result);
int rpc_format_error(struct strbuf *out, const char *id, int code, const char *message);
int rpc_format_notification(struct strbuf *out, const char *method, const json_t *params);
int rpc_format_request(struct strbuf *out, const char *id, const char *method,
                       const json_t *params);
