/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic tokens of callers: the header X-Mas-Traffic-Token, and by host a cookie that a link which
 * works once has set. They are credentials for the ports of one sandbox, and of no route. */
#pragma once

#include <stdint.h>

struct api_request;
struct error;
struct sandbox;

#define TRAFFIC_ENTER "/.mas/enter" /* of a host: where links lead */

/* For a request for a port. 1: it carries a token, and counts as a call of the key that made the
 * token; 0: it carries none. ERROR_UNAUTHORIZED for an unknown token. */
int traffic_identify(struct api_request *req, struct error *err);
/* The one sandbox that the request's token is for, if that is its id or alias: no other exists for
 * it. */
struct sandbox *traffic_find_sandbox(struct api_request *req, const char *id_or_alias);
/* Whether the request's token, if that is how it came, is for this port of this sandbox.
 * ERROR_NOT_FOUND: what it is not for does not exist for it. */
int traffic_check_place(const struct api_request *req, struct sandbox *sb, uint16_t port,
                        struct error *err);
/* A link that is followed: answers with its cookie. */
void traffic_enter(struct api_request *req, const char *sandbox, uint16_t port);
