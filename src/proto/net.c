/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/net.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"

static void to_address(const struct net_range *r, struct address *ret)
{
    *ret = (struct address){.family = r->family == NET_IPV4 ? AF_INET : AF_INET6};
    memcpy(ret->bytes, r->address, r->family == NET_IPV4 ? 4 : 16);
}

static unsigned range_bits(const struct net_range *r)
{
    return r->family == NET_IPV4 ? 32 : 128;
}

/* The families must be the same: the bytes of an IPv4 address are also the first of an IPv6 one. */
static bool prefix_covers(const struct net_range *outer, const struct net_range *inner)
{
    struct address a, net;
    to_address(inner, &a);
    to_address(outer, &net);
    return outer->family == inner->family && outer->bits <= inner->bits &&
           address_in_prefix(&a, &net, outer->bits);
}

bool net_range_covers(const struct net_range *outer, const struct net_range *inner)
{
    return prefix_covers(outer, inner) && outer->port_first <= inner->port_first &&
           outer->port_last >= inner->port_last;
}

static bool ranges_are_valid(const struct net_range *r, uint32_t n)
{
    if (n > NET_RANGES_MAX)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!net_range_is_valid(&r[i]))
            return false;
    return true;
}

static bool pool_is_valid(const struct net_range *p, enum net_family family)
{
    return net_range_is_valid(p) && p->family == family && p->bits >= 8 &&
           p->bits + 5u <= range_bits(p);
}

uint32_t net_config_slots(const struct net_config *c)
{
    if (!pool_is_valid(&c->pool4, NET_IPV4) || !pool_is_valid(&c->pool6, NET_IPV6))
        return 0;
    unsigned bits4 = 32 - c->pool4.bits, bits6 = 128 - c->pool6.bits;
    unsigned bits = bits4 < bits6 ? bits4 : bits6;
    /* The last address of an IPv4 network is its broadcast. */
    uint32_t n = bits >= 16 ? NET_SLOTS_MAX : (1u << bits) - NET_POOL_FIRST - 1;
    return n < NET_SLOTS_MAX ? n : NET_SLOTS_MAX;
}

bool net_config_is_valid(const struct net_config *c)
{
    return net_config_slots(c) && c->uid && c->connections && c->connects_per_second &&
           ranges_are_valid(c->ceiling, c->n_ceiling) && ranges_are_valid(c->open, c->n_open) &&
           ranges_are_valid(c->denied, c->n_denied);
}

bool net_request_is_valid(const struct net_request *q, const struct net_config *c)
{
    return q->version == NET_VERSION && q->op >= NET_ADD && q->op < _NET_OP_MAX &&
           q->slot < net_config_slots(c) && ranges_are_valid(q->ranges, q->n_ranges);
}

static bool list_covers(const struct net_range *list, uint32_t n, const struct net_range *r)
{
    for (uint32_t i = 0; i < n; i++)
        if (net_range_covers(&list[i], r))
            return true;
    return false;
}

/* The operator opens metadata addresses only by naming the very address. A network around it, such
 * as all link-local ones, is more often written for another reason. */
static bool is_open(const struct net_config *c, const struct net_range *r, enum address_class class)
{
    for (uint32_t i = 0; i < c->n_open; i++)
        if (net_range_covers(&c->open[i], r) &&
            (class != ADDRESS_METADATA || c->open[i].bits == range_bits(r)))
            return true;
    return false;
}

static int check_range(const struct net_config *c, const struct net_range *r, char *why,
                       unsigned size)
{
    char text[NET_RANGE_TEXT_SIZE];
    struct address a;
    net_range_format(r, text);
    to_address(r, &a);
    if (!list_covers(c->ceiling, c->n_ceiling, r)) {
        snprintf(why, size, "%s is not within the operator's network_cidrs", text);
        return -EPERM;
    }
    enum address_class class = address_class_of_prefix(&a, r->bits);
    if (class != ADDRESS_PUBLIC && !is_open(c, r, class)) {
        snprintf(why, size, "%s is %s and not named in gateway_allow_private", text,
                 address_class_name(class));
        return -EPERM;
    }
    return 0;
}

/* A range that denies takes away from what the others allow, so that the ceiling has nothing to say
 * about it. */
int net_ceiling_check(const struct net_config *c, const struct net_range *ranges, uint32_t n,
                      char *why, unsigned size)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = ranges[i].deny ? 0 : check_range(c, &ranges[i], why, size);
    return r;
}

void net_range_format(const struct net_range *r, char out[NET_RANGE_TEXT_SIZE])
{
    char text[ADDRESS_TEXT_SIZE];
    struct address a;
    to_address(r, &a);
    address_format(&a, text);
    int n = snprintf(out, NET_RANGE_TEXT_SIZE, "%s/%u", text, r->bits);
    if (r->port_first)
        snprintf(out + n, NET_RANGE_TEXT_SIZE - (size_t)n,
                 r->port_first == r->port_last ? " port %u" : " ports %u-%u", r->port_first,
                 r->port_last);
}
