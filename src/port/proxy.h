/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request of a caller, passed on to a server inside a sandbox, and its answer back.
 *
 * Each request has a connection of its own to the server, so that no byte of one can be taken for
 * part of another. Bodies stream both ways at the pace of the slower side. The request is written
 * anew from what was parsed (net/parse.c), the answer from what port/head.h has parsed, through the
 * filter of port/filter.h. A WebSocket handshake that the server accepts joins the two connections.
 *
 * The caller gets an error for what went wrong before an answer began: 502 where nothing listens,
 * the server left or does not keep to HTTP; 504 where it does not answer. After that the connection
 * is cut. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct http_request;
struct sandbox;

struct port_request {
    struct sandbox *sandbox;
    uint16_t port;
    const char *prefix;         /* of paths from outside; "": the server has a host of its own */
    const char *target;         /* path and query for the server, as the caller wrote them */
    bool keeps_authorization;   /* it is not ours */
    uint64_t answer_timeout_ms; /* until the head of an answer */
};

/* Takes http, whose handler and abort callback are this module's from now on; copies what req has.
 */
void port_proxy_start(struct http_request *http, const struct port_request *req);
/* Answers with the error as the API shows it. */
void port_answer_error(struct http_request *http, const struct error *err);
