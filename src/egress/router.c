/* SPDX-License-Identifier: Apache-2.0 */
/* See router.h. */
#include "egress/router.h"

#include <errno.h>
#include <fcntl.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "egress/connections.h"
#include "egress/link.h"
#include "egress/netlink.h"
#include "egress/table.h"

#define TEXT_MAX      (256 * 1024) /* of one transaction */
#define ROUTE_TABLE   100          /* the router's way out, which only marked packets find */
#define UPLINK_NUMBER 0x10000000   /* in hardware addresses; slots are below */
#define GUEST_LINK    "eth0"

/* --- rules */

static int rules_run(struct nft_ctx *nft, const struct strbuf *text, char *why, size_t size)
{
    if (nft_run_cmd_from_buffer(nft, text->data) == 0)
        return 0;
    const char *said = nft_ctx_get_error_buffer(nft);
    const char *cause = said ? strstr(said, "Error: ") : NULL;
    snprintf(why, size, "nftables: %.*s", cause ? (int)strcspn(cause, "\n") : 16,
             cause ? cause : "no reason given");
    return -EIO;
}

static struct nft_ctx *rules_open(void)
{
    struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!nft)
        return NULL;
    nft_ctx_output_set_flags(nft, NFT_CTX_OUTPUT_NUMERIC_ALL);
    if (nft_ctx_buffer_output(nft) == 0 && nft_ctx_buffer_error(nft) == 0)
        return nft;
    nft_ctx_free(nft);
    return NULL;
}

/* Tables of instances whose link is gone: what was killed together with its warden left them. A
 * living instance has its link before its table. */
static void sweep_host(struct router *r)
{
    char instance[NET_INSTANCE_SIZE], link[IFNAMSIZ];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    if (nft_run_cmd_from_buffer(r->host_rules, "list tables inet") != 0)
        return;
    const char *line = nft_ctx_get_output_buffer(r->host_rules);
    for (; line && (line = strstr(line, "table inet " TABLE_HOST)); line++) {
        if (sscanf(line, "table inet " TABLE_HOST "%7[0-9a-f]", instance) != 1)
            continue;
        snprintf(link, sizeof(link), TABLE_HOST_LINK, instance);
        if (link_find(r->host_links, link) == -ENODEV)
            strbuf_printf(&text, "delete table inet " TABLE_HOST "%s\n", instance);
    }
    if (text.data)
        nft_run_cmd_from_buffer(r->host_rules, text.data);
}

/* --- start */

static int write_setting(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* In the router's namespace, which nothing else looks at. The kernel must not slow refusals down
 * by their number: a program that is refused often fails as quickly as the first time. A new
 * namespace has the settings of IPv4 that the host has: where the host looks for the way back to
 * a source, answers would not come in, because only marked packets have a route to the outside. */
static int write_settings(char *why, size_t size)
{
    static const struct {
        const char *path, *value;
    } settings[] = {{"/proc/sys/net/ipv4/ip_forward", "1"},
                    {"/proc/sys/net/ipv6/conf/all/forwarding", "1"},
                    {"/proc/sys/net/ipv4/conf/all/rp_filter", "0"},
                    {"/proc/sys/net/ipv4/conf/default/rp_filter", "0"},
                    {"/proc/sys/net/ipv4/conf/all/accept_source_route", "0"},
                    {"/proc/sys/net/ipv4/conf/default/accept_source_route", "0"},
                    {"/proc/sys/net/ipv4/conf/all/arp_accept", "0"},
                    {"/proc/sys/net/ipv4/conf/default/arp_accept", "0"},
                    {"/proc/sys/net/ipv4/conf/all/proxy_arp", "0"},
                    {"/proc/sys/net/ipv4/conf/default/proxy_arp", "0"},
                    {"/proc/sys/net/ipv4/icmp_ratelimit", "0"},
                    {"/proc/sys/net/ipv6/icmp/ratelimit", "0"}};
    for (size_t i = 0; i < ELEMENTS(settings); i++) {
        int r = write_setting(settings[i].path, settings[i].value);
        if (r < 0) {
            snprintf(why, size, "%s: %s", settings[i].path, strerror(-r));
            return r;
        }
    }
    return 0;
}

int router_open(struct router *r, int router_fd, char *why, size_t size)
{
    r->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    r->host_forwards[0] = open("/proc/sys/net/ipv4/ip_forward", O_RDONLY | O_CLOEXEC);
    r->host_forwards[1] = open("/proc/sys/net/ipv6/conf/all/forwarding", O_RDONLY | O_CLOEXEC);
    r->host_rules = rules_open();
    r->host_links = netlink_open(NETLINK_ROUTE);
    r->host_connections = netlink_open(NETLINK_NETFILTER);
    if (r->host_ns < 0 || !r->host_rules || r->host_links < 0 || r->host_connections < 0) {
        snprintf(why, size, "the host's network cannot be opened");
        return -EIO;
    }
    if (setns(router_fd, CLONE_NEWNET) < 0) {
        snprintf(why, size, "enter the router's namespace: %s", strerror(errno));
        return -errno;
    }
    r->rules = rules_open();
    r->links = netlink_open(NETLINK_ROUTE);
    r->connections = netlink_open(NETLINK_NETFILTER);
    if (!r->rules || r->links < 0 || r->connections < 0) {
        snprintf(why, size, "the router's network cannot be opened");
        return -EIO;
    }
    return write_settings(why, size);
}

/* The host's end. Its rules are there before it is up. */
static int start_host_end(struct router *r, const char *name, char *why, size_t size)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    int index = link_find(r->host_links, name);
    struct link_end end = {.index = index,
                           .config = &r->start.config,
                           .own = NET_POOL_HOST,
                           .other = NET_POOL_ROUTER,
                           .number = UPLINK_NUMBER,
                           .is_peer = true};
    int e = index < 0 ? index : table_host(&text, &r->start.config, r->start.instance);
    e = e < 0 ? e : rules_run(r->host_rules, &text, why, size);
    e = e < 0 ? e : link_raise(r->host_links, index);
    return e < 0 ? e : link_end_configure(r->host_links, &end);
}

