/* SPDX-License-Identifier: Apache-2.0 */
#include "api/wire.h"

#include <stdlib.h>

#include "base/strbuf.h"
#include "base/weak.h"
#include "net/http.h"

#define SSE_KEEPALIVE_MS 15000 /* between two comments that keep it open */

static void wire_gone(struct wire *w, bool client_left)
{
    w->ops->on_gone(w, client_left);
    weak_clear(&w->weak);
    if (w->kind == STREAM_SSE)
        loop_timer_close(&w->keepalive, free, w);
    else
        free(w);
}

/* Also while a turn is deferred or the answer is ending: the owner must not send then, and these
 * three reasons look the same to it. */
bool wire_is_full(const struct wire *w)
{
    return w->full || w->deferred || w->ending;
}

void wire_wake(struct wire *w)
{
    if (!wire_is_full(w))
        w->ops->pump(w);
}

/* The reference is weak, because the client may leave, and the wire be freed, before the loop
 * comes round. */
static void on_turn(void *data)
{
    struct wire *w = weak_unref(data);
    if (!w)
        return;
    w->deferred = false;
    wire_wake(w);
}

void wire_defer(struct wire *w)
{
    w->deferred = true;
    loop_defer(w->loop, on_turn, weak_ref(&w->weak, w));
}

static void on_room(struct wire *w)
{
    w->full = false;
    wire_wake(w);
}

/* --- one event */

void wire_begin_line(const struct wire *w, struct strbuf *line, uint64_t seq, const char *type)
{
    strbuf_reset(line);
    if (w->kind == STREAM_SSE)
        strbuf_printf(line, "id: %llu\nevent: %s\ndata: ", (unsigned long long)seq, type);
}

void wire_send_line(struct wire *w, struct strbuf *line)
{
    if (w->ws) {
        w->full = !ws_send(w->ws, false, line->data, line->len);
        return;
    }
    strbuf_puts(line, w->kind == STREAM_SSE ? "\n\n" : "\n");
    w->full = !http_write(w->http, line->data, line->len);
}

/* --- over HTTP */

static void on_http_drain(struct http_request *http, void *data)
{
    (void)http;
    on_room(data);
}

static void on_http_abort(struct http_request *http, void *data)
{
    (void)http;
    wire_gone(data, true);
}

/* Proxies close connections that are silent. */
static void on_keepalive(void *data)
{
    struct wire *w = data;
    if (!w->full)
        w->full = !http_write(w->http, ":\n\n", 3);
}

static void open_http(struct wire *w, struct http_request *http)
{
    w->http = http;
    http_request_on_abort(http, on_http_abort, w);
    http_request_on_drain(http, on_http_drain, w);
    if (w->kind == STREAM_SSE) {
        loop_timer_init(&w->keepalive, w->loop, on_keepalive, w);
        loop_timer_start_every(&w->keepalive, SSE_KEEPALIVE_MS);
        http_response_header(http, "Cache-Control", "no-cache");
        http_respond_begin(http, 200, "text/event-stream");
    } else {
        http_respond_begin(http, 200, "application/x-ndjson");
    }
    wire_wake(w);
}

/* --- over a WebSocket */

/* The stream goes one way. What a client sends is read, so that pings and the close are seen,
 * and dropped. */
static void on_ws_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    (void)ws;
    (void)binary;
    (void)data;
    (void)len;
}

static void on_ws_drain(struct ws *ws)
{
    on_room(ws_data(ws));
}

static void on_ws_close(struct ws *ws)
{
    struct wire *w = ws_data(ws);
    wire_gone(w, !w->ending);
}

static void open_ws(struct wire *w, struct http_request *http, const char *protocol)
{
    static const struct ws_handlers handlers = {on_ws_message, on_ws_drain, on_ws_close};
    w->ws = http_upgrade_ws(http, protocol, &handlers, w);
    if (w->ws)
        wire_wake(w);
    else
        wire_gone(w, true);
}

void wire_open(struct wire *w, struct http_request *http, const char *protocol)
{
    if (w->kind == STREAM_WS_TEXT || w->kind == STREAM_WS_BINARY)
        open_ws(w, http, protocol);
    else
        open_http(w, http);
}

void wire_end(struct wire *w)
{
    w->ending = true;
    if (w->ws) {
        ws_close(w->ws, 1000, "");
        return; /* on_ws_close() comes */
    }
    /* The connection outlives this answer and may carry the next request: neither callback may
     * find the wire that is freed below. */
    http_request_on_abort(w->http, NULL, NULL);
    http_request_on_drain(w->http, NULL, NULL);
    http_respond_end(w->http);
    wire_gone(w, false);
}
