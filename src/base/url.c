/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

void url_split(const char *text, struct url_parts *ret)
{
    const char *mark = strstr(text, "://");
    const char *p = mark ? mark + 3 : text;
    size_t n = strcspn(p, "/?#\\");
    *ret = (struct url_parts){.scheme_len = mark ? (size_t)(mark - text) : 0, .rest = p + n};
    const char *at = memrchr(p, '@', n);
    if (at) {
        ret->user = p;
        ret->user_len = (size_t)(at - p);
        n -= (size_t)(at + 1 - p);
        p = at + 1;
    }
    const char *close = *p == '[' ? memchr(p, ']', n) : NULL;
    const char *colon = close ? close + 1 : memchr(p, ':', n);
    ret->host = p;
    ret->host_len = colon ? (size_t)(colon - p) : n;
    if (colon && colon < ret->rest) {
        ret->port = colon + (*colon == ':');
        ret->port_len = (size_t)(ret->rest - ret->port);
    }
}

/* Of the whole URL: what some readers drop and others do not. */
static bool has_odd_bytes(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p <= ' ' || *p == 0x7f)
            return true;
    return false;
}

const char *origin_host(const char *text)
{
    struct url_parts p;
    uint16_t port;
    url_split(text, &p);
    if (!p.scheme_len || p.user || !p.host_len || *p.rest || has_odd_bytes(text) ||
        strpbrk(p.host, "*,"))
        return NULL;
    if (p.port && (p.port[-1] != ':' || target_parse_port(p.port, p.port_len, &port) < 0))
        return NULL;
    return p.host;
}

bool origin_is_of_host(const char *origin, const char *host)
{
    const char *own = origin_host(origin);
    return own && host && strcasecmp(own, host) == 0;
}

int url_parse(const char *text, struct url *ret)
{
    struct url_parts p;
    url_split(text, &p);
    bool tls = p.scheme_len == 5 && strncasecmp(text, "https", 5) == 0;
    if (!tls && (p.scheme_len != 4 || strncasecmp(text, "http", 4) != 0))
        return -EPROTONOSUPPORT;
    if (has_odd_bytes(text) || *p.rest == '\\')
        return -EINVAL;
    struct url u = {.tls = tls, .has_user = p.user != NULL, .rest = p.rest};
    u.target.port = tls ? 443 : 80;
    int r = target_parse_host(p.host, p.host_len, &u.target);
    if (r < 0)
        return r;
    if (p.port)
        r = p.port[-1] == ':' ? target_parse_port(p.port, p.port_len, &u.target.port) : -EINVAL;
    if (r < 0)
        return r;
    *ret = u;
    return r;
}
