/* SPDX-License-Identifier: Apache-2.0 */
/* Several connections over one stream of bytes between two processes that both live as long as it
 * does. mas-vmm and the first process of its guest carry what the host's clients of the vsock
 * socket say that way, where the machine has no vsock.
 *
 * One side opens, the other accepts. Each direction of a connection ends by itself. There is one
 * buffer for all: a connection whose reader does not read holds the others up until it is dropped,
 * MUX_STUCK_MS later. The other side may be hostile: whatever it says, nothing but its own
 * connections suffers. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/pump.h"

#define MUX_STREAMS  16
#define MUX_FDS      (1 + MUX_STREAMS) /* of mux_prepare() */
#define MUX_STUCK_MS 10000
#define MUX_LOOK_MS  1000 /* how often a caller of mux_turn() calls it at least */

struct mux_stream {
    int fd;         /* or -1: what comes for it is dropped */
    bool used;      /* until both directions have ended */
    bool opened;    /* the other side has taken it */
    bool ended_in;  /* what fd says, which we have told */
    bool ended_out; /* what the other side says */
};

struct mux {
    int port_fd; /* does not block */
    /* On the side that accepts: a descriptor for a new connection, or -1. NULL: none is. */
    int (*accept)(void *data);
    /* On the side that opens: the other side has taken the connection. May be NULL. */
    void (*on_opened)(void *data, int fd);
    void *data;
    struct mux_stream streams[MUX_STREAMS];
    struct pump in, out;
    uint8_t current;        /* the connection that the frame at the front is of: */
    uint16_t left;          /* bytes of it that are still to be delivered */
    int64_t stuck_since_ms; /* that one takes no more; 0: it does */
};

void mux_init(struct mux *m, int port_fd);
bool mux_has_room(const struct mux *m); /* for one connection more */
/* Takes fd. To be called only where there is room. */
void mux_open(struct mux *m, int fd);
/* Fills MUX_FDS entries for poll(). */
void mux_prepare(struct mux *m, struct pollfd *fds);
/* Does what can be done after poll(). False: the port has ended, or the other side makes no sense.
 */
bool mux_turn(struct mux *m, const struct pollfd *fds);
