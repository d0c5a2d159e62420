/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets: opened before anything else, held by the warden, inherited by each control
 * plane, so that a restart of it refuses no connection. */
#pragma once

#include <stddef.h>

struct config;
struct error;
struct startup;

struct listeners {
    struct listener *all;
    int *fds; /* of all, in order */
    size_t n;
};

/* Opens every address of the config, and takes the sockets that systemd passed (LISTEN_FDS). Beyond
 * loopback without a token is refused unless the config says insecure. */
int listeners_open(struct listeners *l, const struct config *c, struct error *err);
/* Writes them into the warden's record, which borrows their descriptors. */
void listeners_hand_over(const struct listeners *l, struct startup *s);
/* Logs where a socket listens, with the port the kernel chose for port 0. */
void listeners_log(int fd);
/* Closes them and removes the files of Unix sockets that we made and still are ours. */
void listeners_close(struct listeners *l);
