/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a stated maximum.
 *
 * Invariants: data is NULL or NUL-terminated at data[len]; len <= max. An append that would pass
 * max fails with -EFBIG and leaves the buffer as it was. Running out of memory aborts. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct strbuf {
    char *data;
    size_t len;
    size_t alloc;
    size_t max;
};

#define STRBUF_INIT(limit)                                                                         \
    {                                                                                              \
        .max = (limit)                                                                             \
    }
#define _cleanup_strbuf_ __attribute__((cleanup(strbuf_done)))

void strbuf_init(struct strbuf *b, size_t max);
void strbuf_done(struct strbuf *b);
int strbuf_append(struct strbuf *b, const void *data, size_t len);
int strbuf_puts(struct strbuf *b, const char *text);
int strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for len more bytes at data + len; the caller then calls strbuf_commit(). */
int strbuf_reserve(struct strbuf *b, size_t len);
void strbuf_commit(struct strbuf *b, size_t len);
/* Drops the first n bytes. */
void strbuf_consume(struct strbuf *b, size_t n);
void strbuf_reset(struct strbuf *b);
/* Hands the allocation to the caller, who frees it; never NULL. */
char *strbuf_steal(struct strbuf *b);
