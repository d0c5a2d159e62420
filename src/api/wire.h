/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that goes on for as long as there is something to say: NDJSON or SSE over HTTP, or a
 * WebSocket. What there is to say, and where it goes on, is its owner's; a reader that does not
 * read costs what is queued on its connection.
 *
 * A struct wire is the first member of its owner, which malloc() gave: it frees it after on_gone.
 */
#pragma once

#include <uv.h>

#include "api/stream.h"
#include "loop/loop.h"

struct strbuf;
struct wire;
struct ws;

struct wire_ops {
    /* There is room: sends until wire_is_full(), or there is nothing more to send. */
    void (*pump)(struct wire *w);
    /* Once: after wire_end(), or when the client left. The owner gives up all but its memory. */
    void (*on_gone)(struct wire *w, bool client_left);
};

struct wire {
    enum stream_kind kind;
    uv_loop_t *loop;
    const struct wire_ops *ops;
    struct http_request *http;
    struct ws *ws;
    bool full;     /* waits until the queue of its connection has emptied */
    bool deferred; /* its next turn is on the way */
    bool ending;   /* the owner has said all */
    struct weak *weak;
    struct loop_timer keepalive;
};

/* kind, loop and ops are set. Answers http, then pumps; on_gone may come from inside. protocol is
 * the WebSocket's, or NULL. */
void wire_open(struct wire *w, struct http_request *http, const char *protocol);
/* Nothing may be sent just now; pump comes when it may. */
bool wire_is_full(const struct wire *w);
/* Empties line and begins an event in it; the caller adds JSON and sends it. */
void wire_begin_line(const struct wire *w, struct strbuf *line, uint64_t seq, const char *type);
void wire_send_line(struct wire *w, struct strbuf *line);
/* Others get a turn before the next pump. */
void wire_defer(struct wire *w);
/* A source calls this when it has more to send. */
void wire_wake(struct wire *w);
/* All was said. on_gone comes now, or when the WebSocket has closed. */
void wire_end(struct wire *w);
