/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: path, query and authority, decoded in place. */
#pragma once

#include <stddef.h>

struct http_field {
    char *name, *value;
};

struct request_target {
    char *path;      /* decoded but for %2F and %25, begins with '/', or "*" */
    char *authority; /* of an absolute-form target without its user part, or NULL */
    size_t n_query;
};

/* Decodes target[0..len) in place; target[len] is overwritten with NUL and the byte before an
 * authority may be too. query has room for max parameters. 0, or -EINVAL: malformed, a bad escape,
 * an escaped NUL or too many parameters. */
int request_target_parse(char *target, size_t len, struct request_target *ret,
                         struct http_field *query, size_t max);
