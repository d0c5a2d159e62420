/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

size_t nearest_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), row[NEAREST_NAME_MAX + 1];
    if (la > NEAREST_NAME_MAX || lb > NEAREST_NAME_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[lb];
}

size_t nearest_patience(const char *written)
{
    return strlen(written) / 3 + 1;
}
