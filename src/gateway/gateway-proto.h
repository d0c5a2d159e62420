/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over the gateway's three kinds of sockets.
 *
 * Control socket (SOCK_SEQPACKET, control plane → gateway): one struct gateway_request per
 * datagram, with one or two descriptors as SCM_RIGHTS: the client's stream, and a report. Nothing
 * comes back on it.
 *
 * Stream: the client writes "CONNECT host port\n" and reads "OK <ip>\n", after which the stream is
 * the connection, or "ERR <code> <message>\n" and end of file. With GATEWAY_PROXY the client is a
 * program in a sandbox that speaks to a proxy instead (proxy-head.h). The stream is then one end of
 * a socket pair of the control plane's, or with GATEWAY_SOCKET the program's connection itself.
 *
 * Report (one end of a socket pair of the control plane's): what the gateway says about the
 * connection, in lines: "CONNECT host port\n" as it has understood the client, "RULE name\n" where
 * one decided, and the OK or ERR line of its decision; another ERR line where a tunnel is cut
 * afterwards, and "END sent received milliseconds reason\n" for one that was connected. It ends
 * with the connection. The connection ends with it, too: the control plane closes its end to revoke
 * a connection, and when it dies none goes on unaccounted for. It writes to it only to say that the
 * client has gone by a reset, which the socket pair of a stream cannot carry
 * (GATEWAY_CLIENT_RESET), and closes the stream after that. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct target;

#define GATEWAY_VERSION    7
#define GATEWAY_LABEL_SIZE 64     /* whose stream it is, for the log and for fair shares */
#define GATEWAY_HOSTS_MAX  2048   /* allowed, denied and intercepted hosts in one request */
#define GATEWAY_HOSTS_SIZE 131072 /* all of their text, a NUL after each */
#define GATEWAY_INLINE_MAX                                                                         \
    8192 /* so much of it is in the request itself: more would fill its socket */
#define GATEWAY_CLIENT_RESET "r"
#define GATEWAY_LINE_MAX     512 /* CONNECT, OK and ERR lines with their newline */
#define GATEWAY_RULE_SIZE                                                                          \
    160 /* what a rule is called in records: its name, or as much of its text */

enum gateway_flags {
    GATEWAY_ANY_HOST = 1, /* every public host; needed where the list is empty, so that a zeroed
                             request allows nothing */
    GATEWAY_PROXY = 2,    /* the client speaks to a proxy; never with GATEWAY_ANY_HOST */
    GATEWAY_SOCKET = 4,   /* the stream came out of a sandbox (client-socket.h) */
    GATEWAY_TEXT_FILE =
        8,               /* hosts is not sent: it is in a sealed memory file, the last descriptor */
    GATEWAY_IMAGES = 16, /* of what fetches images, which may go to closed addresses of the hosts
                            that the operator named for it */
    _GATEWAY_FLAGS_ALL = 31,
};

struct gateway_request {
    uint32_t version;
    uint32_t flags;
    uint64_t tag;   /* chosen by the sender, repeated in the log */
    uint64_t owner; /* a number for the key whose sandbox it is, for fair shares */
    char label[GATEWAY_LABEL_SIZE];
    uint32_t n_hosts;
    uint32_t n_denied; /* in hosts behind those: what it may not reach all the same */
    uint32_t hosts_len;
    uint32_t n_intercepted; /* behind those: tunnels there go through the interceptor, whose socket
                               comes with the request, or are refused where none does */
    char hosts[GATEWAY_HOSTS_SIZE]; /* only the first hosts_len are sent */
};

enum gateway_code {
    GATEWAY_OK,
    GATEWAY_HOST_NOT_ALLOWED,
    GATEWAY_ADDRESS_NOT_ALLOWED,
    GATEWAY_RESOLVE_FAILED,
    GATEWAY_CONNECT_FAILED,
    GATEWAY_TIMEOUT,
    GATEWAY_BAD_REQUEST,
    GATEWAY_NAME_MISMATCH, /* TLS in a tunnel asks for another name than the tunnel */
    GATEWAY_ASK,           /* all that allows it are rules by which a person is asked first */
    _GATEWAY_CODE_MAX,
};

/* "host_not_allowed", ... as ERR lines spell them. */
const char *gateway_code_name(enum gateway_code code);
/* _GATEWAY_CODE_MAX for an unknown name. */
enum gateway_code gateway_code_find(const char *name);

/* A whole "CONNECT host port" line without its newline. -EINVAL. */
int gateway_parse_connect(const char *line, size_t len, struct target *ret);