/* Another daemon with the same pool would take our sandboxes' answers, and we its. */
static int claim_pools(struct router *r, const char *name, char *why, size_t size)
{
    struct link_end end = {.index = link_find(r->host_links, name),
                           .config = &r->start.config,
                           .other = NET_POOL_ROUTER};
    int e = end.index < 0 ? end.index : link_end_route(r->host_links, &end, LINK_ROUTE_POOL, 0);
    if (e == -EEXIST)
        snprintf(why, size, "network_pool or network_pool6 is in use on this host already");
    return e;
}

static int start_router_end(struct router *r, char *why, size_t size)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    int index = link_find(r->links, TABLE_UPLINK);
    struct link_end end = {.index = index,
                           .config = &r->start.config,
                           .own = NET_POOL_ROUTER,
                           .other = NET_POOL_HOST,
                           .number = UPLINK_NUMBER};
    int e = index < 0 ? index : table_router(&text, &r->start.config);
    e = e < 0 ? e : rules_run(r->rules, &text, why, size);
    e = e < 0 ? e : link_raise(r->links, index);
    e = e < 0 ? e : link_end_configure(r->links, &end);
    e = e < 0 ? e : link_mark_rule(r->links, TABLE_MARK, ROUTE_TABLE);
    return e < 0 ? e : link_end_route(r->links, &end, LINK_ROUTE_ALL, ROUTE_TABLE);
}

void router_leave_host(struct router *r)
{
    char text[64];
    link_remove(r->links, TABLE_UPLINK);
    connections_forget_pools(r->host_connections, &r->start.config);
    snprintf(text, sizeof(text), "delete table inet " TABLE_HOST "%s\n", r->start.instance);
    nft_run_cmd_from_buffer(r->host_rules, text);
}

int router_start(struct router *r, char *why, size_t size)
{
    struct link_pair pair = {.name = TABLE_UPLINK, .number = UPLINK_NUMBER, .peer_ns = r->host_ns};
    snprintf(pair.peer_name, sizeof(pair.peer_name), TABLE_HOST_LINK, r->start.instance);
    why[0] = 0;
    sweep_host(r);
    int index = link_find(r->links, TABLE_UPLINK);
    if (index > 0) /* one before us made all of it, and sandboxes live by it */
        return start_host_end(r, pair.peer_name, why, size);
    int e = link_pair_make(r->links, &pair);
    e = e < 0 ? e : start_host_end(r, pair.peer_name, why, size);
    e = e < 0 ? e : claim_pools(r, pair.peer_name, why, size);
    e = e < 0 ? e : start_router_end(r, why, size);
    if (e == 0)
        return 0;
    if (!why[0])
        snprintf(why, size, "the link to the host: %s", strerror(-e));
    router_leave_host(r);
    return e;
}

/* --- requests */

static bool switch_is_on(int fd)
{
    char byte = '0';
    return fd >= 0 && pread(fd, &byte, 1, 0) == 1 && byte != '0';
}

static int check_host_forwards(const struct router *r, const struct net_request *q, char *why,
                               size_t size)
{
    for (uint32_t i = 0; i < q->n_ranges; i++) {
        bool six = q->ranges[i].family == NET_IPV6;
        if (q->ranges[i].deny || switch_is_on(r->host_forwards[six]))
            continue;
        snprintf(why, size, "this host does not forward IPv%d (%s is 0)", six ? 6 : 4,
                 six ? "net.ipv6.conf.all.forwarding" : "net.ipv4.ip_forward");
        return -EOPNOTSUPP;
    }
    return 0;
}

static void link_name(uint32_t slot, char ret[IFNAMSIZ])
{
    snprintf(ret, IFNAMSIZ, TABLE_LINK, slot);
}

