/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer does not find sums: tar headers that only lack the right one are given it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void tar_fix_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        uint8_t *h = data + at;
        if (memcmp(h + 257, "ustar", 5))
            continue;
        unsigned sum = 0;
        memset(h + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += h[i];
        for (int i = 5; i >= 0; i--, sum >>= 3)
            h[148 + i] = (uint8_t)('0' + (sum & 7));
        h[154] = 0;
    }
}
