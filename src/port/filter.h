/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between a caller and a server that we do not trust, in headers. One filter for all
 * that sandboxes and workers answer on our ports.
 *
 * Inwards, everything passes but what is about one connection and what are credentials of ours: an
 * Authorization that is ours, X-Sandbox-Token, X-Mas-*, and cookies of ours.
 *
 * Outwards, only what is listed passes: content-*, cache-control, etag, last-modified, vary, x-*,
 * and a location below the same prefix. A page is always sandboxed, so that its scripts have an
 * origin of their own, and never the one that the API has. x-* leaves out what reverse proxies in
 * front of us obey, and our own names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

#define PORT_CSP  "sandbox allow-scripts allow-forms"
#define PORT_CORP "same-origin"

/* The cookies of ours all begin with this, perhaps behind "__Host-". */
#define PORT_COOKIE_PREFIX "mas-"

/* Where a server is seen from outside. */
struct port_place {
    const char *prefix; /* of its paths, without a trailing slash; "": it has a host of its own */
    const char *host;   /* as the caller wrote it, with its port; NULL: none */
    const char *path;   /* of the request, inside: begins with '/', with its query */
    unsigned port;      /* inside */
};

/* Whether a caller's header field goes in. Cookie does not: port_filter_cookies() makes another.
 * connection is the request's own Connection header, or NULL; Host, framing, Upgrade and
 * Authorization are for the code that writes the request. */
bool port_filter_inward(const char *name, const char *connection);
/* Appends a Cookie header's value without cookies of ours; nothing where none is left. */
void port_filter_cookies(const char *value, struct strbuf *out);
/* Whether a server's header field goes out as it is. Not so Content-Type and Location. */
bool port_filter_outward(const char *name);
/* Appends what a Location means from outside: a path below place->prefix. False: it leads
 * elsewhere, and must not go out. */
bool port_filter_location(const char *value, const struct port_place *place, struct strbuf *out);
