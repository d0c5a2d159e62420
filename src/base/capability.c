/* SPDX-License-Identifier: Apache-2.0 */
#include "base/capability.h"

#include <errno.h>
#include <sys/prctl.h>

int capability_bound(uint64_t keep)
{
    for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    return 0;
}
