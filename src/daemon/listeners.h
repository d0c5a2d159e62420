/* The listening sockets: opened before anything else, held by the warden, inherited by each control
 * plane, so that a restart of it refuses nobody. */
#pragma once

#include <stddef.h>

struct config;
struct error;

struct listeners {
    struct listener *all;
    int *fds; /* of all, in order */
    size_t n;
};

/* Opens every address of the config, and takes the sockets that systemd passed (LISTEN_FDS). Beyond
 * loopback without a token is refused unless the config says insecure. */
int listeners_open(struct listeners *l, const struct config *c, struct error *err);
/* Logs where they listen, with the port the kernel chose for port 0. */
void listeners_log(const struct listeners *l);
/* Closes them and removes the files of Unix sockets that we made and still are ours. */
void listeners_close(struct listeners *l);
