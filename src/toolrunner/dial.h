/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the runner makes itself, where no process can pass it one: to a socket of the
 * warden's. A lost one is made anew until it succeeds. */
#pragma once

#include "base/epoll-loop.h"

struct runner;

#define DIAL_RETRY_MS 100

struct dialer {
    struct runner *runner;
    const char *path; /* NULL: the runner does not dial */
    struct epoll_timer retry;
};

/* The first connection: 0 or -errno. Without a path nothing happens. */
int dialer_init(struct dialer *d, struct runner *r, const char *path);
/* The connection ended. */
void dialer_again(struct dialer *d);
