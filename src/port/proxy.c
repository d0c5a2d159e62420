/* SPDX-License-Identifier: Apache-2.0 */
#include "port/proxy.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "net/chunk.h"
#include "net/http.h"
#include "port/filter.h"
#include "port/head.h"
#include "sandbox/port-stream.h"
#include "sandbox/sandbox.h"

#define REQUEST_HEAD_MAX (256 * 1024) /* more than the server takes of a caller */
#define LOCATION_MAX     (3 * PORT_HEAD_MAX)
#define ANSWER_HEAD_MAX  (2 * PORT_HEAD_MAX) /* a head, and what came with its end */
#define INTERIM_MAX      16                  /* answers of 1xx before the real one */

struct port_call {
    struct http_request *http;  /* NULL: it is answered, or its client has left */
    struct http_tunnel *tunnel; /* after a WebSocket handshake */
    struct port_stream *stream; /* NULL: closed */
    struct loop_timer timer;    /* until the answer's head */
    uint64_t timeout_ms;
    char *prefix, *target, *host;
    uint16_t port;
    bool bodiless;      /* HEAD */
    bool chunked;       /* the request's body goes in so */
    struct strbuf head; /* of the request, then of the answer */
    bool answering;     /* the answer's head has gone out */
    unsigned n_interim;
    enum port_framing framing; /* of the answer */
    uint64_t left;
    struct chunk_decoder chunk;
    size_t held; /* bytes for the client that its connection has not taken */
    bool ended;  /* waits for libuv to give the timer back */
};

void port_answer_error(struct http_request *http, const struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(8192);
    _cleanup_json_ json_t *o =
        json_pack("{s:{s:s, s:o}}", "error", "code", error_code_name(err->code), "message",
                  json_message(err->message));
    json_format(o, &b);
    http_respond(http, error_code_http(err->code), "application/json", b.data ? b.data : "", b.len);
}

/* --- the end of a call */

static void on_timer_closed(void *data)
{
    struct port_call *c = data;
    strbuf_done(&c->head);
    free(c->prefix);
    free(c->target);
    free(c->host);
    free(c);
}

/* Comes from inside of the stream's own events as well. The memory goes when libuv is done with the
 * timer, so callers may still look at `ended`, and at nothing else. */
static void call_end(struct port_call *c)
{
    if (c->ended)
        return;
    c->ended = true;
    port_stream_close(steal_ptr(c->stream));
    loop_timer_close(&c->timer, on_timer_closed, c);
}

/* Its answer is whole, or the client got an error that says why there is none. The request must not
 * lead back to the call, which is freed sooner than the connection. */
static struct http_request *call_take_http(struct port_call *c)
{
    struct http_request *http = steal_ptr(c->http);
    http_request_on_abort(http, NULL, NULL);
    http_request_on_drain(http, NULL, NULL);
    http_request_set_data(http, NULL);
    return http;
}

static void call_fail(struct port_call *c, const struct error *err)
{
    if (c->tunnel) {
        http_tunnel_end(c->tunnel); /* its on_close ends the call */
        port_stream_close(steal_ptr(c->stream));
        return;
    }
    if (c->http && !c->answering)
        port_answer_error(call_take_http(c), err);
    else if (c->http)
        http_respond_abort(call_take_http(c)); /* half an answer must not pass for all of it */
    call_end(c);
}

static void call_fail_gateway(struct port_call *c, const char *why)
{
    struct error err = {0};
    error_set(&err, ERROR_BAD_GATEWAY, 0, "the server at port %u: %s", c->port, why);
    call_fail(c, &err);
}

static void on_abort(struct http_request *http, void *data)
{
    struct port_call *c = data;
    (void)http;
    c->http = NULL;
    call_end(c);
}

static void on_answer_late(void *data)
{
    struct port_call *c = data;
    struct error err = {0};
    error_set(&err, ERROR_TIMEOUT, 0,
              "the server at port %u did not answer in %llu seconds (port_answer_timeout)", c->port,
              (unsigned long long)c->timeout_ms / 1000);
    call_fail(c, &err);
}

/* --- the request */

