/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/link.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "egress/netlink.h"

#define MARK_RULE_PRIORITY 100

static void put_hardware(struct netlink_message *m, uint16_t type, uint32_t number, bool is_peer)
{
    uint8_t bytes[NET_HARDWARE_SIZE];
    net_hardware_address(number, is_peer, bytes);
    netlink_put(m, type, bytes, sizeof(bytes));
}

int link_pair_make(int sock, const struct link_pair *p)
{
    struct netlink_message m;
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    netlink_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
    netlink_put_text(&m, IFLA_IFNAME, p->name);
    put_hardware(&m, IFLA_ADDRESS, p->number, false);
    size_t link = netlink_nest(&m, IFLA_LINKINFO);
    netlink_put_text(&m, IFLA_INFO_KIND, "veth");
    size_t data = netlink_nest(&m, IFLA_INFO_DATA);
    size_t peer = netlink_nest(&m, VETH_INFO_PEER);
    /* The peer's own fixed part stands where a nested attribute's first member would. */
    m.head.nlmsg_len += sizeof(info);
    memset(m.bytes + peer + NLA_HDRLEN, 0, sizeof(info));
    netlink_put_text(&m, IFLA_IFNAME, p->peer_name);
    put_hardware(&m, IFLA_ADDRESS, p->number, true);
    netlink_put_u32(&m, IFLA_NET_NS_FD, (uint32_t)p->peer_ns);
    netlink_nest_end(&m, peer);
    netlink_nest_end(&m, data);
    netlink_nest_end(&m, link);
    return netlink_send(sock, &m);
}

/* Frames as they are, with no header that asks the kernel to cut or sum them up: what comes from a
 * machine is not trusted with that. A link that is there already is another machine's. */
int link_tap_make(int sock, int tun_fd, const char *name, uint32_t number)
{
    struct netlink_message m;
    struct ifreq request = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL)};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(tun_fd, TUNSETIFF, &request) < 0)
        return -errno;
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    netlink_begin(&m, RTM_NEWLINK, 0, &info, sizeof(info));
    netlink_put_text(&m, IFLA_IFNAME, name);
    put_hardware(&m, IFLA_ADDRESS, number, false);
    return netlink_send(sock, &m);
}

int link_move(int sock, int index, int ns)
{
    struct netlink_message m;
    const struct ifinfomsg info = {.ifi_index = index};
    netlink_begin(&m, RTM_NEWLINK, 0, &info, sizeof(info));
    netlink_put_u32(&m, IFLA_NET_NS_FD, (uint32_t)ns);
    return netlink_send(sock, &m);
}

/* One that is gone already is removed: a veth goes with its other end, a tap with its emulator. */
int link_remove(int sock, const char *name)
{
    struct netlink_message m;
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    netlink_begin(&m, RTM_DELLINK, 0, &info, sizeof(info));
    netlink_put_text(&m, IFLA_IFNAME, name);
    int r = netlink_send(sock, &m);
    return r == -ENODEV ? 0 : r;
}

