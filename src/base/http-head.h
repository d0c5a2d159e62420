/* SPDX-License-Identifier: Apache-2.0 */
/* The head of one HTTP/1 message, read strictly and without copying.
 *
 * What stands between two parties must give their bytes one meaning: everything that two readers
 * could understand differently is refused (bare CR or LF, folded lines, spaces around a name,
 * control bytes). What a head means beyond its lines is its user's to say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/target.h"

#define HTTP_HEAD_MAX    16384
#define HTTP_HEADERS_MAX 100

/* A piece of the head, not terminated. */
struct text {
    const char *at;
    size_t len;
};

struct http_header {
    struct text name, value; /* the value without spaces around it */
};

struct http_head {
    struct text method, target; /* of a request */
    int status;                 /* of an answer */
    struct text reason;
    bool version_1_1; /* else 1.0 */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t n_headers;
    const char *why; /* with a refusal: its reason in words */
};

/* The length of the head with the empty line that ends it; 0 while that has not come. */
size_t http_head_length(const char *data, size_t len);
/* Each reads a whole head, whose pieces point into data: 0, or the HTTP status of a refusal. */
int http_head_parse_request(struct http_head *h, const char *data, size_t len);
int http_head_parse_answer(struct http_head *h, const char *data, size_t len);

int http_head_refuse(struct http_head *h, int status, const char *why);
/* The only header of a name, or NULL where there is none. Twice is a refusal. */
int http_head_find_once(struct http_head *h, const char *name, const struct http_header **ret);
/* Content-Length in decimal digits; a missing one leaves *ret_length NULL and *ret 0. */
int http_head_find_length(struct http_head *h, const struct http_header **ret_length,
                          uint64_t *ret);
/* Whether a Connection header names this one, which ends here then, too. */
bool http_head_is_named_by_connection(const struct http_head *h, struct text name);

/* Whether a header names another method or path, which some servers take for the request's. */
bool http_head_has_override(const struct http_head *h);

/* Is it that word, in any letter case? */
bool text_is(struct text t, const char *word);
/* "host:port" or "host" (port 0). */
int text_parse_authority(struct text t, struct target *ret);
