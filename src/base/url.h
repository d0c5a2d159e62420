/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: what they are made of, and the strict form in which http and https are spoken.
 *
 * Every program that has to know where a URL leads asks here, so that the gate, the tool that
 * fetches and the command line cannot disagree about it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/target.h"

/* The parts of the text, as they stand in it: none is checked. */
struct url_parts {
    size_t scheme_len; /* 0 if there is no "://" */
    const char *user;  /* NULL if there is no '@' */
    size_t user_len;
    const char *host; /* with its brackets */
    size_t host_len;
    const char *port; /* NULL if there is no ':' behind the host */
    size_t port_len;
    const char *rest; /* path, query and fragment; or the end */
};

/* [scheme://][user@]host[:port][rest], as lenient as programs are: for what is only compared. */
void url_split(const char *text, struct url_parts *ret);

struct url {
    bool tls; /* https */
    bool has_user;
    struct target target; /* its port is the scheme's where the URL has none */
    const char *rest;     /* in the text */
};

/* An http or https URL that every reader understands in the same way. -EPROTONOSUPPORT for
 * another scheme or none, -EPERM for a host that resolvers read as a number, -EINVAL for the
 * rest: spaces, control characters, a backslash behind the host, no host, a port out of range. */
int url_parse(const char *text, struct url *ret);

/* The host of an origin with its port, as they stand in the text: scheme://host[:port] and nothing
 * behind it, which is what browsers send. NULL for what is no origin, as "null" and lists are. Any
 * scheme is one, because extensions of browsers have their own. */
const char *origin_host(const char *text);
/* Whether a page of that origin was loaded from the host of a request's Host header (may be NULL).
 */
bool origin_is_of_host(const char *origin, const char *host);
