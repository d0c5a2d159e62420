/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: the token, and that a web page in a user's browser cannot. */
#pragma once

#include <stdbool.h>

struct services;
struct error;
struct http_request;
struct identity;

/* Host must name this machine (an IP literal, localhost, or an allowed name), so that a page which
 * rebinds its own name to us is refused; Origin, where sent, must be ours or allowed. */
int auth_check_source(const struct services *o, struct http_request *http, struct error *err);
/* Whether a page of that origin may call the host. */
bool auth_origin_is_ours(const struct services *o, const char *origin, const char *host);
/* Whether its Authorization is a credential of ours, right or wrong, which no server behind us may
 * see. */
bool auth_authorization_is_ours(const struct services *o, struct http_request *http);
/* Whether every caller has to authenticate. */
bool auth_is_needed(const struct services *o);
/* Who sent it: Bearer or X-Sandbox-Token, compared in constant time. ERROR_UNAUTHORIZED for an
 * unknown caller, where callers must authenticate. */
int auth_identify(const struct services *o, struct http_request *http, struct identity *ret,
                  struct error *err);
/* ERROR_FORBIDDEN names the roles that would do; the caller needs one of them. */
int auth_check_role(const struct identity *who, unsigned roles, struct error *err);
