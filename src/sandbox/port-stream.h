/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connection to a port on a sandbox's loopback, made by its runner and carried by a stream of
 * the runner protocol.
 *
 * What is written waits here only while the runner's window is full, and what comes is held
 * back by the reader: bytes that were not reported to port_stream_consumed() count against the
 * window of the server inside. Neither the runner nor the server is trusted: a runner that
 * breaks the protocol is a dead sandbox, and a server can only send bytes.
 *
 * Events come from the loop, never from inside a function of this header. on_closed comes once
 * and last, unless port_stream_close() was called before; the stream is gone with either. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct port_stream;
struct sandbox;

#define PORT_STREAMS_MAX        64                /* at once, to one sandbox */
#define PORT_WRITE_MAX          (4 * 1024 * 1024) /* that may wait for the window */
#define PORT_CONNECT_TIMEOUT_MS 10000

struct port_stream_events {
    void (*on_connected)(void *data);
    /* bytes are valid during the call. */
    void (*on_data)(void *data, const char *bytes, size_t len);
    void (*on_end)(void *data);   /* the server sends no more */
    void (*on_drain)(void *data); /* nothing waits any more, after port_stream_write() said so */
    /* ERROR_BAD_GATEWAY: no server, or it broke the connection; ERROR_TIMEOUT; ERROR_CONFLICT: the
     * sandbox has ended. NULL: both sides had ended theirs. */
    void (*on_closed)(void *data, const struct error *err);
};

/* Holds the sandbox as busy until it is closed. NULL with err set: it is not ready or is paused,
 * its runtime shares the host's loopback, the port is one of our own listeners inside, or there are
 * too many streams. */
struct port_stream *port_stream_open(struct sandbox *sb, uint16_t port,
                                     const struct port_stream_events *events, void *data,
                                     struct error *err);
/* Takes len bytes; false when some wait: the caller should stop until on_drain. More than
 * PORT_WRITE_MAX at once closes the stream. */
bool port_stream_write(struct port_stream *s, const char *bytes, size_t len);
/* Nothing more is written, and what is all the same is dropped; the server may still send. */
void port_stream_end(struct port_stream *s);
/* So many bytes of on_data are done with. */
void port_stream_consumed(struct port_stream *s, size_t len);
/* Ends it in both directions. NULL is fine. */
void port_stream_close(struct port_stream *s);
