/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *or_abort(void *p)
{
    if (!p)
        abort();
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    return or_abort(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
    return or_abort(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return or_abort(strdup(s));
}

char *xstrndup(const char *s, size_t n)
{
    return or_abort(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        abort();
    va_end(ap);
    return s;
}

size_t strv_length(char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

char **strv_copy(char *const *v)
{
    size_t n = strv_length(v);
    char **copy = xcalloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = xstrdup(v[i]);
    return copy;
}

void strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}
