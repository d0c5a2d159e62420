/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the control plane: bytes in, bytes out, framing. There is at most one; a newer
 * one replaces it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/epoll-loop.h"
#include "base/strbuf.h"
#include "proto/message.h"

struct runner;
struct frame;
struct ring;

#define CONN_READ_SIZE 65536
#define CONN_IN_MAX    (CONN_READ_SIZE + FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX)
#define CONN_OUT_LOW   (256 * 1024)      /* output of commands is added up to here */
#define CONN_OUT_HIGH  (1024 * 1024)     /* above it nothing more is read */
#define CONN_OUT_MAX   (4 * 1024 * 1024) /* above it the peer is given up */

struct conn {
    struct epoll_watch watch; /* fd -1 if there is none */
    struct strbuf in, out;
    size_t out_sent;
    bool preface_seen, hello_seen;
    bool urgent;   /* out holds more than news that can wait for company */
    bool greeting; /* it is urgent only for HELLO_OK, and the peer has asked for nothing yet */
    bool clogged;  /* the peer took less than all at the last try */
    bool widened;  /* its socket holds a window's worth */
    bool broken;   /* to be dropped at the end of this round */
    struct strbuf spawn; /* a SPAWN that comes in several frames */
    uint32_t spawn_stream;
};

void conn_init(struct conn *c);
/* Takes fd, in place of the connection before. data are bytes that were read from it already, after
 * our preface was sent; none: neither was. */
void conn_adopt(struct runner *r, int fd, const void *data, size_t len);
void conn_drop(struct runner *r);
/* A whole frame with a descriptor, past what is queued: that has to be sent first, because a
 * descriptor belongs to the bytes that it is sent with. 0, or -errno and nothing was sent. */
int conn_send_socket(struct conn *c, const void *frame, size_t len, int fd);
/* Moves what commands and tunnels have to say into out, and out to the peer. */
void conn_pump(struct runner *r);

static inline bool conn_ready(const struct conn *c)
{
    return c->hello_seen;
}
static inline bool conn_has_room(const struct conn *c)
{
    size_t waiting = c->out.len - c->out_sent;
    return waiting < CONN_OUT_LOW && !(c->clogged && waiting);
}

/* Formats a message if there is a connection to send it on. Without a connection nothing is kept:
 * the next connection begins with the whole state. */
#define conn_send(c, name, stream, ...)                                                            \
    do {                                                                                           \
        if (conn_ready(c))                                                                         \
            conn_queued(                                                                           \
                (c), msg_##name##_format(&(c)->out, (stream), &(struct msg_##name){__VA_ARGS__})); \
    } while (0)
void conn_queued(struct conn *c, int result);

/* OUTPUT frames straight from a ring, without a copy of its bytes; returns how many of them are
 * under way. 0 while the peer takes nothing: then they are to be queued like everything else. */
size_t conn_send_output(struct conn *c, uint32_t stream, uint8_t which, const struct ring *ring,
                        uint64_t from);

/* dispatch.c: one whole frame. 0, or -EPROTO with *ret_why. */
int dispatch_frame(struct runner *r, const struct frame *f, const char **ret_why);
