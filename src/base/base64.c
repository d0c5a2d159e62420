/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

#include "base/alloc.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len, size_t *ret_len)
{
    const unsigned char *p = data;
    size_t out_len = (len + 2) / 3 * 4;
    char *out = xcalloc(1, out_len + 1);
    for (size_t i = 0, o = 0; i < len; i += 3, o += 4) {
        size_t left = len - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0);
        out[o] = digits[v >> 18];
        out[o + 1] = digits[v >> 12 & 63];
        out[o + 2] = left > 1 ? digits[v >> 6 & 63] : '=';
        out[o + 3] = left > 2 ? digits[v & 63] : '=';
    }
    if (ret_len)
        *ret_len = out_len;
    return out;
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t len, char **ret, size_t *ret_len)
{
    size_t n = len, o = 0;
    uint32_t bits = 0;
    if (len % 4)
        return -EINVAL;
    while (n && len - n < 2 && text[n - 1] == '=')
        n--;
    _cleanup_free_ char *out = xcalloc(1, len / 4 * 3 + 1);
    for (size_t i = 0; i < n; i++) {
        int v = digit_value(text[i]);
        if (v < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4)
            out[o++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    out[o] = 0;
    *ret = steal_ptr(out);
    *ret_len = o;
    return 0;
}
