/* SPDX-License-Identifier: Apache-2.0 */
/* mas-link-tls: connections to a pod's link over the network, for the direct carrier.
 *
 * Theory of operation. mas-link starts this program in its own container, beside itself: the
 * process that holds the runner's channel has no TLS in it. A key is made here, never leaves this
 * memory and ends with it. Its fingerprint is the first line of the container's log, which the
 * broker reads through the API server, so that the broker knows which link it reaches; the
 * fingerprint of the broker's key is an argument, and public. Neither side needs a secret to be
 * brought to it.
 *
 * Commands of the sandbox are in the same network namespace and can reach the port. Such a
 * connection comes from an address of the pod's own, as no connection of the broker does, and is
 * closed before a byte of it is read. Every other one has a process of its own, of which there are
 * few; the next connection waits in the kernel's queue. A handshake that is not done in time ends
 * its process. So garbage, a crash and a slow peer cost one place for some seconds, and nothing
 * else. What the handshake let through is connected to the link's door, as mas-link --attach does,
 * and copied; each way has one buffer. */
#pragma once

#include <stdint.h>

#define TLS_CONNECTIONS_MAX 16
#define TLS_HANDSHAKE_S     5

struct tls_options {
    const char *door_path;
    uint16_t port;
    const uint8_t *peer; /* PIN_SIZE bytes: the fingerprint of the broker's key */
    int lifeline;        /* closed when the link has ended; -1: none */
};

/* Makes the key, listens, prints the fingerprint, and serves until the lifeline ends: 0; or -errno
 * with *ret_what naming the step that failed. */
int tls_serve(const struct tls_options *o, const char **ret_what);
/* Of one accepted connection: shakes hands within TLS_HANDSHAKE_S, or the process ends; then copies
 * until either side ends. */
struct ssl_ctx_st;
int tls_carry(struct ssl_ctx_st *ctx, int fd, const struct tls_options *o);
