/* SPDX-License-Identifier: Apache-2.0 */
/* Web pages of other origins that the operator lets call (allowed_origins): which headers a browser
 * gets.
 *
 * Never with credentials: no cookie or password of the browser's counts here, and such a page has
 * to bring a key or the token itself, also where others need none. */
#pragma once

#include <stdbool.h>

struct services;
struct http_request;

/* Where pages may call, every answer depends on the Origin, also those to requests without one: a
 * cache must not give a page the answer that another caller got. */
void cors_put_vary(const struct services *o, struct http_request *http);
/* The Origin of a request, if it is one of allowed_origins and not the daemon's own; or NULL. */
const char *cors_find_page(const struct services *o, const struct http_request *http);
/* Lets the page read the answer. */
void cors_put_headers(struct http_request *http, const char *page);
/* Whether it is a browser's question before a call. */
bool cors_is_preflight(const struct http_request *http);
/* Its answer, with the methods of the path. */
void cors_put_preflight(struct http_request *http, const char *methods);
