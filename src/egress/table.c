/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. */
#include "egress/table.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/strbuf.h"
#include "egress/link.h"

/* Sets of one purpose: by address, protocol and port for TCP and UDP, and by address for echo
 * requests; for each family one. */
enum { SETS = 4 };
static const struct {
    const char *suffix, *type;
    enum net_family family;
    bool with_ports;
} set_kinds[SETS] = {
    {"p4", "ipv4_addr . inet_proto . inet_service", NET_IPV4, true},
    {"p6", "ipv6_addr . inet_proto . inet_service", NET_IPV6, true},
    {"e4", "ipv4_addr", NET_IPV4, false},
    {"e6", "ipv6_addr", NET_IPV6, false},
};

static void format_address(enum net_family family, const uint8_t *bytes,
                           char out[ADDRESS_TEXT_SIZE])
{
    inet_ntop(family == NET_IPV4 ? AF_INET : AF_INET6, bytes, out, ADDRESS_TEXT_SIZE);
}

static int add_element(struct strbuf *b, int kind, const struct net_range *r)
{
    char text[ADDRESS_TEXT_SIZE];
    format_address((enum net_family)r->family, r->address, text);
    if (!set_kinds[kind].with_ports)
        return strbuf_printf(b, " %s/%u,", text, r->bits);
    int ret = 0;
    for (int udp = 0; ret == 0 && udp < 2; udp++)
        ret = strbuf_printf(b, " %s/%u . %d . %u-%u,", text, r->bits,
                            udp ? IPPROTO_UDP : IPPROTO_TCP, r->port_first, r->port_last);
    return ret;
}

/* Ranges that lie in others of the list would be an error to nft in sets without merging, which
 * those with ports cannot do. */
static bool is_within_another(const struct net_range *list, uint32_t n, uint32_t i)
{
    for (uint32_t k = 0; k < n; k++)
        if (k != i && list[k].deny == list[i].deny && net_range_covers(&list[k], &list[i]) &&
            (k < i || !net_range_covers(&list[i], &list[k])))
            return true;
    return false;
}

/* All elements of a set are one command: nft 1.0.6 merges neighbours of one command, and fails with
 * those of several in the same transaction. */
static int fill_set(struct strbuf *b, const char *set, int kind, const struct net_range *list,
                    uint32_t n, uint8_t deny)
{
    int r = 0;
    uint32_t found = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        if (list[i].deny != deny || is_within_another(list, n, i) ||
            set_kinds[kind].family != (enum net_family)list[i].family ||
            (!set_kinds[kind].with_ports && list[i].port_first))
            continue;
        if (found++ == 0)
            r = strbuf_printf(b, "add element inet mas %s_%s {", set, set_kinds[kind].suffix);
        r = r < 0 ? r : add_element(b, kind, &list[i]);
    }
    return r < 0 || !found ? r : strbuf_puts(b, " }\n");
}

static int fill_sets(struct strbuf *b, const char *set, const struct net_range *list, uint32_t n,
                     uint8_t deny)
{
    int r = 0;
    for (int kind = 0; r == 0 && kind < SETS; kind++)
        r = fill_set(b, set, kind, list, n, deny);
    return r;
}

static int make_sets(struct strbuf *b, const char *set)
{
    int r = 0;
    for (int kind = 0; r == 0 && kind < SETS; kind++)
        r = strbuf_printf(b, "create set inet mas %s_%s { type %s; flags interval;%s }\n", set,
                          set_kinds[kind].suffix, set_kinds[kind].type,
                          set_kinds[kind].with_ports ? "" : " auto-merge;");
    return r;
}

