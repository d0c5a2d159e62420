/* SPDX-License-Identifier: Apache-2.0 */
#include "port/forward.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/http.h"
#include "port/proxy.h"
#include "sandbox/port-stream.h"

#define WS_NORMAL      1000
#define WS_UNSUPPORTED 1003
#define WS_FAILED      1011

static const char end_text[] = "{\"type\":\"end\"}";

struct forward {
    struct http_request *http;  /* until the handshake is answered */
    struct ws *ws;              /* from then on */
    struct port_stream *stream; /* NULL: closed */
    size_t held;                /* bytes for the client that its connection has not taken */
    bool ended;                 /* the client has said that it sends no more */
};

static void forward_free(struct forward *f)
{
    port_stream_close(f->stream);
    free(f);
}

/* --- from the client */

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    struct forward *f = ws_data(ws);
    bool end = !binary && len == sizeof(end_text) - 1 && !memcmp(data, end_text, len);
    if (!f->stream)
        return;
    if (!binary && !end) {
        ws_close(ws, WS_UNSUPPORTED, "a text message is {\"type\":\"end\"}, and nothing else");
    } else if (f->ended) {
        ws_close(ws, WS_UNSUPPORTED, "nothing may come behind {\"type\":\"end\"}");
    } else if (end) {
        f->ended = true;
        port_stream_end(f->stream);
    } else if (!port_stream_write(f->stream, data, len)) {
        ws_pause(ws);
    }
}

static void on_ws_drain(struct ws *ws)
{
    struct forward *f = ws_data(ws);
    size_t held = f->held;
    f->held = 0;
    if (f->stream)
        port_stream_consumed(f->stream, held);
}

static void on_ws_close(struct ws *ws)
{
    forward_free(ws_data(ws));
}

static void on_abort(struct http_request *http, void *data)
{
    (void)http;
    forward_free(data);
}

/* --- from the server */

/* Two owners follow each other: the request frees f when its client leaves (on_abort), and from the
 * handshake on the WebSocket does (on_ws_close). */
static void on_connected(void *data)
{
    static const struct ws_handlers handlers = {on_message, on_ws_drain, on_ws_close};
    struct forward *f = data;
    struct http_request *http = steal_ptr(f->http);
    http_request_on_abort(http, NULL, NULL);
    f->ws = http_upgrade_ws(http, NULL, &handlers, f);
    if (!f->ws)
        forward_free(f);
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct forward *f = data;
    if (ws_send(f->ws, true, bytes, len) && !f->held)
        port_stream_consumed(f->stream, len);
    else
        f->held += len;
}

static void on_end(void *data)
{
    struct forward *f = data;
    ws_send(f->ws, false, end_text, sizeof(end_text) - 1);
}

static void on_stream_drain(void *data)
{
    struct forward *f = data;
    ws_resume(f->ws);
}

static void on_closed(void *data, const struct error *err)
{
    struct forward *f = data;
    f->stream = NULL;
    if (f->ws) {
        ws_close(f->ws, err ? WS_FAILED : WS_NORMAL, err ? err->message : "");
        return; /* on_ws_close comes */
    }
    http_request_on_abort(f->http, NULL, NULL);
    port_answer_error(f->http, err);
    free(f);
}

void port_forward_start(struct http_request *http, struct sandbox *sb, uint16_t port)
{
    static const struct port_stream_events events = {on_connected, on_data, on_end, on_stream_drain,
                                                     on_closed};
    struct error err = {0};
    struct forward *f = new0(struct forward);
    f->http = http;
    f->stream = port_stream_open(sb, port, &events, f, &err);
    if (!f->stream) {
        free(f);
        port_answer_error(http, &err);
        return;
    }
    http_request_on_abort(http, on_abort, f);
}
