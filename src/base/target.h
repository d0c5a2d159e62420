/* SPDX-License-Identifier: Apache-2.0 */
/* Where a connection goes: one host and one port, parsed strictly. Policies, the gate, the gateway
 * and mas-tool-net all compare hosts in the one form that this makes of them.
 *
 * A host is a DNS name (letters, digits, '-', '_' and dots), a dotted IPv4 address or an IPv6
 * address in brackets. Names are kept in lower case without a trailing dot. Names of other scripts
 * are refused unless they are written as punycode. An IPv6 address that carries a mapped IPv4
 * address is that address. A name whose last label is a number ("2130706433", "0x7f.1", "127.1") is
 * refused, because resolvers read such names as IPv4 addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

#define TARGET_HOST_MAX  253                   /* a DNS name's length */
#define TARGET_TEXT_SIZE (TARGET_HOST_MAX + 3) /* with brackets and NUL */

struct target {
    char host[TARGET_HOST_MAX + 1]; /* as a name, or the canonical text of address */
    bool is_address;
    struct address address;
    uint16_t port; /* 1 to 65535; 0 in a rule: any */
};

/* "host", "1.2.3.4" or "[v6]" into host, is_address and address; port is left alone. -EPERM for a
 * name that resolvers read as a number, -EINVAL for what is no host at all. */
int target_parse_host(const char *text, size_t len, struct target *ret);
/* "1" to "65535", no sign, no leading zero. -EINVAL. */
int target_parse_port(const char *text, size_t len, uint16_t *ret);
/* Cuts ":port" off the end of text, where there is one, into *ret. More than one colon outside of
 * brackets is an IPv6 address. -EINVAL. */
int target_cut_port(char *text, uint16_t *ret);
/* The host as target_parse_host() takes it. */
void target_format_host(const struct target *t, char out[TARGET_TEXT_SIZE]);
