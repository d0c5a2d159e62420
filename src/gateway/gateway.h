/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway: the one process that dials out for sandboxes.
 *
 * It has a uid of its own, no state, no privileges and no way to start programs. The control plane
 * hands it a stream and the hosts that stream may ask for (gateway-proto.h); the gateway reads
 * where the client wants to go, decides, resolves the name once, connects to an address it has
 * checked and relays bytes. It never looks at them. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GATEWAY_REQUEST_TIMEOUT_MS  10000 /* for the CONNECT line to arrive */
#define GATEWAY_RESOLVE_TIMEOUT_MS  10000
#define GATEWAY_CONNECT_TIMEOUT_MS  10000  /* for all addresses of a name together */
#define GATEWAY_IDLE_TIMEOUT_MS     150000 /* no byte either way; longer than any tool may take */
#define GATEWAY_CONNECTIONS_MAX     512
#define GATEWAY_CONNECTIONS_PER_MAX 32 /* of one label */

/* What an operator may set (configuration keys in config/table.c). */
struct gateway_config {
    char **allow_private;        /* rules (rule.h) for what is not public; may be NULL */
    char **allow_hosts;          /* what any sandbox may ask for; NULL or empty: every host */
    char **deny_hosts;           /* what none may reach, by name or by address; may be NULL */
    uint32_t request_timeout_ms; /* 0 in any of these: the default above */
    uint32_t resolve_timeout_ms;
    uint32_t connect_timeout_ms;
    uint32_t idle_timeout_ms;
    uint32_t max_connections;
    uint32_t max_connections_per_label;
};

struct gateway_options {
    struct gateway_config config;
    char **image_registries, **image_hosts; /* rules for what fetches images; may be NULL */
    uid_t uid;                              /* to become; ignored unless the caller is root */
    gid_t gid;
};

/* Runs the gateway in a freshly forked child until the other end of sock (SOCK_SEQPACKET) is
 * closed. Closes every other descriptor except stderr, gives up all privileges, and dies with its
 * parent. Returns the exit status of the process: 0, or 1 with the reason logged. */
int gateway_main(int sock, const struct gateway_options *options);
