/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS server in a thread that answers with recorded bytes, whole, in two pieces, or cut off. Its
 * authority is made anew. One connection is served at a time, many requests on it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/unit/kube-exchange.h"

enum server_way {
    SERVER_WHOLE,
    SERVER_TWO,    /* in two pieces, with a pause between them */
    SERVER_TORN,   /* the first piece, then the connection is torn down */
    SERVER_CLOSED, /* the first piece, then TLS is closed in order */
    SERVER_SILENT, /* the first piece, then nothing until the client leaves */
    SERVER_SELF,   /* serve() decides */
};

struct server {
    char *ca;         /* PEM of its authority */
    char *cert, *key; /* PEM of a client certificate of that authority */
    int port;
    /* What the next requests get; written between requests only. */
    const struct exchange *answer;
    size_t cut;
    enum server_way way;
    /* SERVER_SELF: bytes to answer a request's head with; allocated. NULL: close. */
    char *(*serve)(void *data, const char *head, size_t *ret_len);
    void *data;
    bool want_client_cert;
    /* What was asked */
    atomic_int n_connections, n_requests;
    char last_head[16384];
    int listen_fd;
    void *ctx, *other_ca;
    pthread_t thread;
    atomic_bool stop;
};

void server_start(struct server *s);
void server_stop(struct server *s);
/* PEM of an authority that has nothing to do with it; the caller frees it. */
char *server_other_ca(void);
