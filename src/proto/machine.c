/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/machine.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

int machine_ranges_check(const struct machine_config *m, const struct net_range *ranges, uint32_t n,
                         char *why, unsigned size)
{
    char text[NET_RANGE_TEXT_SIZE];
    if (m->network_closed) {
        snprintf(why, size,
                 "a network by address: network.enabled of the machines' file is not true");
        return -EPERM;
    }
    for (uint32_t i = 0; m->n_cidrs && i < n; i++) {
        bool covered = ranges[i].deny;
        for (uint32_t k = 0; !covered && k < m->n_cidrs; k++)
            covered = net_range_covers(&m->cidrs[k], &ranges[i]);
        if (covered)
            continue;
        net_range_format(&ranges[i], text);
        snprintf(why, size, "%s is not within network.allowed_cidrs of the machines' file", text);
        return -EPERM;
    }
    return 0;
}
