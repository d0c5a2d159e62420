/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text that is not ours, digit by digit. */
#pragma once

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Of a hexadecimal digit in either case; -1 for anything else. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The same where another case is another text: digests, and names that must have one form only. */
static inline int hex_value_lower(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_value(c);
}
static inline int hex_value_upper(char c)
{
    return c >= 'a' && c <= 'f' ? -1 : hex_value(c);
}

/* Digits and nothing else, without overflow; or -EINVAL. */
static inline int decimal_parse(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*text))
        return -EINVAL;
    *ret = v;
    return 0;
}
