/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of place an IP address is: pure functions, no name lookup, no sockets.
 *
 * Forms of IPv6 that carry an IPv4 address (mapped, NAT64, 6to4, ISATAP) are judged by the address
 * they carry, so that no spelling of 127.0.0.1 is a public address. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_LOOPBACK,
    ADDRESS_PRIVATE, /* RFC 1918, unique local, carrier-grade NAT */
    ADDRESS_LINK_LOCAL,
    ADDRESS_METADATA,  /* a cloud's instance data: reachable only when listed by address */
    ADDRESS_RESERVED,  /* documentation, benchmarking, transition, not yet assigned */
    ADDRESS_FORBIDDEN, /* unspecified, multicast, broadcast: never a place to connect to */
    _ADDRESS_CLASS_MAX,
};

/* An IPv4 or IPv6 address. IPv4-mapped IPv6 is always stored as the IPv4 address it is. */
struct address {
    sa_family_t family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];  /* the first 4 for AF_INET */
};

#define ADDRESS_TEXT_SIZE 46

enum address_class address_classify(const struct address *a);
/* Of a whole network: what all of it is, or public where that differs from address to address. */
enum address_class address_class_of_prefix(const struct address *net, size_t bits);
/* The networks that are not public, one by one, with those that carry others of IPv6; false after
 * the last. What is beside 2000::/3 is not in the list, and not public either. */
bool address_closed_network(size_t i, struct address *ret, size_t *ret_bits,
                            enum address_class *ret_class);
const char *address_class_name(enum address_class c);
/* The IPv4 address that an IPv6 address carries, where it does. */
bool address_carried(const struct address *a, struct address *ret);

/* Strict: four decimal numbers without leading zeros, or an IPv6 address without brackets or zone.
 * -EINVAL for anything else. */
int address_parse(const char *text, struct address *ret);
/* -EAFNOSUPPORT for other families. */
int address_from_sockaddr(const struct sockaddr *sa, struct address *ret);
socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret);
void address_format(const struct address *a, char out[ADDRESS_TEXT_SIZE]);
size_t address_bits(const struct address *a); /* 32 or 128 */
bool address_in_prefix(const struct address *a, const struct address *net, size_t bits);
