/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a request target apart in the buffer it came in. Decoding only ever shortens, so every part
 * stays where it was. */
#include "net/target.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/digits.h"
#include "base/url.h"
#include "net/http.h"

/* The part of a path that names nothing but itself: an escaped slash or percent sign. */
static bool is_kept(int c)
{
    return c == '/' || c == '%';
}

/* Undoes %XX, and + in a query, in a NUL-terminated string. In a path an escaped slash is no
 * separator, so it stays escaped until the path has been taken apart, and so does the percent sign.
 */
static int decode_percent(char *s, bool query)
{
    char *out = s;
    for (; *s; s++) {
        if (*s == '+' && query) {
            *out++ = ' ';
        } else if (*s != '%') {
            *out++ = *s;
        } else {
            int hi = hex_value(s[1]);
            int lo = hi < 0 ? -1 : hex_value(s[2]);
            if (lo < 0 || (hi == 0 && lo == 0))
                return -EINVAL;
            if (query || !is_kept(hi << 4 | lo)) {
                *out++ = (char)(hi << 4 | lo);
            } else {
                memmove(out, s, 3);
                out += 3;
            }
            s += 2;
        }
    }
    *out = 0;
    return 0;
}

static int parse_query(char *query, struct http_field *fields, size_t max, size_t *ret_n)
{
    size_t n = 0;
    char *save = NULL;
    for (char *p = strtok_r(query, "&", &save); p; p = strtok_r(NULL, "&", &save)) {
        if (n == max)
            return -EINVAL;
        char *eq = strchr(p, '=');
        char *value = eq ? eq + 1 : p + strlen(p);
        if (eq)
            *eq = 0;
        if (decode_percent(p, true) < 0 || decode_percent(value, true) < 0)
            return -EINVAL;
        fields[n++] = (struct http_field){p, value};
    }
    *ret_n = n;
    return 0;
}

/* "http://[user@]host[:port]" before the path. Moves the host one byte to the left, over a slash of
 * "//", to make room for its NUL. Returns where the path begins. */
static char *parse_authority(char *target, struct request_target *ret)
{
    struct url_parts p;
    url_split(target, &p);
    if ((p.scheme_len != 4 || strncasecmp(target, "http", 4) != 0) &&
        (p.scheme_len != 5 || strncasecmp(target, "https", 5) != 0))
        return NULL;
    char *host = target + (p.host - target), *end = target + (p.rest - target);
    if (host == end || *end == '\\')
        return NULL;
    memmove(host - 1, host, (size_t)(end - host));
    end[-1] = 0;
    ret->authority = host - 1;
    return end;
}

int request_target_parse(char *target, size_t len, struct request_target *ret,
                         struct http_field *query, size_t max)
{
    static char root[] = "/";
    *ret = (struct request_target){0};
    target[len] = 0;
    char *path = target;
    if (*path != '/' && strcmp(path, "*") != 0) {
        path = parse_authority(target, ret);
        if (!path)
            return -EINVAL;
    }
    char *fragment = strchr(path, '#');
    if (fragment)
        *fragment = 0;
    char *q = strchr(path, '?');
    if (q) {
        *q = 0;
        if (parse_query(q + 1, query, max, &ret->n_query) < 0)
            return -EINVAL;
    }
    ret->path = *path ? path : root;
    return decode_percent(path, false);
}

void http_decode_segment(char *segment)
{
    char *out = segment;
    for (const char *s = segment; *s; s++) {
        int c = *s == '%' && s[1] && s[2] ? hex_value(s[1]) << 4 | hex_value(s[2]) : -1;
        if (is_kept(c)) {
            *out++ = (char)c;
            s += 2;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
}
