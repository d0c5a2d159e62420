/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of streams, for stream.c (events, connections, readers that come back) and exchange.c (the
 * answer to a POST until and after it becomes a stream). */
#pragma once

#include "mcp/stream.h"

enum stream_state { STREAM_WAITING, STREAM_OPEN, STREAM_DONE };

struct event {
    struct list node;
    uint64_t seq;
    bool sent;
    size_t len;
    char text[];
};

struct stream {
    struct outlet outlet;
    struct list node;            /* session->streams */
    struct mcp_session *session; /* NULL once the session has ended */
    struct mcp *mcp;
    enum stream_state state;
    uint64_t number, next_seq;
    struct http_request *http; /* who reads it, or NULL */
    bool blocked;              /* the connection's queue is full */
    bool dispatching;          /* more answers may come from inside: not yet the time to decide */
    struct list events;
    size_t unsent;

    /* of a POST */
    size_t expected; /* answers to come */
    bool batch;
    struct strbuf collected; /* answers while WAITING */
    size_t n_collected;
    struct list waiting; /* mcp->waiting */
    int64_t turn_ms;

    int64_t written_ms, done_ms;
};

/* stream.c */
struct stream *stream_new(struct mcp_session *s, uint64_t number, const struct outlet_ops *ops);
/* The connection holds a reference. */
void stream_attach(struct stream *st, struct http_request *http);
struct http_request *stream_detach(struct stream *st);
void stream_end_connection(struct stream *st);
void stream_begin_events(struct stream *st);
/* An event of no data that gives the reader an id to come back with. */
void stream_prime(struct stream *st);
/* Whether so many bytes may be kept, after letting go of what may be. */
bool stream_has_room(struct stream *st, size_t len);
void stream_push(struct stream *st, const char *data, size_t len);
void stream_pump(struct stream *st);
/* Out of its session; calls may still hold it. */
void stream_forget(struct stream *st);
void stream_free(struct outlet *o);

/* exchange.c */
extern const struct outlet_ops exchange_ops;
