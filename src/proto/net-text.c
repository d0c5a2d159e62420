/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges as people write them: for processes that read a configuration or a request. */
#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "proto/net.h"

#define TEXT_MAX 64

/* A decimal number without sign or leading zeros, up to most. */
static int parse_number(const char *text, unsigned most, unsigned *ret)
{
    unsigned value = 0;
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 5 || text[n] || (n > 1 && text[0] == '0'))
        return -EINVAL;
    for (const char *p = text; *p; p++)
        value = value * 10 + (unsigned)(*p - '0');
    *ret = value;
    return value > most ? -EINVAL : 0;
}

/* Cuts the port off, where there is one. */
static int split_port(char *text, char **ret_network, unsigned *ret_port)
{
    char *close = strchr(text, ']'), *colon = strchr(text, ':');
    *ret_network = text;
    *ret_port = 0;
    if (*text == '[') {
        if (!close || (close[1] && close[1] != ':'))
            return -EINVAL;
        *ret_network = text + 1;
        colon = close[1] ? close + 1 : NULL;
        *close = 0;
    } else if (colon && strchr(colon + 1, ':')) {
        colon = NULL; /* IPv6 without brackets has no port */
    }
    if (!colon)
        return 0;
    *colon = 0;
    int r = parse_number(colon + 1, UINT16_MAX, ret_port);
    return r < 0 || *ret_port == 0 ? -EINVAL : 0;
}

int net_range_parse(const char *text, struct net_range *ret)
{
    char copy[TEXT_MAX], *network;
    unsigned port, bits;
    struct address a;
    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    strcpy(copy, text);
    int r = split_port(copy, &network, &port);
    if (r < 0)
        return r;
    char *slash = strchr(network, '/');
    if (slash)
        *slash = 0;
    r = address_parse(network, &a);
    if (r < 0)
        return r;
    bits = (unsigned)address_bits(&a);
    if (slash && parse_number(slash + 1, bits, &bits) < 0)
        return -EINVAL;
    *ret = (struct net_range){.family = a.family == AF_INET ? NET_IPV4 : NET_IPV6,
                              .bits = (uint8_t)bits,
                              .port_first = (uint16_t)port,
                              .port_last = (uint16_t)(port ? port : UINT16_MAX)};
    memcpy(ret->address, a.bytes, address_bits(&a) / 8);
    for (unsigned bit = ret->bits; bit < 128; bit++)
        ret->address[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    return 0;
}