/* Each line of Connection may name fields that are for this connection alone. */
static bool field_goes_inward(const struct port_call *c, const char *name)
{
    const char *other, *value;
    for (size_t i = 0; (other = http_request_header_at(c->http, i, &value)); i++)
        if (!strcasecmp(other, "Connection") && !port_filter_inward(name, value))
            return false;
    return port_filter_inward(name, NULL);
}

/* Only what was read as one request goes in: its fields have been parsed, and are written anew. */
static void put_fields(struct port_call *c, bool upgrade, bool keeps_authorization)
{
    const char *name, *value;
    for (size_t i = 0; (name = http_request_header_at(c->http, i, &value)); i++) {
        bool authorization = keeps_authorization && !strcasecmp(name, "Authorization");
        bool handshake = !strncasecmp(name, "Sec-WebSocket-", 14);
        if (!strcasecmp(name, "Cookie")) {
            _cleanup_strbuf_ struct strbuf cookies = STRBUF_INIT(REQUEST_HEAD_MAX);
            port_filter_cookies(value, &cookies);
            if (cookies.len)
                strbuf_printf(&c->head, "Cookie: %s\r\n", cookies.data);
        } else if (authorization || (field_goes_inward(c, name) && (upgrade || !handshake))) {
            strbuf_printf(&c->head, "%s: %s\r\n", name, value);
        }
    }
}

static void put_framing(struct port_call *c)
{
    int64_t length = http_request_content_length(c->http);
    enum http_method method = http_request_method(c->http);
    bool body = http_request_has_body(c->http);
    c->chunked = body && length < 0;
    if (c->chunked)
        strbuf_puts(&c->head, "Transfer-Encoding: chunked\r\n");
    else if (!body && (method == HTTP_POST_ || method == HTTP_PUT_ || method == HTTP_PATCH_))
        strbuf_puts(&c->head, "Content-Length: 0\r\n");
    else if (body)
        strbuf_printf(&c->head, "Content-Length: %lld\r\n", (long long)length);
}

static void make_head(struct port_call *c, bool upgrade, bool keeps_authorization)
{
    bool own_host = !*c->prefix && c->host;
    strbuf_printf(&c->head, "%s %s HTTP/1.1\r\n", http_request_method_name(c->http), c->target);
    if (own_host)
        strbuf_printf(&c->head, "Host: %s\r\n", c->host);
    else
        strbuf_printf(&c->head, "Host: localhost:%u\r\n", c->port);
    put_fields(c, upgrade, keeps_authorization);
    strbuf_printf(&c->head, "X-Forwarded-Proto: %s\r\n",
                  http_request_is_tls(c->http) ? "https" : "http");
    if (c->host)
        strbuf_printf(&c->head, "X-Forwarded-Host: %s\r\n", c->host);
    if (*c->prefix)
        strbuf_printf(&c->head, "X-Forwarded-Prefix: %s\r\n", c->prefix);
    put_framing(c);
    strbuf_puts(&c->head, upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                                  : "Connection: close\r\n\r\n");
}

static void on_body(struct http_request *http, const char *data, size_t len)
{
    struct port_call *c = http_request_data(http);
    char size[24];
    bool room = true;
    if (!c || !c->stream)
        return;
    if (loop_timer_active(&c->timer))
        loop_timer_start(&c->timer, c->timeout_ms);
    if (c->chunked && len) {
        int n = snprintf(size, sizeof(size), "%zx\r\n", len);
        port_stream_write(c->stream, size, (size_t)n);
    }
    if (len)
        room = port_stream_write(c->stream, data, len);
    if (c->chunked)
        room = port_stream_write(c->stream, len ? "\r\n" : "0\r\n\r\n", len ? 2 : 5);
    if (!room)
        http_request_pause(http);
}

static void on_connected(void *data)
{
    struct port_call *c = data;
    port_stream_write(c->stream, c->head.data, c->head.len);
    strbuf_done(&c->head);
    strbuf_init(&c->head, ANSWER_HEAD_MAX);
    loop_timer_start(&c->timer, c->timeout_ms);
    if (http_request_has_body(c->http))
        http_request_stream_body(c->http, on_body);
}

static void on_stream_drain(void *data)
{
    struct port_call *c = data;
    if (c->tunnel)
        http_tunnel_resume(c->tunnel);
    else if (c->http)
        http_request_resume(c->http);
}

/* --- the answer */

