/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's port (the MAS API): each connection is either the runner protocol or JSON lines, told
 * apart by its first byte. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/epoll-loop.h"
#include "base/list.h"

struct runner;

#define LISTEN_PORT_DEFAULT 5000
#define LISTEN_WAITING_MAX  16    /* connections that have not said anything yet */
#define LISTEN_WAITING_MS   10000 /* how long they may take */
#define LISTEN_LINES_MAX    32    /* connections served with JSON lines at once */
#define LISTEN_RETRY_MS     100   /* when out of descriptors */

struct listener {
    struct runner *runner;
    struct epoll_watch watch; /* fd -1: not listening */
    struct epoll_timer retry;
    struct list waiting;
    size_t n_waiting;
    int lines_pid[LISTEN_LINES_MAX];
};

/* unix_path NULL: the vsock port, -1 for neither. 0 or -errno. */
int listener_init(struct listener *l, struct runner *r, const char *unix_path, int64_t vsock_port);
/* A connection that came another way; takes fd. */
void listener_take(struct listener *l, int fd);
/* A child ended; true when it was one of ours. */
bool listener_on_exit(struct listener *l, int pid);
