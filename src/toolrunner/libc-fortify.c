/* SPDX-License-Identifier: Apache-2.0 */
/* Only in the build with musl: Debian's static jansson was compiled with glibc's variants of some
 * functions, which musl does not have. The checked ones check, then call the plain ones; the one of
 * a newer C standard differs from the plain one by "0b" numbers only, which JSON does not have. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __snprintf_chk(char *s, size_t max, int flag, size_t size, const char *fmt, ...);
int __vsnprintf_chk(char *s, size_t max, int flag, size_t size, const char *fmt, va_list ap);
char *__strncpy_chk(char *to, const char *from, size_t n, size_t size);
long long __isoc23_strtoll(const char *text, char **ret_end, int base);

int __vsnprintf_chk(char *s, size_t max, int flag, size_t size, const char *fmt, va_list ap)
{
    (void)flag;
    if (size < max)
        abort();
    return vsnprintf(s, max, fmt, ap);
}

int __snprintf_chk(char *s, size_t max, int flag, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = __vsnprintf_chk(s, max, flag, size, fmt, ap);
    va_end(ap);
    return n;
}

char *__strncpy_chk(char *to, const char *from, size_t n, size_t size)
{
    if (size < n)
        abort();
    return strncpy(to, from, n);
}

long long __isoc23_strtoll(const char *text, char **ret_end, int base)
{
    return strtoll(text, ret_end, base);
}