/* The answer is the link, not an acknowledgement: both come, and the first is what is wanted. */
int link_find(int sock, const char *name)
{
    struct netlink_message m;
    union {
        struct nlmsghdr head;
        char bytes[8192];
    } answer;
    const struct ifinfomsg info = {.ifi_family = AF_UNSPEC};
    netlink_begin(&m, RTM_GETLINK, 0, &info, sizeof(info));
    m.head.nlmsg_flags = NLM_F_REQUEST;
    netlink_put_text(&m, IFLA_IFNAME, name);
    m.head.nlmsg_seq = 0; /* no number of netlink_send()'s */
    if (send(sock, &m, m.head.nlmsg_len, 0) < 0)
        return -errno;
    ssize_t n = recv(sock, &answer, sizeof(answer), 0);
    if (n < 0)
        return -errno;
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(info)))
        return -EPROTO;
    if (answer.head.nlmsg_type == NLMSG_ERROR)
        return ((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
    return ((struct ifinfomsg *)NLMSG_DATA(&answer.head))->ifi_index;
}

int link_raise(int sock, int index)
{
    struct netlink_message m;
    const struct ifinfomsg info = {.ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    netlink_begin(&m, RTM_NEWLINK, 0, &info, sizeof(info));
    return netlink_send(sock, &m);
}

void pool_address(const struct net_range *pool, uint32_t n, uint8_t ret[16])
{
    unsigned last = pool->family == NET_IPV4 ? 3 : 15;
    memcpy(ret, pool->address, sizeof(pool->address));
    for (unsigned i = 0; i < 4; i++, n >>= 8)
        ret[last - i] |= (uint8_t)n;
}

static uint8_t family_of(const struct net_range *pool)
{
    return pool->family == NET_IPV4 ? AF_INET : AF_INET6;
}

static size_t size_of(const struct net_range *pool)
{
    return pool->family == NET_IPV4 ? 4 : 16;
}

/* Without a search for others that have the address: no other interface is on this link. */
static int add_address(int sock, int index, const struct net_range *pool, uint32_t n)
{
    struct netlink_message m;
    uint8_t bytes[16];
    const struct ifaddrmsg info = {.ifa_family = family_of(pool),
                                   .ifa_prefixlen = (uint8_t)(size_of(pool) * 8),
                                   .ifa_flags = IFA_F_NODAD,
                                   .ifa_index = (unsigned)index};
    pool_address(pool, n, bytes);
    netlink_begin(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &info, sizeof(info));
    netlink_put(&m, IFA_LOCAL, bytes, size_of(pool));
    netlink_put(&m, IFA_ADDRESS, bytes, size_of(pool));
    return netlink_send(sock, &m);
}

static int add_neighbour(int sock, const struct link_end *e, const struct net_range *pool)
{
    struct netlink_message m;
    uint8_t bytes[16];
    const struct ndmsg info = {
        .ndm_family = family_of(pool), .ndm_ifindex = e->index, .ndm_state = NUD_PERMANENT};
    pool_address(pool, e->other, bytes);
    netlink_begin(&m, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &info, sizeof(info));
    netlink_put(&m, NDA_DST, bytes, size_of(pool));
    put_hardware(&m, NDA_LLADDR, e->number, !e->is_peer);
    return netlink_send(sock, &m);
}

/* To bits of the address n of a pool: directly, which may be there already, or by way of the other
 * end, which may not. */
static int add_route(int sock, const struct link_end *e, const struct net_range *pool, uint32_t n,
                     unsigned bits, bool by_way, uint32_t table)
{
    struct netlink_message m;
    uint8_t to[16], way[16];
    const struct rtmsg info = {.rtm_family = family_of(pool),
                               .rtm_dst_len = (uint8_t)bits,
                               .rtm_table = RT_TABLE_UNSPEC,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = by_way ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                               .rtm_type = RTN_UNICAST};
    pool_address(pool, n, to);
    pool_address(pool, e->other, way);
    netlink_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | (by_way ? NLM_F_EXCL : NLM_F_REPLACE), &info,
                  sizeof(info));
    if (bits)
        netlink_put(&m, RTA_DST, to, size_of(pool));
    if (by_way)
        netlink_put(&m, RTA_GATEWAY, way, size_of(pool));
    netlink_put_u32(&m, RTA_OIF, (uint32_t)e->index);
    netlink_put_u32(&m, RTA_TABLE, table ? table : RT_TABLE_MAIN);
    return netlink_send(sock, &m);
}

static int configure_family(int sock, const struct link_end *e, const struct net_range *pool)
{
    int r = e->own ? add_address(sock, e->index, pool, e->own) : 0;
    r = r < 0 ? r : add_neighbour(sock, e, pool);
    return r < 0 ? r : add_route(sock, e, pool, e->other, (unsigned)size_of(pool) * 8, false, 0);
}

int link_end_configure(int sock, const struct link_end *e)
{
    int r = configure_family(sock, e, &e->config->pool4);
    return r < 0 ? r : configure_family(sock, e, &e->config->pool6);
}

int link_end_route(int sock, const struct link_end *e, enum link_route which, uint32_t table)
{
    const struct net_range *pools[] = {&e->config->pool4, &e->config->pool6};
    int r = 0;
    for (int i = 0; r == 0 && i < 2; i++)
        r = add_route(sock, e, pools[i], 0, which == LINK_ROUTE_ALL ? 0 : pools[i]->bits, true,
                      table);
    return r;
}

int link_mark_rule(int sock, uint32_t mark, uint32_t table)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    int r = 0;
    for (int i = 0; r == 0 && i < 2; i++) {
        struct netlink_message m;
        const struct fib_rule_hdr info = {.family = families[i], .action = FR_ACT_TO_TBL};
        netlink_begin(&m, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
        netlink_put_u32(&m, FRA_PRIORITY, MARK_RULE_PRIORITY);
        netlink_put_u32(&m, FRA_FWMARK, mark);
        netlink_put_u32(&m, FRA_TABLE, table);
        r = netlink_send(sock, &m);
        r = r == -EEXIST ? 0 : r;
    }
    return r;
}
