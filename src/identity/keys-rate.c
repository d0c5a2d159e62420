/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "identity/keys-internal.h"

#define NS_PER_MINUTE 60e9

unsigned key_rate_take(struct key_rate *r, int64_t per_minute, int64_t now_ns)
{
    double size = (double)per_minute;
    if (per_minute <= 0)
        return 0;
    if (!r->filled_ns)
        r->left = size;
    else
        r->left = fmin(size, r->left + (double)(now_ns - r->filled_ns) * size / NS_PER_MINUTE);
    r->filled_ns = now_ns;
    if (r->left >= 1) {
        r->left -= 1;
        return 0;
    }
    double wait_s = ceil((1 - r->left) * 60 / size);
    return wait_s < 1 ? 1 : (unsigned)wait_s;
}
