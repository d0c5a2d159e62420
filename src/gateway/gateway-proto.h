/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over the gateway's two kinds of sockets.
 *
 * Control socket (SOCK_SEQPACKET, control plane → gateway): one struct gateway_request a datagram,
 * with one SOCK_STREAM descriptor as SCM_RIGHTS. Nothing comes back on it: the answer goes to the
 * stream, where the one who waits for it is.
 *
 * Stream: the client writes "CONNECT host port\n" and reads "OK <ip>\n", after which the stream is
 * the connection, or "ERR <code> <message>\n" and end of file.
 *
 * With GATEWAY_HTTP the client speaks to an HTTP proxy instead (proxy-head.h), and it is a program
 * in a sandbox. Its answer then follows two lines of the gateway's own, for the control plane,
 * which keeps them: "CONNECT host port\n" as the gateway has understood it, and the OK or ERR line
 * of its decision. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct target;

#define GATEWAY_VERSION    2
#define GATEWAY_LABEL_SIZE 64   /* whose stream it is, for the log and for fair shares */
#define GATEWAY_HOSTS_MAX  128  /* allowed and denied hosts in one request */
#define GATEWAY_HOSTS_SIZE 8192 /* all of their text, a NUL after each */
#define GATEWAY_LINE_MAX   512  /* CONNECT, OK and ERR lines with their newline */

enum gateway_flags {
    GATEWAY_ANY_HOST = 1, /* every public host; needed where the list is empty, so that a zeroed
                             request allows nothing */
    GATEWAY_HTTP = 2,     /* the client speaks HTTP; never with GATEWAY_ANY_HOST */
};

struct gateway_request {
    uint32_t version;
    uint32_t flags;
    uint64_t tag; /* chosen by the sender, repeated in the log */
    char label[GATEWAY_LABEL_SIZE];
    uint32_t n_hosts;
    uint32_t n_denied; /* in hosts behind those: what it may not reach all the same */
    uint32_t hosts_len;
    uint32_t reserved;
    char hosts[GATEWAY_HOSTS_SIZE];
};

enum gateway_code {
    GATEWAY_OK,
    GATEWAY_HOST_NOT_ALLOWED,
    GATEWAY_ADDRESS_NOT_ALLOWED,
    GATEWAY_RESOLVE_FAILED,
    GATEWAY_CONNECT_FAILED,
    GATEWAY_TIMEOUT,
    GATEWAY_BAD_REQUEST,
    _GATEWAY_CODE_MAX,
};

/* "host_not_allowed", ... as ERR lines spell them. */
const char *gateway_code_name(enum gateway_code code);
/* _GATEWAY_CODE_MAX for a name that is none. */
enum gateway_code gateway_code_find(const char *name);

/* A whole "CONNECT host port" line without its newline. -EINVAL. */
int gateway_parse_connect(const char *line, size_t len, struct target *ret);
