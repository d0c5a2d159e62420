/* SPDX-License-Identifier: Apache-2.0 */
/* See connections.h. */
#include "egress/connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <stdbool.h>
#include <string.h>

#include "egress/netlink.h"

#define BATCH      256  /* connections that are kept in mind between a listing and its deletions */
#define TUPLE_SIZE 128  /* both addresses and ports, as attributes */
#define ROUNDS_MAX 8192 /* more than conntrack has entries */

/* One direction of a connection, as the kernel wrote it: it is read once more by the kernel. */
struct connection {
    uint8_t family;
    uint16_t zone; /* in network order */
    size_t size;
    char tuple[TUPLE_SIZE];
};

struct listing {
    const struct net_config *pools; /* those from there; NULL: those that ranges do not allow */
    const struct net_range *ranges;
    uint32_t n_ranges;
    struct connection found[BATCH];
    size_t n;
};

static void connections_begin(struct netlink_message *m, uint16_t op, uint16_t flags,
                              uint8_t family)
{
    const struct nfgenmsg info = {.nfgen_family = family, .version = NFNETLINK_V0};
    netlink_begin(m, (uint16_t)((NFNL_SUBSYS_CTNETLINK << 8) | op), flags, &info, sizeof(info));
}

static void put_mark(struct netlink_message *m, uint32_t slot)
{
    netlink_put_u32(m, CTA_MARK, htonl(slot + 1));
    netlink_put_u32(m, CTA_MARK_MASK, htonl(UINT32_MAX));
}

int connections_forget(int sock, uint32_t slot)
{
    struct netlink_message m;
    connections_begin(&m, IPCTNL_MSG_CT_DELETE, 0, AF_UNSPEC);
    put_mark(&m, slot);
    return netlink_send(sock, &m);
}

/* --- which of them */

static const struct nlattr *find_within(const struct nlattr *outer, uint16_t type, size_t size)
{
    const struct nlattr *a =
        outer ? netlink_find(netlink_data(outer), netlink_data_size(outer), type) : NULL;
    return a && netlink_data_size(a) >= size ? a : NULL;
}

/* An address of a connection, which has these types, with all ports. */
static bool read_address(const struct nlattr *tuple, uint8_t family, uint16_t type4, uint16_t type6,
                         struct net_range *ret)
{
    bool six = family == AF_INET6;
    size_t size = six ? 16 : 4;
    const struct nlattr *ip = find_within(tuple, CTA_TUPLE_IP, 0);
    const struct nlattr *address = find_within(ip, six ? type6 : type4, size);
    if (!address)
        return false;
    *ret = (struct net_range){
        .family = six ? NET_IPV6 : NET_IPV4, .bits = six ? 128 : 32, .port_last = UINT16_MAX};
    memcpy(ret->address, netlink_data(address), size);
    return true;
}

/* Where a connection goes, as the range that is this very place. False: that cannot be said. */
static bool read_destination(const struct nlattr *tuple, uint8_t family, struct net_range *ret)
{
    const struct nlattr *proto = find_within(tuple, CTA_TUPLE_PROTO, 0);
    const struct nlattr *number = find_within(proto, CTA_PROTO_NUM, 1);
    const struct nlattr *port = find_within(proto, CTA_PROTO_DST_PORT, sizeof(uint16_t));
    if (!number || !read_address(tuple, family, CTA_IP_V4_DST, CTA_IP_V6_DST, ret))
        return false;
    uint8_t protocol = *(const uint8_t *)netlink_data(number);
    if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
        return true; /* an echo request, which ranges of all ports are about */
    if (!port)
        return false;
    uint16_t value;
    memcpy(&value, netlink_data(port), sizeof(value));
    ret->port_first = ret->port_last = ntohs(value);
    return true;
}

static bool is_allowed(const struct listing *l, const struct net_range *place)
{
    bool allowed = false;
    for (uint32_t i = 0; i < l->n_ranges; i++) {
        if (!net_range_covers(&l->ranges[i], place))
            continue;
        if (l->ranges[i].deny)
            return false;
        allowed = true;
    }
    return allowed;
}

static bool is_kept(const struct listing *l, const struct nlattr *tuple, uint8_t family)
{
    struct net_range place;
    if (!l->pools)
        return read_destination(tuple, family, &place) && is_allowed(l, &place);
    return !read_address(tuple, family, CTA_IP_V4_SRC, CTA_IP_V6_SRC, &place) ||
           !(net_range_covers(&l->pools->pool4, &place) ||
             net_range_covers(&l->pools->pool6, &place));
}

static void on_connection(void *data, const struct nlmsghdr *h)
{
    struct listing *l = data;
    size_t head = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(struct nfgenmsg)));
    if (l->n == BATCH || h->nlmsg_len < head)
        return;
    const struct nfgenmsg *info = NLMSG_DATA(h);
    const char *attributes = (const char *)h + head;
    const struct nlattr *tuple = netlink_find(attributes, h->nlmsg_len - head, CTA_TUPLE_ORIG);
    const struct nlattr *zone = netlink_find(attributes, h->nlmsg_len - head, CTA_ZONE);
    if (!tuple || netlink_data_size(tuple) > TUPLE_SIZE || is_kept(l, tuple, info->nfgen_family))
        return;
    struct connection *c = &l->found[l->n++];
    *c = (struct connection){.family = info->nfgen_family, .size = netlink_data_size(tuple)};
    memcpy(c->tuple, netlink_data(tuple), c->size);
    if (zone && netlink_data_size(zone) >= sizeof(c->zone))
        memcpy(&c->zone, netlink_data(zone), sizeof(c->zone));
}

static int forget_one(int sock, const struct connection *c)
{
    struct netlink_message m;
    connections_begin(&m, IPCTNL_MSG_CT_DELETE, 0, c->family);
    netlink_put(&m, CTA_TUPLE_ORIG | NLA_F_NESTED, c->tuple, c->size);
    netlink_put(&m, CTA_ZONE, &c->zone, sizeof(c->zone));
    int r = netlink_send(sock, &m);
    return r == -ENOENT ? 0 : r; /* it has ended by itself */
}

/* slot: NULL for all of the namespace. */
static int listing_forget(int sock, struct listing *l, const uint32_t *slot)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        struct netlink_message m;
        l->n = 0;
        connections_begin(&m, IPCTNL_MSG_CT_GET, NLM_F_DUMP, AF_UNSPEC);
        if (slot)
            put_mark(&m, *slot);
        int r = netlink_dump(sock, &m, on_connection, l);
        for (size_t i = 0; r == 0 && i < l->n; i++)
            r = forget_one(sock, &l->found[i]);
        if (r < 0 || l->n == 0)
            return r;
    }
    return -ELOOP;
}

static struct listing the_listing; /* too large for a stack; there is one at a time */

int connections_forget_others(int sock, uint32_t slot, const struct net_range *ranges, uint32_t n)
{
    the_listing.pools = NULL;
    the_listing.ranges = ranges;
    the_listing.n_ranges = n;
    return listing_forget(sock, &the_listing, &slot);
}

int connections_forget_pools(int sock, const struct net_config *c)
{
    the_listing.pools = c;
    return listing_forget(sock, &the_listing, NULL);
}