static int forget_slot(struct router *r, uint32_t slot, char *why, size_t size)
{
    int e = connections_forget(r->connections, slot);
    if (e < 0)
        snprintf(why, size, "connections of a sandbox that has ended: %s", strerror(-e));
    return e;
}

/* Its connections are forgotten also where its link is gone already. */
static int remove_slot(struct router *r, uint32_t slot, char *why, size_t size)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    char name[IFNAMSIZ];
    link_name(slot, name);
    int e = link_remove(r->links, name);
    int forgotten = forget_slot(r, slot, why, size);
    e = e < 0 ? e : table_remove(&text, &r->start.config, slot);
    e = e < 0 ? e : rules_run(r->rules, &text, why, size);
    return e < 0 ? e : forgotten;
}

/* The router's end of a link that is there. */
static int configure_own_end(struct router *r, uint32_t slot, const char *name)
{
    struct link_end own = {
        .config = &r->start.config, .other = NET_POOL_FIRST + slot, .number = slot};
    int e = own.index = link_find(r->links, name);
    e = e < 0 ? e : link_raise(r->links, own.index);
    return e < 0 ? e : link_end_configure(r->links, &own);
}

/* The other end is the machine's kernel's to configure (guest/network.c). */
static int connect_machine(struct router *r, uint32_t slot, int tun_fd)
{
    char name[IFNAMSIZ];
    link_name(slot, name);
    int e = link_tap_make(r->links, tun_fd, name, slot);
    return e < 0 ? e : configure_own_end(r, slot, name);
}

static int connect_guest(struct router *r, uint32_t slot, int ns, int guest_links)
{
    struct link_pair pair = {.peer_name = GUEST_LINK, .number = slot, .peer_ns = ns};
    struct link_end guest = {.config = &r->start.config,
                             .own = NET_POOL_FIRST + slot,
                             .other = NET_POOL_ROUTER,
                             .number = slot,
                             .is_peer = true};
    link_name(slot, pair.name);
    int e = link_pair_make(r->links, &pair);
    e = e < 0 ? e : configure_own_end(r, slot, pair.name);
    e = e < 0 ? e : (guest.index = link_find(guest_links, GUEST_LINK));
    e = e < 0 ? e : link_raise(guest_links, guest.index);
    e = e < 0 ? e : link_end_configure(guest_links, &guest);
    return e < 0 ? e : link_end_route(guest_links, &guest, LINK_ROUTE_ALL, 0);
}

static int add_slot(struct router *r, const struct net_request *q, const int *fds, char *why,
                    size_t size)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    char ignored[64];
    int e = check_host_forwards(r, q, why, size);
    if (e < 0)
        return e;
    /* There may be one before whose removal was lost. What stays of it makes the next steps fail:
     * they make rules and links, and take none that are there. */
    remove_slot(r, q->slot, ignored, sizeof(ignored));
    /* Rules let answers to a connection in: to one of the sandbox before, they would let them into
     * this one. */
    e = forget_slot(r, q->slot, why, size);
    e = e < 0 ? e : table_add(&text, &r->start.config, q);
    e = e < 0 ? e : rules_run(r->rules, &text, why, size);
    if (e < 0)
        return e;
    e = q->op == NET_ADD_TAP ? connect_machine(r, q->slot, fds[0])
                             : connect_guest(r, q->slot, fds[0], fds[1]);
    if (e == 0)
        return 0;
    snprintf(why, size, "the sandbox's link: %s", strerror(-e));
    remove_slot(r, q->slot, ignored, sizeof(ignored));
    return e;
}

/* All rules of the slot change in one transaction. Connections end after it, when no new ones of
 * their kind can begin. Rules that only take away are replaced on a host that has ceased to forward
 * as well: it is the sandbox's start that needs the host's help. */
static int replace_slot(struct router *r, const struct net_request *q, char *why, size_t size)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX);
    int e = table_replace(&text, q);
    e = e < 0 ? e : rules_run(r->rules, &text, why, size);
    if (e < 0)
        return e;
    e = connections_forget_others(r->connections, q->slot, q->ranges, q->n_ranges);
    if (e < 0)
        snprintf(why, size, "connections that are not allowed any more: %s", strerror(-e));
    return e;
}

int router_serve(struct router *r, const struct net_request *q, const int *fds, char *why,
                 size_t size)
{
    why[0] = 0;
    int e = net_ceiling_check(&r->start.config, q->ranges, q->n_ranges, why, (unsigned)size);
    if (e < 0)
        return e;
    switch (q->op) {
    case NET_ADD:
        return fds[0] < 0 || fds[1] < 0 ? -EBADF : add_slot(r, q, fds, why, size);
    case NET_ADD_TAP:
        return fds[0] < 0 ? -EBADF : add_slot(r, q, fds, why, size);
    case NET_REPLACE:
        return replace_slot(r, q, why, size);
    case NET_REMOVE:
        return remove_slot(r, q->slot, why, size);
    }
    return -EINVAL;
}
