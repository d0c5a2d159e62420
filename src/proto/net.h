/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden and mas-net say to each other, and how ranges of addresses are written in fixed
 * records wherever they go: in the operator's configuration, in a plan, in a request to mas-net.
 *
 * mas-net has a SOCK_SEQPACKET channel (descriptor 4). The first message is struct net_start with
 * the network namespace of the router as its descriptor; every other one is a struct net_request.
 * Each gets one struct net_answer. There is no text of a caller's in any of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NET_VERSION       1
#define NET_RANGES_MAX    64
#define NET_INSTANCE_SIZE 8 /* hexadecimal digits with NUL */
/* Addresses of a pool before the first sandbox's: the network's, the host's end and the router's.
 */
#define NET_POOL_FIRST  16
#define NET_POOL_HOST   1
#define NET_POOL_ROUTER 2
#define NET_SLOTS_MAX   60000 /* a conntrack zone is a number of 16 bits */

enum net_family { NET_IPV4 = 4, NET_IPV6 = 6 };

/* Destinations: every address of a prefix, at these ports. Without ports (0 to 65535) it is TCP,
 * UDP and echo requests of ICMP, with ports it is TCP and UDP. */
struct net_range {
    uint8_t family; /* enum net_family */
    uint8_t bits;
    uint8_t deny; /* 1: never, whatever the others say */
    uint8_t reserved;
    uint16_t port_first, port_last;
    uint8_t address[16]; /* the first 4 for IPv4; nothing is set after the prefix */
};

/* The operator's part, fixed before the control plane exists. */
struct net_config {
    struct net_range pool4, pool6; /* what sandboxes have their addresses from */
    uint32_t uid;                  /* mas-net's user */
    uint32_t connections;          /* of one sandbox at a time */
    uint32_t connects_per_second;  /* of one sandbox */
    uint32_t mbytes_per_second;    /* of one sandbox, each way; 0: no limit */
    uint32_t n_ceiling, n_open, n_denied;
    uint32_t machines_only; /* the ceiling is that of the machines' file, and of no other kind */
    struct net_range ceiling[NET_RANGES_MAX]; /* what callers may ask for; none: nothing */
    struct net_range open[NET_RANGES_MAX];    /* what is reachable although it is not public */
    struct net_range denied[NET_RANGES_MAX];
};

struct net_start {
    uint32_t version;
    char instance[NET_INSTANCE_SIZE]; /* in names on the host */
    struct net_config config;
};

enum net_op {
    NET_ADD = 1, /* descriptors: the sandbox's network namespace, a route socket made in it */
    NET_REPLACE, /* other ranges for a slot that was added, at once */
    NET_REMOVE,
    NET_ADD_TAP, /* descriptor: /dev/net/tun, opened in the router's namespace. It becomes the link
                    of a sandbox whose own kernel has the other end, and the address there */
    _NET_OP_MAX,
};

struct net_request {
    uint32_t version;
    uint32_t op;
    uint64_t tag;
    uint32_t slot; /* which address of the pools, from 0 */
    uint32_t n_ranges;
    struct net_range ranges[NET_RANGES_MAX];
};

struct net_answer {
    uint64_t tag;  /* 0: to the start */
    int32_t error; /* 0 or an errno */
    char message[180];
};

/* Of the router's end of a sandbox's link, or (is_sandbox) of the other one. Locally administered;
 * the first bytes are the same for all of ours. number: the slot. */
#define NET_HARDWARE_SIZE 6
void net_hardware_address(uint32_t number, bool is_sandbox, uint8_t ret[NET_HARDWARE_SIZE]);

/* Whether a range is well-formed; so that nothing else can be written into a rule. */
bool net_range_is_valid(const struct net_range *r);
/* Whether everything of inner is in outer. */
bool net_range_covers(const struct net_range *outer, const struct net_range *inner);
/* How many slots the smaller pool has; 0: the pools cannot be used. */
uint32_t net_config_slots(const struct net_config *c);
bool net_config_is_valid(const struct net_config *c);
bool net_request_is_valid(const struct net_request *q, const struct net_config *c);
/* 0, or -EPERM with a text in why: a range that the operator does not let callers ask for, or one
 * of a closed part of the address space that the operator has not opened. */
int net_ceiling_check(const struct net_config *c, const struct net_range *ranges, uint32_t n,
                      char *why, unsigned size);
/* "192.0.2.0/24", "[2001:db8::]/32", with the ports where there are some. */
#define NET_RANGE_TEXT_SIZE 72
void net_range_format(const struct net_range *r, char out[NET_RANGE_TEXT_SIZE]);

/* net-text.c: "192.0.2.0/24", "192.0.2.7", "fd00::/8", each with ":port" where IPv6 has brackets
 * around it ("[fd00::/8]:443"), as host rules spell networks. Bits after the prefix are dropped.
 * -EINVAL for any other text. */
int net_range_parse(const char *text, struct net_range *ret);
