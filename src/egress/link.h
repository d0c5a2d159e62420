/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses and routes: all by rtnetlink, in the namespace of the socket that is given.
 *
 * Every end knows the other one's hardware address from the start (a permanent neighbour), so
 * that no question about it has to be answered, and everything else can be dropped. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"

/* A pair of links. Names are ours and fixed; the peer is made in the namespace of peer_ns. */
struct link_pair {
    char name[IFNAMSIZ], peer_name[IFNAMSIZ];
    uint32_t number; /* in both hardware addresses; unique in the two namespaces */
    int peer_ns;
};
int link_pair_make(int sock, const struct link_pair *p);
/* Makes a link of a descriptor of /dev/net/tun, which must have been opened in the socket's
 * namespace; it is there as long as the descriptor, or a copy of it, is open. */
int link_tap_make(int sock, int tun_fd, const char *name, uint32_t number);
/* To the namespace of this descriptor, where it is down. */
int link_move(int sock, int index, int ns);
/* 0 also where there is none of this name. */
int link_remove(int sock, const char *name);
/* A link's index, or -errno. */
int link_find(int sock, const char *name);
int link_raise(int sock, int index);

/* The n-th address of a pool, in n's family. */
void pool_address(const struct net_range *pool, uint32_t n, uint8_t ret[16]);

/* Of one end: its own address of both pools, and the other end's with its hardware address. The
 * link must be up. peer: the pair's other end is the one that link_pair_make() made there. */
struct link_end {
    int index;
    const struct net_config *config;
    uint32_t own, other; /* numbers in the pools; own 0: the end has no address of its own */
    uint32_t number;     /* as in the pair */
    bool is_peer;
};
int link_end_configure(int sock, const struct link_end *e);
/* All of a pool, or everything, by way of the other end. table 0: the main one. -EEXIST where
 * there is such a route, ours or another's. */
enum link_route { LINK_ROUTE_POOL, LINK_ROUTE_ALL };
int link_end_route(int sock, const struct link_end *e, enum link_route which, uint32_t table);
/* Packets with this mark look into this table, before the main one. */
int link_mark_rule(int sock, uint32_t mark, uint32_t table);
