/* SPDX-License-Identifier: Apache-2.0 */
/* The way in to servers inside sandboxes, by path and by host. By host it is asked before routes
 * are looked at: a Host below ports_domain never reaches a route of the API, whatever its path. */
#pragma once

#include <stdbool.h>

struct api_request;
struct error;
struct http_request;
struct sandbox;

/* Whether the Host is below ports_domain; then it is a request for a sandbox, or for nothing. */
bool ports_owns_host(const struct api_request *req);
/* Whether it is a link with a code, which needs no other credential; then it is answered. */
bool ports_follow_link(struct api_request *req);
/* Where a page of that host may call from: itself, or an allowed origin. */
int ports_check_origin(const struct api_request *req, struct error *err);
/* For such a request, once its caller is known. */
void ports_serve_host(struct api_request *req);
/* Whether the policies let the caller do that (guard/gate.h: GATE_PORT, GATE_PORT_TOKEN). */
int ports_check_gate(struct api_request *req, struct sandbox *sb, const char *tool,
                     struct error *err);
/* For struct http_options: bodies for servers inside go through as they are encoded. */
bool ports_take_encoded(struct http_request *http, void *api);
/* The row that such a request has: it is in no table, because its paths are the server's own. */
extern const struct route ports_host_route;
