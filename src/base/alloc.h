/* SPDX-License-Identifier: Apache-2.0 */
/* Small allocations abort when memory is out; anything sized by input goes through a strbuf. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
/* NULL-terminated string vectors. */
char **strv_copy(char *const *v);
void strv_free(char **v);
size_t strv_length(char *const *v);

#define new0(type)  ((type *)xcalloc(1, sizeof(type)))
#define ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}
static inline void cleanup_strv(char ***p)
{
    strv_free(*p);
}
#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))
#define _cleanup_strv_ __attribute__((cleanup(cleanup_strv)))

#define steal_ptr(p)                                                                               \
    ({                                                                                             \
        __typeof__(p) _stolen = (p);                                                               \
        (p) = NULL;                                                                                \
        _stolen;                                                                                   \
    })
