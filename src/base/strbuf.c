/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_ALLOC 256 /* most are texts of some hundred bytes, built from small parts */

void strbuf_init(struct strbuf *b, size_t max)
{
    *b = (struct strbuf){.max = max};
}

void strbuf_done(struct strbuf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->alloc = 0;
}

int strbuf_reserve(struct strbuf *b, size_t len)
{
    if (len > b->max || b->len > b->max - len)
        return -EFBIG;
    size_t need = b->len + len + 1;
    if (need <= b->alloc)
        return 0;
    size_t alloc = b->alloc ? b->alloc : FIRST_ALLOC;
    while (alloc < need)
        alloc *= 2;
    b->data = xrealloc(b->data, alloc);
    b->alloc = alloc;
    b->data[b->len] = 0;
    return 0;
}

void strbuf_commit(struct strbuf *b, size_t len)
{
    b->len += len;
    b->data[b->len] = 0;
}

int strbuf_append(struct strbuf *b, const void *data, size_t len)
{
    int r = strbuf_reserve(b, len);
    if (r < 0)
        return r;
    if (len)
        memcpy(b->data + b->len, data, len);
    strbuf_commit(b, len);
    return 0;
}

int strbuf_puts(struct strbuf *b, const char *text)
{
    return strbuf_append(b, text, strlen(text));
}

int strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -EINVAL;
    int r = strbuf_reserve(b, (size_t)n);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    strbuf_commit(b, (size_t)n);
    return 0;
}

void strbuf_consume(struct strbuf *b, size_t n)
{
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}

void strbuf_reset(struct strbuf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = 0;
}

char *strbuf_steal(struct strbuf *b)
{
    char *data = b->data ? b->data : xstrdup("");
    b->data = NULL;
    b->len = b->alloc = 0;
    return data;
}
