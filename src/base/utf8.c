/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>

/* Length of the sequence a lead byte starts, or 0. */
static size_t sequence_length(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    if (c >= 0xf0 && c <= 0xf4)
        return 4;
    return 0;
}

static bool second_ok(unsigned char lead, unsigned char c)
{
    if (lead == 0xe0)
        return c >= 0xa0 && c <= 0xbf;
    if (lead == 0xed)
        return c >= 0x80 && c <= 0x9f;
    if (lead == 0xf0)
        return c >= 0x90 && c <= 0xbf;
    if (lead == 0xf4)
        return c >= 0x80 && c <= 0x8f;
    return c >= 0x80 && c <= 0xbf;
}

/* How many of the first `have` bytes of a sequence are right, given that its lead byte is. */
static bool continuation_ok(const unsigned char *p, size_t have)
{
    if (have > 1 && !second_ok(p[0], p[1]))
        return false;
    for (size_t i = 2; i < have; i++)
        if ((p[i] & 0xc0) != 0x80)
            return false;
    return true;
}

size_t utf8_sequence(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t n = sequence_length(p[0]);
    return n <= len && continuation_ok(p, n) ? n : 0;
}

size_t utf8_valid_prefix(const char *data, size_t len)
{
    size_t i = 0, n = 1;
    while (i < len && n) {
        n = (unsigned char)data[i] < 0x80 ? 1 : utf8_sequence(data + i, len - i);
        i += n;
    }
    return i;
}

size_t utf8_incomplete_suffix(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *lead = p + len - back;
        if ((*lead & 0xc0) == 0x80)
            continue;
        return sequence_length(*lead) > back && continuation_ok(lead, back) ? back : 0;
    }
    return 0;
}
