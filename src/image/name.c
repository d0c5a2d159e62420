/* SPDX-License-Identifier: Apache-2.0 */
#include "image/name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define COMPONENT_MAX 255
#define QUOTED_HEAD   120
#define QUOTED_TAIL   60

static size_t quote_part(const char *from, const char *end, size_t room, char *out)
{
    size_t len = 0;
    for (; from < end; from++) {
        unsigned char c = (unsigned char)*from;
        bool plain = c >= ' ' && c < 0x7f && c != '\\' && c != '\'';
        if (len + 4 > room)
            break;
        len += (size_t)(plain ? sprintf(out + len, "%c", c) : sprintf(out + len, "\\x%02x", c));
    }
    return len;
}

const char *name_quote(const char *name, char out[NAME_QUOTED_SIZE])
{
    size_t n = strlen(name);
    out[0] = 0;
    if (n <= QUOTED_HEAD + QUOTED_TAIL) {
        size_t len = quote_part(name, name + n, NAME_QUOTED_SIZE - 4, out);
        out[len] = 0;
        return out;
    }
    size_t len = quote_part(name, name + QUOTED_HEAD, QUOTED_HEAD, out);
    memcpy(out + len, "...", 3);
    len += 3;
    len += quote_part(name + n - QUOTED_TAIL / 2, name + n, QUOTED_TAIL, out + len);
    out[len] = 0;
    return out;
}

static int refuse_name(const char *name, enum error_code code, const char *what, const char *why,
                       struct error *err)
{
    char q[NAME_QUOTED_SIZE];
    return error_set(err, code, 0, "%s '%s' %s", what, name_quote(name, q), why);
}

int name_clean(const char *name, const struct image_limits *l, const char *what,
               char ret[NAME_PATH_MAX], struct error *err)
{
    size_t len = 0, depth = 0;
    if (!*name)
        return refuse_name(name, ERROR_INVALID, what, "has an empty name", err);
    if (*name == '/')
        return refuse_name(name, ERROR_INVALID, what, "is an absolute path", err);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && !strncmp(p, "..", 2))
            return refuse_name(name, ERROR_INVALID, what, "has '..' in its path", err);
        if (n > COMPONENT_MAX)
            return refuse_name(name, ERROR_TOO_LARGE, what, "has a name of more than 255 bytes",
                               err);
        if (n && !(n == 1 && *p == '.')) {
            if (len + n + 1 > l->path_bytes || len + n + 2 > NAME_PATH_MAX)
                return refuse_name(name, ERROR_TOO_LARGE, what,
                                   "has a longer path than images_max_path_bytes", err);
            if (len)
                ret[len++] = '/', depth++;
            memcpy(ret + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    ret[len] = 0;
    if (depth > l->depth)
        return refuse_name(name, ERROR_TOO_LARGE, what, "is deeper than images_max_depth", err);
    return 0;
}
