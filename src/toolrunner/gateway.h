/* SPDX-License-Identifier: Apache-2.0 */
/* Connections from the inside: the runner listens on a unix socket, or for the proxy on a port of
 * the sandbox's loopback. A proxy's connection is passed out as it is: the control plane hands the
 * socket to the gateway and the runner closes its own copy. Where the two do not share a kernel,
 * and for the unix socket, each connection becomes a stream that the control plane hands to the
 * gateway. Neither outlives a connection of the control plane. CLOSE ends a stream in both
 * directions, so a program that only ends its own side of a proxy's connection gets some seconds
 * for the rest of the answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/epoll-loop.h"
#include "base/list.h"

struct runner;
struct msg_open_result;
struct msg_data;
struct msg_data_ack;
struct msg_close;

#define GATEWAY_TUNNELS_MAX 32 /* more wait in the socket's backlog; the proxy refuses them */
#define GATEWAY_CHUNK       32768
#define GATEWAY_RETRY_MS    100
#define GATEWAY_LINGER_MS   10000
#define GATEWAY_DRAIN_MS    2000
#define GATEWAY_RESET_MS    5000 /* for a client to get what came before its reset, */
#define GATEWAY_LOOK_MS     20   /* and how often it is looked whether it has */

#define OWN_PROXY_FIRST 20000 /* ports of own proxies: each is given out once */

struct gateway {
    struct runner *runner;
    struct epoll_watch listener; /* fd -1: no gateway in this sandbox */
    struct epoll_timer retry;    /* out of descriptors: listen again later */
    struct list tunnels;
    size_t n_tunnels;
    struct list own; /* the listeners of single execs */
    uint32_t next_own_port;
    uint16_t port; /* of the listener; 0 if there is none */
    uint32_t next_stream;
    bool proxy; /* the listener is a port */
    bool stays; /* sockets cannot be passed over this connection */
};

/* With path NULL and port 0 there is no gateway. Returns 0 or -errno. */
int gateway_init(struct gateway *g, struct runner *r, const char *path, uint16_t port);
void gateway_on_connect(struct gateway *g);
void gateway_on_disconnect(struct gateway *g);
/* Moves bytes into the connection's buffer; true when more waits for room. */
bool gateway_pump(struct gateway *g);

/* A listener of its own for the exec of that stream: what comes through it is reported as that
 * exec's. A port is given out once in a sandbox's life, because processes that an ended exec has
 * left behind may still connect to theirs. 0 or -errno. */
int gateway_open_own(struct gateway *g, uint32_t exec, uint16_t *ret_port);
void gateway_close_own(struct gateway *g, uint32_t exec); /* or nothing, where it has none */
/* Is it a port of one of these listeners? */
bool gateway_has_port(const struct gateway *g, uint16_t port);

/* Frames. A stream that is gone is ignored; -EPROTO when the peer broke the protocol. */
int gateway_on_open_result(struct gateway *g, uint32_t stream, const struct msg_open_result *m);
int gateway_on_data(struct gateway *g, uint32_t stream, const struct msg_data *m);
int gateway_on_data_ack(struct gateway *g, uint32_t stream, const struct msg_data_ack *m);
void gateway_on_close(struct gateway *g, uint32_t stream, const struct msg_close *m);
