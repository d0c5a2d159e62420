/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS 5 (RFC 1928) as a proxy's client may speak it: no authentication, CONNECT to a name or an
 * address. The bytes come from a sandbox; a name goes through the same reader as everywhere else
 * (base/target.h), so that there is one spelling of one host.
 *
 * The proxy has one port for HTTP and SOCKS: no HTTP method begins with the byte 5, and one port is
 * all that has to be kept free inside, and all that a Landlock rule has to open. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct target;

#define SOCKS_VERSION    5
#define SOCKS_NO_METHOD  0xff /* to a greeting that offers none that is spoken here */
#define SOCKS_REPLY_SIZE 10

enum socks_reply {
    SOCKS_OK,
    SOCKS_FAILED,
    SOCKS_NOT_ALLOWED,
    SOCKS_NETWORK_UNREACHABLE,
    SOCKS_HOST_UNREACHABLE,
    SOCKS_REFUSED,
    SOCKS_TIMED_OUT,
    SOCKS_BAD_COMMAND,
    SOCKS_BAD_ADDRESS,
};

/* The greeting at the start of data: its length, 0 while it is not whole, -EPROTONOSUPPORT where it
 * does not offer to do without authentication, -EPROTO where it is none. */
ssize_t socks_parse_greeting(const uint8_t *data, size_t len);
/* The request at the start of data: its length, 0 while it is not whole, or -errno with the reply
 * that it gets and the reason in words. */
ssize_t socks_parse_request(const uint8_t *data, size_t len, struct target *ret,
                            enum socks_reply *ret_reply, const char **ret_why);
/* A reply. The address that was bound is the gateway's business, and zero. */
void socks_format_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_SIZE]);
