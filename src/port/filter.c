/* SPDX-License-Identifier: Apache-2.0 */
#include "port/filter.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strbuf.h"

/* A name that ends in '*' stands for all that begin so. */
static bool is_listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(list[i]);
        if (list[i][len - 1] == '*' ? !strncasecmp(name, list[i], len - 1)
                                    : !strcasecmp(name, list[i]))
            return true;
    }
    return false;
}

/* --- inwards */

static bool has_token(const char *list, const char *token)
{
    size_t want = strlen(token);
    while (list && *list) {
        list += strspn(list, ", \t");
        size_t len = strcspn(list, ", \t");
        if (len == want && !strncasecmp(list, token, len))
            return true;
        list += len;
    }
    return false;
}

bool port_filter_inward(const char *name, const char *connection)
{
    static const char *const not_in[] = {/* about this connection, or written anew */
                                         "Connection", "Keep-Alive", "Proxy-*", "TE", "Trailer",
                                         "Transfer-Encoding", "Upgrade", "Content-Length", "Expect",
                                         "Host", "HTTP2-Settings", "Forwarded", "X-Forwarded-*",
                                         "X-Real-IP",
                                         /* credentials of ours */
                                         "Authorization", "X-Sandbox-Token", "X-Mas-*", "Cookie"};
    return !is_listed(name, not_in, ELEMENTS(not_in)) && !has_token(connection, name);
}

static bool cookie_is_ours(const char *name, size_t len)
{
    static const char *const marks[] = {"__Host-", "__Secure-"};
    for (size_t i = 0; i < ELEMENTS(marks); i++) {
        size_t n = strlen(marks[i]);
        if (len >= n && !strncasecmp(name, marks[i], n)) {
            name += n;
            len -= n;
        }
    }
    size_t n = strlen(PORT_COOKIE_PREFIX);
    return len >= n && !strncasecmp(name, PORT_COOKIE_PREFIX, n);
}

/* Servers differ in what they take for a separator, so that a comma ends a cookie here too: what
 * one of them could read as a cookie of ours does not pass. */
void port_filter_cookies(const char *value, struct strbuf *out)
{
    bool any = false;
    while (*value) {
        value += strspn(value, ";, \t");
        size_t len = strcspn(value, ";,");
        if (len && !cookie_is_ours(value, len)) {
            strbuf_puts(out, any ? "; " : "");
            strbuf_append(out, value, len);
            any = true;
        }
        value += len;
    }
}

/* --- outwards */

bool port_filter_outward(const char *name)
{
    static const char *const out[] = {"Content-*",     "Cache-Control", "ETag",
                                      "Last-Modified", "Vary",          "X-*"};
    static const char *const not_out[] = {
        /* said anew */
        "Content-Length", "Content-Type", "Content-Security-Policy*", "X-Content-Type-Options",
        "X-Request-Id",
        /* our own names, and what browsers obey beyond a page's own content */
        "X-Mas-*", "X-Sandbox-Token", "X-Permitted-Cross-Domain-Policies", "X-Content-Security-*",
        "X-WebKit-CSP*",
        /* what a reverse proxy in front of us would obey */
        "X-Accel-*", "X-Sendfile*", "X-Lighttpd-*", "X-LiteSpeed-*", "X-Reproxy-*", "X-Cache-*",
        "X-Forwarded-*", "X-Original-URL", "X-Rewrite-URL", "X-Http-Method*", "X-Real-IP"};
    return is_listed(name, out, ELEMENTS(out)) && !is_listed(name, not_out, ELEMENTS(not_out));
}

/* --- where an answer leads */

/* Only bytes that every reader of a URL takes as they are: no control, space, backslash or byte
 * beyond ASCII. */
static bool is_plain(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f || *s == '\\')
            return false;
    return true;
}

static bool is_same(const char *text, size_t len, const char *name)
{
    return name && strlen(name) == len && !strncasecmp(text, name, len);
}

/* Whether an authority is the server's own, as it or its caller knows it. */
static bool is_own_authority(const char *text, size_t len, const struct port_place *place)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "0.0.0.0"};
    char own[32];
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        snprintf(own, sizeof(own), "%s:%u", names[i], place->port);
        if (is_same(text, len, own) || (place->port == 80 && is_same(text, len, names[i])))
            return true;
    }
    return is_same(text, len, place->host);
}

/* The length of "." or ".." at the start of a segment, escaped or not, and nothing else in it. */
static int count_dots(const char *s, size_t len)
{
    int dots = 0;
    while (len) {
        size_t n = *s == '.' ? 1 : len >= 3 && !strncasecmp(s, "%2e", 3) ? 3 : 0;
        if (!n || ++dots > 2)
            return 0;
        s += n;
        len -= n;
    }
    return dots;
}

static void drop_segment(struct strbuf *out, size_t root)
{
    while (out->len > root && out->data[out->len - 1] != '/')
        out->data[--out->len] = 0;
    if (out->len > root)
        out->data[--out->len] = 0;
}

/* Appends the segments of path (up to its query) behind root bytes of out, with dots taken out. */
static void append_path(const char *path, size_t len, struct strbuf *out, size_t root)
{
    const char *end = path + len;
    while (path < end) {
        const char *segment = path + 1; /* path is at a slash */
        size_t n = (size_t)(end - segment);
        const char *slash = memchr(segment, '/', n);
        n = slash ? (size_t)(slash - segment) : n;
        int dots = count_dots(segment, n);
        if (dots == 2)
            drop_segment(out, root);
        if (dots == 0) {
            strbuf_puts(out, "/");
            strbuf_append(out, segment, n);
        } else if (!slash) {
            strbuf_puts(out, "/");
        }
        path = segment + n;
    }
    if (out->len == root)
        strbuf_puts(out, "/");
}

/* The path that value means inside, without host; NULL: it is somewhere else. */
static const char *find_path(const char *value, const struct port_place *place)
{
    size_t name = strcspn(value, ":/?#");
    bool scheme = value[name] == ':';
    if (scheme && strncasecmp(value, "http://", 7) != 0 && strncasecmp(value, "https://", 8) != 0)
        return NULL;
    if (!scheme && strncmp(value, "//", 2) != 0)
        return value;
    const char *authority = value + (scheme ? name + 3 : 2);
    size_t len = strcspn(authority, "/?#");
    return is_own_authority(authority, len, place) ? authority + len : NULL;
}

bool port_filter_location(const char *value, const struct port_place *place, struct strbuf *out)
{
    const char *path = is_plain(value) && is_plain(place->path) ? find_path(value, place) : NULL;
    if (!path || *place->path != '/')
        return false;
    bool absolute = path != value; /* behind an authority */
    size_t len = strcspn(path, "?#"), own = strcspn(place->path, "?#");
    _cleanup_strbuf_ struct strbuf whole = STRBUF_INIT(out->max);
    if (*path != '/' && !absolute) {
        /* From the directory of the request's own path, or that path itself. */
        while (len && own && place->path[own - 1] != '/')
            own--;
        strbuf_append(&whole, place->path, own);
    } else if (*path != '/') {
        strbuf_puts(&whole, "/");
    }
    strbuf_append(&whole, path, len);
    strbuf_puts(out, place->prefix);
    size_t root = out->len;
    append_path(whole.data, whole.len, out, root);
    /* At the root of a host, two slashes would begin another host's name. */
    size_t n = strspn(out->data + root, "/");
    if (n > 1) {
        memmove(out->data + root + 1, out->data + root + n, out->len - root - n + 1);
        out->len -= n - 1;
    }
    return strbuf_puts(out, path + len) >= 0;
}
