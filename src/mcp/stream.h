/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, and the answer to a POST before it is known whether it will be a stream.
 *
 *   WAITING  ── an HTTP request that may still be answered with plain JSON
 *   OPEN     ── a stream: events are kept under ids until a reader had them, and a while longer
 *   DONE     ── the last answer is in; kept for a reader that comes back for it
 *
 * Events have ids "STREAM-NUMBER". A stream may lose its connection at any time and get another by
 * stream_attach(). Stream 0 of a session is the one that a GET opens for what belongs to no call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/internal.h"

struct http_request;

/* The answer to a POST of so many requests; takes http. The session owns it. */
struct stream *stream_new_exchange(struct mcp_session *s, struct http_request *http,
                                   size_t requests, bool batch);
struct outlet *stream_outlet(struct stream *st);
/* Everything has been dispatched: answers from now on are sent as they come. */
void stream_dispatched(struct stream *st);
/* The GET's stream; takes http. One that another connection reads is taken over. */
void stream_open_loose(struct mcp_session *s, struct http_request *http);
/* Whether a stream is kept that had, or begins with, the event of that id. */
bool stream_has_event(struct mcp_session *s, const char *event_id);
/* Goes on after that event, which it has; takes http. */
void stream_resume(struct mcp_session *s, struct http_request *http, const char *event_id);

/* Of a whole session. */
bool streams_attached(const struct mcp_session *s);
void streams_end(struct mcp_session *s);
/* Ends the connection of stream 0, which waits for nothing in particular. */
void streams_drain(struct mcp_session *s);
void streams_tick(struct mcp_session *s, int64_t now_ms);
/* The timer of exchanges that wait. */
void streams_on_turn(void *mcp);
