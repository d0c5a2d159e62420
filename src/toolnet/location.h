/* SPDX-License-Identifier: Apache-2.0 */
/* Where a tool's request goes: http and https URLs (base/url.h) of bounded length. */
#pragma once

#include <stdbool.h>

#include "base/url.h"

struct error;

struct location {
    char *text; /* as given */
    struct url url;
    char host[TARGET_TEXT_SIZE]; /* of url, as CONNECT lines have it */
};

void location_done(struct location *l);
/* ERROR_DENIED for a host that is another spelling of an address. */
int location_parse(const char *text, struct location *ret, struct error *err);
/* Same scheme, host and port: credentials may follow a redirect from a to b. */
bool location_same_origin(const struct location *a, const struct location *b);
/* base with name=value (encoded) added to its query. The caller frees; NULL on a bad base. */
char *location_add_query(const char *base, const char *name, const char *value);
