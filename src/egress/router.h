/* SPDX-License-Identifier: Apache-2.0 */
/* mas-net: the way out of sandboxes that have a network by address.
 *
 * Theory of operation. All of it is in one network namespace, the router, which the warden made and
 * keeps open: sandboxes have a pair of links to it, and it has one to the host. Its rules (table.h)
 * decide what leaves. The host sees one link, on which there is nothing but what was allowed.
 *
 * The order is what keeps it closed. A sandbox's rules are there before its link is, and its link
 * is gone before they are. Without rules there is no route (TABLE_MARK). When mas-net is killed,
 * rules and links stay as they are, and the next one goes on. When the warden is killed, mas-net
 * removes what is on the host and ends; when both are, the namespace goes with them, and all links
 * with it. What is left is the host's table, about a link that does not exist; the next start
 * removes it.
 *
 * A virtual machine has no network namespace that a link could be put into. Its link is a tap in
 * the router, whose other end is a descriptor of the emulator's; it goes when the last copy of that
 * does. Such a descriptor acts in the namespace where it was opened, so the warden opens it in the
 * router.
 *
 * mas-net has CAP_NET_ADMIN and a user of its own. It cannot enter a sandbox's network: the warden
 * hands it a route socket that was made there, and a descriptor that says where a link is to go. */
#pragma once

#include <stddef.h>

#include "proto/net.h"

struct nft_ctx;

struct router {
    struct net_start start;
    struct nft_ctx *host_rules, *rules; /* each of its namespace */
    int host_links, links;              /* route sockets, likewise */
    int host_connections, connections;  /* of conntrack, likewise */
    int host_forwards[2];               /* IPv4's and IPv6's switch of the host, for reading */
    int host_ns;
};

/* While the caller still has its rights: opens all of it, and enters the namespace of router_fd.
 * 0 or -errno with a text in why. */
int router_open(struct router *r, int router_fd, char *why, size_t size);
/* The link to the host, both tables; where they are there already, the host's is made anew. */
int router_start(struct router *r, char *why, size_t size);
/* Takes a request that was checked. fds: as the operation needs them; borrowed. */
int router_serve(struct router *r, const struct net_request *q, const int *fds, char *why,
                 size_t size);
/* What is on the host: the link, what was translated for it, then the table. */
void router_leave_host(struct router *r);
