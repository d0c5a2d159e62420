/* SPDX-License-Identifier: Apache-2.0 */
#include "link/mark.h"

#include <string.h>

size_t mark_find(const uint8_t *data, size_t len, const uint8_t mark[GUEST_MARK_SIZE], bool *found)
{
    const uint8_t *at = data, *end = data + len;
    *found = false;
    while (at < end && (at = memchr(at, mark[0], (size_t)(end - at)))) {
        size_t left = (size_t)(end - at);
        if (memcmp(at, mark, left < GUEST_MARK_SIZE ? left : GUEST_MARK_SIZE) == 0) {
            *found = left >= GUEST_MARK_SIZE;
            return (size_t)(at - data);
        }
        at++;
    }
    return len;
}
