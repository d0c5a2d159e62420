/* SPDX-License-Identifier: Apache-2.0 */
/* The head of one request to an HTTP proxy, read strictly.
 *
 * The bytes come from a sandbox, so this is the one place that gives them a meaning: everything
 * that two readers could understand differently is refused (base/http-head.h; repeated or
 * contradicting Host and Content-Length, Transfer-Encoding). What goes
 * on to the server is written anew from what was understood and is the only request of its
 * connection, so that no second request can hide behind it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/http-head.h"
#include "base/target.h"

struct strbuf;

#define PROXY_HEAD_MAX HTTP_HEAD_MAX

struct proxy_head {
    struct target target;
    bool connect;              /* CONNECT: bytes follow in both directions */
    bool tls;                  /* of the other methods: an https:// URL */
    uint64_t body_bytes;       /* of the other methods: what follows the head, and no more */
    const char *method, *path; /* of those, borrowed from the head; the path with its query */
    size_t method_len, path_len;
    bool overrides; /* of those: see http_head_has_override() */
};

/* Reads a whole head. 0, or the HTTP status of a refusal with its reason in words. Unless it is a
 * CONNECT, the head that the server is to get is appended to out. */
int proxy_head_parse(const char *head, size_t len, struct proxy_head *ret, struct strbuf *out,
                     const char **ret_why);