static void put_answer_fields(struct port_call *c, const struct port_head *h)
{
    const struct port_place place = {c->prefix, c->host, c->target, c->port};
    /* First: where there is no more room for fields, it must be the server's that are left out. */
    http_response_header(c->http, "Content-Security-Policy", PORT_CSP);
    http_response_header(c->http, "Cross-Origin-Resource-Policy", PORT_CORP);
    for (size_t i = 0; i < h->n_fields; i++) {
        const struct port_field *f = &h->fields[i];
        if (port_filter_outward(f->name)) {
            http_response_header(c->http, f->name, f->value);
        } else if (!strcasecmp(f->name, "Location")) {
            _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(LOCATION_MAX);
            if (port_filter_location(f->value, &place, &b))
                http_response_header(c->http, "Location", b.data);
        }
    }
}

static void answer_done(struct port_call *c)
{
    http_respond_end(call_take_http(c));
    call_end(c);
}

static void on_http_drain(struct http_request *http, void *data)
{
    struct port_call *c = data;
    (void)http;
    size_t held = c->held;
    c->held = 0;
    if (c->stream)
        port_stream_consumed(c->stream, held);
}

static void answer_begin(struct port_call *c, const struct port_head *h)
{
    const char *type = port_head_find(h, "Content-Type");
    put_answer_fields(c, h);
    loop_timer_stop(&c->timer);
    c->answering = true;
    c->framing = h->framing;
    c->left = h->length;
    http_request_on_drain(c->http, on_http_drain, c);
    if (h->framing == PORT_BODY_LENGTH || (c->bodiless && h->has_length))
        http_respond_begin_sized(c->http, h->status, type, h->length);
    else
        http_respond_begin(c->http, h->status, type);
    if (h->framing == PORT_BODY_NONE || (h->framing == PORT_BODY_LENGTH && !c->left))
        answer_done(c);
}

static bool answer_chunks(struct port_call *c, const char *data, size_t len)
{
    bool room = true;
    while (len && !c->chunk.done) {
        const char *piece;
        size_t n;
        ssize_t used = chunk_decode(&c->chunk, data, len, &piece, &n);
        if (used < 0) {
            call_fail_gateway(c, "the chunks of its answer are malformed");
            return true;
        }
        if (n)
            room = http_write(c->http, piece, n);
        data += used;
        len -= (size_t)used;
    }
    if (c->chunk.done)
        answer_done(c);
    return room;
}

/* Bytes of the body; what comes behind its end is dropped with the connection. True while the
 * client's connection takes more. */
static bool answer_put(struct port_call *c, const char *data, size_t len)
{
    if (c->framing == PORT_BODY_CHUNKED)
        return answer_chunks(c, data, len);
    if (c->framing == PORT_BODY_UNTIL_END)
        return http_write(c->http, data, len);
    size_t n = len < c->left ? len : (size_t)c->left;
    bool room = http_write(c->http, data, n);
    c->left -= n;
    if (!c->left)
        answer_done(c);
    return room;
}

static void answer_body(struct port_call *c, const char *data, size_t len)
{
    bool room = answer_put(c, data, len);
    if (c->ended)
        return;
    if (room && !c->held)
        port_stream_consumed(c->stream, len);
    else
        c->held += len;
}

/* --- WebSocket */

static void on_tunnel_data(struct http_tunnel *t, const char *data, size_t len)
{
    struct port_call *c = http_tunnel_data(t);
    if (c->stream && !port_stream_write(c->stream, data, len))
        http_tunnel_pause(t);
}

static void on_tunnel_drain(struct http_tunnel *t)
{
    on_http_drain(NULL, http_tunnel_data(t));
}

static void on_tunnel_close(struct http_tunnel *t)
{
    struct port_call *c = http_tunnel_data(t);
    c->tunnel = NULL;
    call_end(c);
}

