/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from the rest, so that what only checks plans does not link what knows addresses. */
#include "proto/net.h"

#include <string.h>

static unsigned range_width(const struct net_range *r)
{
    return r->family == NET_IPV4 ? 32 : 128;
}

bool net_range_is_valid(const struct net_range *r)
{
    if ((r->family != NET_IPV4 && r->family != NET_IPV6) || r->bits > range_width(r) ||
        r->deny > 1 || r->reserved || r->port_first > r->port_last)
        return false;
    /* Port 0 is no port; a range of all ports begins there. */
    if (r->port_first == 0 && r->port_last != UINT16_MAX)
        return false;
    for (unsigned bit = r->bits; bit < 128; bit++)
        if (r->address[bit / 8] & (0x80 >> bit % 8))
            return false;
    return true;
}

void net_hardware_address(uint32_t number, bool is_sandbox, uint8_t ret[NET_HARDWARE_SIZE])
{
    const uint8_t bytes[NET_HARDWARE_SIZE] = {0x0a,
                                              is_sandbox,
                                              (uint8_t)(number >> 24),
                                              (uint8_t)(number >> 16),
                                              (uint8_t)(number >> 8),
                                              (uint8_t)number};
    memcpy(ret, bytes, sizeof(bytes));
}