/* One rule per set: what is in it gets this verdict. */
static int match_sets(struct strbuf *b, const char *chain, const char *set, const char *verdict)
{
    static const char *const matches[SETS] = {
        "ip daddr . meta l4proto . th dport @%s_p4",
        "ip6 daddr . meta l4proto . th dport @%s_p6",
        "icmp type 8 ip daddr @%s_e4",
        "icmpv6 type 128 ip6 daddr @%s_e6",
    };
    int r = 0;
    for (int kind = 0; r == 0 && kind < SETS; kind++) {
        r = strbuf_printf(b, "add rule inet mas %s ", chain);
        r = r < 0 ? r : strbuf_puts(b, set_kinds[kind].with_ports ? "meta l4proto { 6, 17 } " : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        r = r < 0 ? r : strbuf_printf(b, matches[kind], set);
#pragma GCC diagnostic pop
        r = r < 0 ? r : strbuf_printf(b, " %s\n", verdict);
    }
    return r;
}

/* --- the router */

static bool is_opened_itself(const struct net_config *c, const struct address *a)
{
    for (uint32_t i = 0; i < c->n_open; i++) {
        const struct net_range *o = &c->open[i];
        bool whole = o->bits == address_bits(a) && !o->port_first &&
                     (o->family == NET_IPV4) == (a->family == AF_INET);
        if (whole && memcmp(o->address, a->bytes, address_bits(a) / 8) == 0)
            return true;
    }
    return false;
}

static int close_networks(struct strbuf *b, const struct net_config *c)
{
    struct address net;
    size_t bits;
    enum address_class class;
    char text[ADDRESS_TEXT_SIZE];
    int r = 0;
    for (size_t i = 0; r == 0 && address_closed_network(i, &net, &bits, &class); i++) {
        bool never = class == ADDRESS_METADATA || class == ADDRESS_FORBIDDEN;
        if (never && class == ADDRESS_METADATA && is_opened_itself(c, &net))
            continue;
        address_format(&net, text);
        if (net.family == AF_INET6 && strchr(text, '.')) /* mapped: no packet has such */
            continue;
        r = strbuf_printf(b, "add element inet mas %s%d { %s/%zu }\n", never ? "never" : "closed",
                          net.family == AF_INET ? 4 : 6, text, bits);
    }
    return r;
}

/* No packet may go to an address of the pools: sandboxes do not reach each other. */
static int close_pools(struct strbuf *b, const struct net_config *c)
{
    char text4[ADDRESS_TEXT_SIZE], text6[ADDRESS_TEXT_SIZE];
    format_address(NET_IPV4, c->pool4.address, text4);
    format_address(NET_IPV6, c->pool6.address, text6);
    return strbuf_printf(b,
                         "add element inet mas never4 { %s/%u }\n"
                         "add element inet mas never6 { %s/%u }\n",
                         text4, c->pool4.bits, text6, c->pool6.bits);
}

/* What is refused is answered at once; what says nothing about whom to answer is dropped.
 *
 * raw stands before the defragmentation of conntrack (-400). Its queues know addresses and zones
 * and no links: a fragment has to have its own sandbox's address, and zone, before it is in one.
 *
 * The router's links have neighbours that mas-net made, so it needs no message of ARP. A sandbox's
 * would fill the table of neighbours, which is one for all network namespaces of the host. What is
 * the same in IPv6 ends in the chain input. */
static const char router_chains[] =
    "add table arp mas\n"
    "delete table arp mas\n"
    "add table arp mas\n"
    "add chain arp mas input { type filter hook input priority 0; policy drop; }\n"
    "add table inet mas\n"
    "delete table inet mas\n"
    "add table inet mas\n"
    "add map inet mas from { type ifname : verdict; }\n"
    "add map inet mas decide { type ifname : verdict; }\n"
    "add map inet mas to4 { type ipv4_addr : verdict; }\n"
    "add map inet mas to6 { type ipv6_addr : verdict; }\n"
    "add set inet mas never4 { type ipv4_addr; flags interval; auto-merge; }\n"
    "add set inet mas never6 { type ipv6_addr; flags interval; auto-merge; }\n"
    "add set inet mas closed4 { type ipv4_addr; flags interval; auto-merge; }\n"
    "add set inet mas closed6 { type ipv6_addr; flags interval; auto-merge; }\n"
    "add chain inet mas raw { type filter hook prerouting priority -450; policy drop; }\n"
    "add rule inet mas raw iifname \"" TABLE_UPLINK "\" ip daddr vmap @to4\n"
    "add rule inet mas raw iifname \"" TABLE_UPLINK "\" ip6 daddr vmap @to6\n"
    "add rule inet mas raw iifname vmap @from\n"
    "add chain inet mas pre { type filter hook prerouting priority -150; policy drop; }\n"
    "add rule inet mas pre iifname \"" TABLE_UPLINK "\" ct state established,related accept\n"
    "add rule inet mas pre iifname vmap @decide\n"
    "add chain inet mas forward { type filter hook forward priority 0; policy drop; }\n"
    "add rule inet mas forward iifname \"" TABLE_UPLINK "\" accept\n"
    "add rule inet mas forward meta mark 1 oifname \"" TABLE_UPLINK "\" accept\n"
    "add rule inet mas forward reject with icmpx admin-prohibited\n"
    "add chain inet mas input { type filter hook input priority 0; policy drop; }\n"
    "add chain inet mas output { type filter hook output priority 0; policy drop; }\n"
    "add rule inet mas output oifname != \"" TABLE_UPLINK "\" icmp type { 3, 11 } accept\n"
    "add rule inet mas output oifname != \"" TABLE_UPLINK "\" icmpv6 type { 1, 2, 3 } accept\n"
    "add rule inet mas output oifname != \"" TABLE_UPLINK "\" tcp flags & rst == rst accept\n"
    "add chain inet mas refused\n"
    "add rule inet mas refused meta l4proto 6 reject with tcp reset\n"
    "add rule inet mas refused reject with icmpx admin-prohibited\n"
    "add chain inet mas closed\n"
    "add rule inet mas closed ip daddr @never4 goto refused\n"
    "add rule inet mas closed ip6 daddr @never6 goto refused\n";

static const char router_rest[] =
    "add rule inet mas closed ip daddr @closed4 goto refused\n"
    "add rule inet mas closed ip6 daddr @closed6 goto refused\n"
    "add rule inet mas closed ip6 daddr != 2000::/3 goto refused\n"
    /* Addresses whose interface identifier carries one of IPv4 (ISATAP). */
    "add rule inet mas closed ip6 daddr & ::fdff:ffff:0:0 == ::5efe:0:0 goto refused\n";

int table_router(struct strbuf *b, const struct net_config *c)
{
    int r = strbuf_puts(b, router_chains);
    r = r < 0 ? r : close_networks(b, c);
    r = r < 0 ? r : close_pools(b, c);
    r = r < 0 ? r : make_sets(b, "denied");
    r = r < 0 ? r : fill_sets(b, "denied", c->denied, c->n_denied, 0);
    r = r < 0 ? r : match_sets(b, "closed", "denied", "goto refused");
    r = r < 0 ? r : make_sets(b, "open");
    r = r < 0 ? r : fill_sets(b, "open", c->open, c->n_open, 0);
    r = r < 0 ? r : match_sets(b, "closed", "open", "return");
    return r < 0 ? r : strbuf_puts(b, router_rest);
}

/* --- the host */

/* The host's own address, which the operator named by itself. */
static int open_host_address(struct strbuf *b, const char *table, const struct net_range *o)
{
    char text[ADDRESS_TEXT_SIZE];
    const char *family = o->family == NET_IPV4 ? "ip" : "ip6";
    if (o->bits != (o->family == NET_IPV4 ? 32 : 128))
        return 0;
    format_address((enum net_family)o->family, o->address, text);
    return strbuf_printf(
        b, "add rule inet %s from %s daddr %s meta l4proto { 6, 17 } th dport %u-%u accept\n",
        table, family, text, o->port_first, o->port_last);
}

int table_host(struct strbuf *b, const struct net_config *c, const char *instance)
{
    char text4[ADDRESS_TEXT_SIZE], text6[ADDRESS_TEXT_SIZE], name[32], link[IFNAMSIZ];
    snprintf(name, sizeof(name), TABLE_HOST "%s", instance);
    snprintf(link, sizeof(link), TABLE_HOST_LINK, instance);
    format_address(NET_IPV4, c->pool4.address, text4);
    format_address(NET_IPV6, c->pool6.address, text6);
    int r = strbuf_printf(
        b,
        "add table inet %1$s\n"
        "delete table inet %1$s\n"
        "add table inet %1$s\n"
        "add chain inet %1$s from\n"
        "add chain inet %1$s input { type filter hook input priority -10; }\n"
        "add rule inet %1$s input iifname \"%2$s\" jump from\n"
        "add rule inet %1$s input iifname \"%2$s\" meta l4proto 6 reject with tcp reset\n"
        "add rule inet %1$s input iifname \"%2$s\" reject with icmpx admin-prohibited\n"
        "add rule inet %1$s from ct state established,related accept\n"
        "add chain inet %1$s forward { type filter hook forward priority -10; }\n"
        "add rule inet %1$s forward oifname \"%2$s\" ct state != { established, related } drop\n"
        "add chain inet %1$s output { type filter hook output priority -10; }\n"
        "add rule inet %1$s output oifname \"%2$s\" ct state != { established, related } drop\n"
        "add chain inet %1$s post { type nat hook postrouting priority 100; }\n"
        "add rule inet %1$s post ip saddr %3$s/%4$u oifname != \"%2$s\" masquerade\n"
        "add rule inet %1$s post ip6 saddr %5$s/%6$u oifname != \"%2$s\" masquerade\n",
        name, link, text4, c->pool4.bits, text6, c->pool6.bits);
    for (uint32_t i = 0; r == 0 && i < c->n_open; i++)
        r = open_host_address(b, name, &c->open[i]);
    return r;
}

/* --- a sandbox */

struct names {
    char chain[16], allow[16], deny[16], link[IFNAMSIZ];
    char address4[ADDRESS_TEXT_SIZE], address6[ADDRESS_TEXT_SIZE];
};

static void fill_names(const struct net_config *c, uint32_t slot, struct names *ret)
{
    uint8_t bytes[16];
    snprintf(ret->chain, sizeof(ret->chain), "s%u", slot);
    snprintf(ret->allow, sizeof(ret->allow), "s%u_allow", slot);
    snprintf(ret->deny, sizeof(ret->deny), "s%u_deny", slot);
    snprintf(ret->link, sizeof(ret->link), TABLE_LINK, slot);
    if (!c)
        return;
    pool_address(&c->pool4, NET_POOL_FIRST + slot, bytes);
    format_address(NET_IPV4, bytes, ret->address4);
    pool_address(&c->pool6, NET_POOL_FIRST + slot, bytes);
    format_address(NET_IPV6, bytes, ret->address6);
}

static int fill_request(struct strbuf *b, const struct names *n, const struct net_request *q)
{
    int r = fill_sets(b, n->allow, q->ranges, q->n_ranges, 0);
    return r < 0 ? r : fill_sets(b, n->deny, q->ranges, q->n_ranges, 1);
}

/* The limits count what may leave otherwise. A connection keeps the slot as its mark, by which its
 * entries are forgotten with the sandbox. */
static int add_leave_chain(struct strbuf *b, const struct net_config *c, const struct names *n,
                           uint32_t slot)
{
    int r = strbuf_printf(
        b,
        "add rule inet mas %1$s_leave ct state invalid counter drop\n"
        "add rule inet mas %1$s_leave ct state new limit rate over %2$u/second burst %2$u packets "
        "counter name %1$s_limited goto refused\n"
        "add rule inet mas %1$s_leave ct state new ct count over %3$u counter name %1$s_limited "
        "goto refused\n"
        "add rule inet mas %1$s_leave ct state new ct mark set %4$u\n",
        n->chain, c->connects_per_second, c->connections, slot + 1);
    if (r == 0 && c->mbytes_per_second)
        r = strbuf_printf(b,
                          "add rule inet mas %1$s_leave limit rate over %2$u mbytes/second burst "
                          "%2$u mbytes counter name %1$s_limited drop\n"
                          "add rule inet mas %1$s_to limit rate over %2$u mbytes/second burst %2$u "
                          "mbytes counter name %1$s_limited drop\n",
                          n->chain, c->mbytes_per_second);
    return r < 0 ? r
                 : strbuf_printf(b,
                                 "add rule inet mas %1$s_leave counter name %1$s_out meta mark set "
                                 "%2$d accept\n",
                                 n->chain, TABLE_MARK);
}

/* create fails where there is one already: rules of a sandbox before, which were not removed, would
 * be heeded before ours. */
static int add_chains(struct strbuf *b, const struct names *n, uint32_t slot)
{
    return strbuf_printf(b,
                         "add counter inet mas %1$s_out\n"
                         "add counter inet mas %1$s_in\n"
                         "add counter inet mas %1$s_refused\n"
                         "add counter inet mas %1$s_limited\n"
                         "create chain inet mas %1$s_from\n"
                         "add rule inet mas %1$s_from ip saddr != %2$s counter drop\n"
                         "add rule inet mas %1$s_from ip6 saddr != %3$s counter drop\n"
                         "add rule inet mas %1$s_from ct zone set %4$u accept\n"
                         "create chain inet mas %1$s_to\n"
                         "create chain inet mas %1$s_leave\n"
                         "create chain inet mas %1$s\n",
                         n->chain, n->address4, n->address6, slot + 1);
}

static int add_decision(struct strbuf *b, const struct names *n)
{
    char leave[40];
    snprintf(leave, sizeof(leave), "goto %s_leave", n->chain);
    int r = match_sets(b, n->chain, n->deny, "goto refused");
    r = r < 0 ? r : strbuf_printf(b, "add rule inet mas %s jump closed\n", n->chain);
    r = r < 0 ? r : match_sets(b, n->chain, n->allow, leave);
    return r < 0
               ? r
               : strbuf_printf(b, "add rule inet mas %1$s counter name %1$s_refused goto refused\n",
                               n->chain);
}

int table_add(struct strbuf *b, const struct net_config *c, const struct net_request *q)
{
    struct names n;
    fill_names(c, q->slot, &n);
    int r = make_sets(b, n.allow);
    r = r < 0 ? r : make_sets(b, n.deny);
    r = r < 0 ? r : fill_request(b, &n, q);
    r = r < 0 ? r : add_chains(b, &n, q->slot);
    r = r < 0 ? r : add_leave_chain(b, c, &n, q->slot);
    r = r < 0 ? r : add_decision(b, &n);
    return r < 0 ? r
                 : strbuf_printf(
                       b,
                       "add rule inet mas %1$s_to ct zone set %5$u counter name %1$s_in accept\n"
                       "add element inet mas from { \"%2$s\" : goto %1$s_from }\n"
                       "add element inet mas decide { \"%2$s\" : goto %1$s }\n"
                       "add element inet mas to4 { %3$s : goto %1$s_to }\n"
                       "add element inet mas to6 { %4$s : goto %1$s_to }\n",
                       n.chain, n.link, n.address4, n.address6, q->slot + 1);
}

int table_replace(struct strbuf *b, const struct net_request *q)
{
    struct names n;
    fill_names(NULL, q->slot, &n);
    int r = 0;
    for (int kind = 0; r == 0 && kind < SETS; kind++)
        r = strbuf_printf(b, "flush set inet mas %1$s_%3$s\nflush set inet mas %2$s_%3$s\n",
                          n.allow, n.deny, set_kinds[kind].suffix);
    return r < 0 ? r : fill_request(b, &n, q);
}

int table_remove(struct strbuf *b, const struct net_config *c, uint32_t slot)
{
    struct names n;
    fill_names(c, slot, &n);
    int r = strbuf_printf(b,
                          "delete element inet mas from { \"%2$s\" }\n"
                          "delete element inet mas decide { \"%2$s\" }\n"
                          "delete element inet mas to4 { %3$s }\n"
                          "delete element inet mas to6 { %4$s }\n"
                          "delete chain inet mas %1$s\n"
                          "delete chain inet mas %1$s_from\n"
                          "delete chain inet mas %1$s_to\n"
                          "delete chain inet mas %1$s_leave\n"
                          "delete counter inet mas %1$s_out\n"
                          "delete counter inet mas %1$s_in\n"
                          "delete counter inet mas %1$s_refused\n"
                          "delete counter inet mas %1$s_limited\n",
                          n.chain, n.link, n.address4, n.address6);
    for (int kind = 0; r == 0 && kind < SETS; kind++)
        r = strbuf_printf(b, "delete set inet mas %1$s_%3$s\ndelete set inet mas %2$s_%3$s\n",
                          n.allow, n.deny, set_kinds[kind].suffix);
    return r;
}
