/* SPDX-License-Identifier: Apache-2.0 */
/* The head of one request to an HTTP proxy, read strictly.
 *
 * The bytes come from a sandbox, so this is the one place that gives them a meaning: everything
 * that two readers could understand differently is refused (bare CR or LF, folded lines, spaces
 * around a name, repeated or contradicting Host and Content-Length, Transfer-Encoding). What goes
 * on to the server is written anew from what was understood and is the only request of its
 * connection, so that no second request can hide behind it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/target.h"

struct strbuf;

#define PROXY_HEAD_MAX    16384
#define PROXY_HEADERS_MAX 100

struct proxy_head {
    struct target target;
    bool connect;        /* CONNECT: bytes follow in both directions */
    uint64_t body_bytes; /* of the other methods: what follows the head, and no more */
};

/* The length of the head with the empty line that ends it; 0 while that has not come. */
size_t proxy_head_length(const char *data, size_t len);
/* Reads a whole head. 0, or the HTTP status of a refusal with its reason in words. Unless it is a
 * CONNECT, the head that the server is to get is appended to out. */
int proxy_head_parse(const char *head, size_t len, struct proxy_head *ret, struct strbuf *out,
                     const char **ret_why);
