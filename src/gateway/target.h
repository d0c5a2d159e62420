/* Where a client wants to go: one host and one port, parsed strictly.
 *
 * A host is a DNS name (letters, digits, '-', '_' and dots; IDN as punycode, as is), a dotted IPv4
 * address or an IPv6 address in brackets. Names are kept in lower case without a trailing dot. A
 * name whose last label is a number ("2130706433", "0x7f.1", "127.1") is refused, because resolvers
 * read such names as IPv4 addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/address.h"
#include "gateway/gateway-proto.h"

struct target {
    char host[GATEWAY_HOST_MAX + 1]; /* as a name, or the canonical text of address */
    bool is_address;
    struct address address;
    uint16_t port; /* 1 to 65535; 0 in a rule: any */
};

/* "host", "1.2.3.4" or "[v6]" into host, is_address and address; port is left alone. -EINVAL. */
int target_parse_host(const char *text, size_t len, struct target *ret);
/* "1" to "65535", no sign, no leading zero. -EINVAL. */
int target_parse_port(const char *text, size_t len, uint16_t *ret);
/* A whole "CONNECT host port" line without its newline. -EINVAL. */
int target_parse_line(const char *line, size_t len, struct target *ret);