static void answer_upgrade(struct port_call *c, const struct port_head *h)
{
    static const struct http_tunnel_handlers handlers = {on_tunnel_data, on_tunnel_drain,
                                                         on_tunnel_close};
    char want[HTTP_WS_ACCEPT_SIZE];
    const char *accept = port_head_find(h, "Sec-WebSocket-Accept");
    const char *upgrade = port_head_find(h, "Upgrade");
    const char *extensions = port_head_find(h, "Sec-WebSocket-Extensions");
    if (!http_request_ws_accept(c->http, want) || !accept || strcmp(accept, want) != 0 ||
        !upgrade || strcasecmp(upgrade, "websocket") != 0) {
        call_fail_gateway(c, "it switches to a protocol that was not asked for");
        return;
    }
    loop_timer_stop(&c->timer);
    if (extensions)
        http_response_header(c->http, "Sec-WebSocket-Extensions", extensions);
    c->answering = true;
    c->tunnel = http_upgrade_tunnel(call_take_http(c), port_head_find(h, "Sec-WebSocket-Protocol"),
                                    &handlers, c);
    if (!c->tunnel)
        call_end(c);
}

/* --- what the server sends */

/* Every head that is there. Returns false while more of one is needed, or when the call is over. */
static bool take_heads(struct port_call *c)
{
    static struct port_head h; /* one thread; nothing is kept of it */
    const char *why;
    while (c->head.len) {
        ssize_t n = port_head_parse(c->head.data, c->head.len, c->bodiless, &h, &why);
        if (n < 0)
            call_fail_gateway(c, why);
        if (n <= 0)
            return false;
        if (h.status >= 200)
            answer_begin(c, &h);
        else if (h.status == 101)
            answer_upgrade(c, &h);
        else if (++c->n_interim > INTERIM_MAX)
            call_fail_gateway(c, "it sends interim answers without an end");
        if (c->ended)
            return false;
        strbuf_consume(&c->head, (size_t)n);
        if (c->answering)
            return true;
    }
    return false;
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct port_call *c = data;
    if (c->tunnel) {
        if (http_tunnel_write(c->tunnel, bytes, len) && !c->held)
            port_stream_consumed(c->stream, len);
        else
            c->held += len;
        return;
    }
    if (c->answering) {
        answer_body(c, bytes, len);
        return;
    }
    port_stream_consumed(c->stream, len);
    strbuf_append(&c->head, bytes, len); /* less than a head was there, and less than one comes */
    if (!take_heads(c))
        return;
    /* What came behind the head is consumed already, and is not counted again. */
    _cleanup_strbuf_ struct strbuf rest = c->head;
    strbuf_init(&c->head, 0);
    if (!rest.len)
        return;
    if (c->tunnel)
        http_tunnel_write(c->tunnel, rest.data, rest.len);
    else
        answer_put(c, rest.data, rest.len);
}

static void on_end(void *data)
{
    struct port_call *c = data;
    if (c->tunnel)
        http_tunnel_end(c->tunnel);
    else if (!c->answering)
        call_fail_gateway(c, "it closed the connection before its answer");
    else if (c->framing == PORT_BODY_UNTIL_END)
        answer_done(c);
    else
        call_fail_gateway(c, "it closed the connection in the middle of its answer");
}

static void on_closed(void *data, const struct error *err)
{
    static const struct error none = {.code = ERROR_BAD_GATEWAY};
    struct port_call *c = data;
    c->stream = NULL;
    call_fail(c, err ? err : &none);
}

void port_proxy_start(struct http_request *http, const struct port_request *req)
{
    static const struct port_stream_events events = {on_connected, on_data, on_end, on_stream_drain,
                                                     on_closed};
    struct error err = {0};
    struct port_call *c = new0(struct port_call);
    const char *host = http_request_header(http, "Host");
    c->http = http;
    c->stream = port_stream_open(req->sandbox, req->port, &events, c, &err);
    if (!c->stream) {
        free(c);
        port_answer_error(http, &err);
        return;
    }
    c->port = req->port;
    c->timeout_ms = req->answer_timeout_ms;
    c->prefix = xstrdup(req->prefix);
    c->target = xstrdup(req->target);
    c->host = host ? xstrdup(host) : NULL;
    c->bodiless = http_request_method(http) == HTTP_HEAD_;
    loop_timer_init(&c->timer, manager_options(sandbox_manager(req->sandbox))->loop, on_answer_late,
                    c);
    strbuf_init(&c->head, REQUEST_HEAD_MAX);
    make_head(c, http_request_wants_ws(http), req->keeps_authorization);
    http_request_set_data(http, c);
    http_request_on_abort(http, on_abort, c);
}
