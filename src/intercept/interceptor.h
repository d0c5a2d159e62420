/* SPDX-License-Identifier: Apache-2.0 */
/* The interceptor of one sandbox: mas-intercept.
 *
 * Where a secret must go into a request that is inside TLS, TLS has to end before the server. It
 * ends in this process, for one sandbox alone, with that sandbox's secrets and no others. The
 * warden starts it with sealed pairs and the keys of just these seals; the gateway, which has
 * resolved, decided and dialled as always, hands it each connection as two sockets. It opens
 * none itself: it has a network namespace without a network, no files, its own user and a list
 * of system calls. To the client it is the host, with a certificate of the sandbox's own
 * authority (ca.h), which only that sandbox trusts. The real server is verified against the
 * host's authorities, always. */
#pragma once

#include <openssl/types.h>

#include "base/epoll-loop.h"
#include "base/list.h"
#include "proto/intercept.h"
#include "secret/pair.h"

struct ca;
struct error;

#define INTERCEPT_CONNECTIONS_MAX 64

struct interceptor {
    struct epoll_loop loop;
    struct epoll_watch gateway; /* connections come from there */
    struct pair pairs[INTERCEPT_PAIRS_MAX];
    size_t n_pairs;
    struct ca *ca;
    SSL_CTX *servers; /* of connections to servers */
    struct list connections;
    size_t n_connections;
    char label[72];
    bool ended;
};

/* While files can be read: the authorities that servers are verified against. */
int interceptor_load_authorities(struct interceptor *i, struct error *err);
/* Opens the seals and makes the authority. sealed: the file of struct intercept_pairs. */
int interceptor_open(struct interceptor *i, const struct intercept_start *start, const char *sealed,
                     size_t len, struct error *err);
/* Serves connections that come over sock until its other ends are closed. */
int interceptor_serve(struct interceptor *i, int sock);
void interceptor_done(struct interceptor *i);
