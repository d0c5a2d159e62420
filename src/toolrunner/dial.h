/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the runner makes itself. Where no process can pass it one, it connects to a
 * socket of the warden's, and a lost connection is made anew until that succeeds. In a pod it
 * connects once to the link, which passes it every other one. */
#pragma once

#include "base/epoll-loop.h"

struct runner;

#define DIAL_RETRY_MS 100

struct dialer {
    struct runner *runner;
    const char *path; /* NULL if the runner does not dial */
    struct epoll_timer retry;
};

/* The first connection: 0 or -errno. Without a path nothing happens. */
int dialer_init(struct dialer *d, struct runner *r, const char *path);
/* The connection ended. */
void dialer_again(struct dialer *d);
/* The channel to the link of a pod (pod/link.h), which may start a moment later than the runner and
 * is waited for. The descriptor, or -errno. */
#define DIAL_CHANNEL_MS 30000
int dial_channel(const char *path);
