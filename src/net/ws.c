/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket (RFC 6455): the handshake, and wslay's framing over a connection's bytes.
 *
 * wslay checks frames, answers pings, validates UTF-8 and keeps the closing handshake; it reads
 * from the connection's input buffer and writes into one scratch buffer, which goes out as one
 * write. Messages are put together here and not by wslay, whose list of fragments costs an
 * allocation a fragment however small. wslay reads ahead, so messages may be decoded while the
 * handler has paused us: they wait in `held`.
 *
 * Half-open peers: a ping goes out when nothing has come for ws_ping_ms; a peer that lets two go by
 * is closed, once it had the time to read what was sent before them. A paused one is pinged too. A
 * peer that only sends would never see a ping, which would lie in its kernel for ever, and make a
 * reset of its orderly end: there the kernels look for each other. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/conn.h"

#define WS_KEY_LENGTH   24
#define WS_PINGS_MISSED 2
#define WS_REASON_MAX   123
#define WS_PROBE_S      30 /* of silence, after which the kernel looks for a peer that only sends */

static const char ws_guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

struct held {
    struct list node;
    size_t len;
    bool binary;
    char data[];
};

struct ws {
    struct conn *conn;
    wslay_event_context_ptr ctx;
    struct ws_handlers handlers;
    void *data;
    struct strbuf message; /* of the message being received */
    struct strbuf out;
    struct list held;
    bool paused, closing, want_drain;
    uint16_t violation; /* the close code for what the peer did wrong, or 0 */
    uint64_t heard_at, closing_at, ping_at;
    unsigned missed;
    uint64_t sent_heard; /* conn->sent at heard_at */
};

/* --- handshake */

static bool valid_key(const char *key)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return key && strlen(key) == WS_KEY_LENGTH && strspn(key, alphabet) == WS_KEY_LENGTH - 2 &&
           !strcmp(key + WS_KEY_LENGTH - 2, "==");
}

static void accept_value(const char *key, char out[HTTP_WS_ACCEPT_SIZE])
{
    char text[WS_KEY_LENGTH + sizeof(ws_guid)];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    memcpy(text, key, WS_KEY_LENGTH);
    memcpy(text + WS_KEY_LENGTH, ws_guid, sizeof(ws_guid));
    EVP_Digest(text, sizeof(text) - 1, digest, &len, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)out, digest, (int)len);
}

/* 0, or the status to refuse the upgrade with. */
static int check_handshake(struct http_request *req, const char **ret_message)
{
    const char *version = http_request_header(req, "Sec-WebSocket-Version");
    *ret_message = "not a WebSocket handshake";
    if (req->method != HTTP_GET_ || req->http10 || !http_request_wants_ws(req) || !req->body_done)
        return 400;
    if (!version || strcmp(version, "13") != 0) {
        *ret_message = "the WebSocket version here is 13";
        http_response_header(req, "Sec-WebSocket-Version", "13");
        return version ? 426 : 400;
    }
    *ret_message = "invalid Sec-WebSocket-Key";
    return valid_key(http_request_header(req, "Sec-WebSocket-Key")) ? 0 : 400;
}

static void send_accept(struct http_request *req, const char *subprotocol)
{
    struct conn *c = req->conn;
    struct strbuf *out = &c->server->out;
    char value[HTTP_WS_ACCEPT_SIZE];
    accept_value(http_request_header(req, "Sec-WebSocket-Key"), value);
    if (subprotocol)
        http_response_header(req, "Sec-WebSocket-Protocol", subprotocol);
    strbuf_reset(out);
    strbuf_puts(out, "HTTP/1.1 101 Switching Protocols");
    strbuf_puts(out, server_date(c->server));
    strbuf_printf(out, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
                  value);
    strbuf_append(out, c->headers.data, c->headers.len);
    strbuf_append(out, "\r\n", 2);
    strbuf_reset(&c->headers);
    uv_buf_t buf = buf_of(out->data, out->len);
    conn_write(c, &buf, 1);
}

/* --- receiving */

static bool ws_is_open(const struct ws *ws)
{
    return ws->conn->state == CONN_WS;
}

static bool output_full(const struct ws *ws)
{
    return conn_queued(ws->conn) > ws->conn->server->o.config.max_write_queue;
}

static bool wants_input(const struct ws *ws)
{
    return !ws->paused && !output_full(ws);
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *data)
{
    struct ws *ws = data;
    struct conn *c = ws->conn;
    (void)flags;
    size_t n = c->in_len - c->in_pos;
    if (n > len)
        n = len;
    if (!n || !ws_is_open(ws) || !wants_input(ws) || ws->violation || conn_turn_over(c)) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    c->turn_steps++;
    memcpy(buf, c->in + c->in_pos, n);
    c->in_pos += n;
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags,
                       void *user)
{
    struct ws *ws = user;
    (void)ctx;
    (void)flags;
    strbuf_append(&ws->out, data, len);
    return (ssize_t)len;
}

static void on_frame_chunk(wslay_event_context_ptr ctx,
                           const struct wslay_event_on_frame_recv_chunk_arg *arg, void *data)
{
    struct ws *ws = data;
    (void)ctx;
    /* Control frames are at most 125 bytes and wslay keeps them itself; on_frame_start marks them
     * by a maximum of 0. */
    if (ws->message.max && strbuf_append(&ws->message, arg->data, arg->data_length) < 0)
        ws->violation = WSLAY_CODE_MESSAGE_TOO_BIG;
}

static void on_frame_start(wslay_event_context_ptr ctx,
                           const struct wslay_event_on_frame_recv_start_arg *arg, void *data)
{
    struct ws *ws = data;
    (void)ctx;
    ws->message.max =
        wslay_is_ctrl_frame(arg->opcode) ? 0 : ws->conn->server->o.config.ws_max_message;
    /* Half a close code, which wslay would answer as if there were none. */
    if (arg->opcode == WSLAY_CONNECTION_CLOSE && arg->payload_length == 1)
        ws->violation = WSLAY_CODE_PROTOCOL_ERROR;
}

static void hold_message(struct ws *ws, bool binary)
{
    struct held *h = xrealloc(NULL, sizeof(*h) + ws->message.len + 1);
    h->len = ws->message.len;
    h->binary = binary;
    if (h->len)
        memcpy(h->data, ws->message.data, h->len);
    h->data[h->len] = 0;
    list_append(&ws->held, &h->node);
}

static void take_message(struct ws *ws, bool binary)
{
    const char *data = ws->message.data ? ws->message.data : "";
    if (ws->paused || !list_empty(&ws->held))
        hold_message(ws, binary);
    else if (ws->handlers.on_message)
        ws->handlers.on_message(ws, binary, data, ws->message.len);
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *data)
{
    struct ws *ws = data;
    (void)ctx;
    if (wslay_is_ctrl_frame(arg->opcode))
        return;
    bool binary = arg->opcode == WSLAY_BINARY_FRAME;
    if (ws_is_open(ws) && !ws->closing && !ws->violation)
        take_message(ws, binary);
    if (ws->message.alloc > CONN_BODY_ROOM)
        strbuf_done(&ws->message);
    else
        strbuf_reset(&ws->message);
}

/* --- sending */

static void flush_output(struct ws *ws)
{
    if (!ws_is_open(ws))
        return;
    if (wslay_event_want_write(ws->ctx) && wslay_event_send(ws->ctx) != 0) {
        conn_close(ws->conn);
        return;
    }
    if (!ws->out.len)
        return;
    uv_buf_t buf = buf_of(ws->out.data, ws->out.len);
    conn_write(ws->conn, &buf, 1);
    if (ws->out.alloc > CONN_BODY_ROOM)
        strbuf_done(&ws->out);
    else
        strbuf_reset(&ws->out);
}

void ws_input(struct conn *c)
{
    struct ws *ws = c->ws;
    while (!list_empty(&ws->held) && !ws->paused && ws_is_open(ws)) {
        struct held *h = container_of(ws->held.next, struct held, node);
        list_remove(&h->node);
        if (!ws->closing && ws->handlers.on_message)
            ws->handlers.on_message(ws, h->binary, h->data, h->len);
        free(h);
    }
    if (ws_is_open(ws) && wslay_event_want_read(ws->ctx) && wslay_event_recv(ws->ctx) != 0 &&
        !ws->violation)
        ws->violation = WSLAY_CODE_PROTOCOL_ERROR;
    if (ws_is_open(ws) && ws->violation) {
        /* Says why and closes without waiting for the peer's part of the handshake. wslay would
         * close without a code after a frame header it cannot read. */
        const unsigned char frame[] = {0x80 | WSLAY_CONNECTION_CLOSE, 2,
                                       (unsigned char)(ws->violation >> 8),
                                       (unsigned char)ws->violation};
        uv_buf_t buf = buf_of(frame, sizeof(frame));
        if (!wslay_event_get_close_sent(ws->ctx))
            conn_write(ws->conn, &buf, 1);
        conn_linger(ws->conn, true);
        return;
    }
    flush_output(ws);
    /* The closing handshake is over, or wslay has given up on the peer. */
    if (!ws_is_open(ws) || wslay_event_want_read(ws->ctx) || wslay_event_want_write(ws->ctx))
        return;
    conn_linger(ws->conn, !wslay_event_get_close_received(ws->ctx));
}

void ws_drained(struct conn *c)
{
    struct ws *ws = c->ws;
    if (!ws->want_drain)
        return;
    ws->want_drain = false;
    if (ws->handlers.on_drain && !ws->closing)
        ws->handlers.on_drain(ws);
}

/* A frame of ours is not masked: a header of 2, 4 or 10 bytes and the payload as it is. */
static size_t frame_header(uint8_t out[10], uint8_t opcode, size_t len)
{
    out[0] = (uint8_t)(0x80 | opcode);
    if (len < 126) {
        out[1] = (uint8_t)len;
        return 2;
    }
    size_t n = len <= UINT16_MAX ? 2 : 8;
    out[1] = n == 2 ? 126 : 127;
    for (size_t i = 0; i < n; i++)
        out[2 + i] = (uint8_t)((uint64_t)len >> (8 * (n - 1 - i)));
    return 2 + n;
}

/* While wslay has nothing under way itself, a message goes around it: it would copy it twice. */
bool ws_send_parts(struct ws *ws, bool binary, const void *head, size_t head_len, const void *data,
                   size_t len)
{
    uint8_t header[10];
    uint8_t opcode = binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME;
    if (!ws_is_open(ws) || ws->closing || wslay_event_get_close_received(ws->ctx) ||
        wslay_event_get_close_sent(ws->ctx))
        return true;
    if (wslay_event_want_write(ws->ctx))
        flush_output(ws);
    if (!ws_is_open(ws))
        return true;
    size_t n = frame_header(header, opcode, head_len + len);
    uv_buf_t bufs[3] = {buf_of(header, n)};
    unsigned n_bufs = 1;
    if (head_len)
        bufs[n_bufs++] = buf_of(head, head_len);
    if (len)
        bufs[n_bufs++] = buf_of(data, len);
    conn_write(ws->conn, bufs, n_bufs);
    if (!ws_is_open(ws) || !output_full(ws))
        return true;
    ws->want_drain = true;
    return false;
}

bool ws_send(struct ws *ws, bool binary, const char *data, size_t len)
{
    return ws_send_parts(ws, binary, NULL, 0, data, len);
}

size_t ws_queued(const struct ws *ws)
{
    return ws_is_open(ws) ? conn_queued(ws->conn) : 0;
}

void ws_close(struct ws *ws, uint16_t code, const char *reason)
{
    if (!ws_is_open(ws) || ws->closing)
        return;
    size_t len = reason ? strlen(reason) : 0;
    ws->closing = true;
    ws->paused = false;
    ws->closing_at = uv_now(ws->conn->server->o.loop);
    wslay_event_queue_close(ws->ctx, code, (const uint8_t *)reason,
                            len > WS_REASON_MAX ? WS_REASON_MAX : len);
    flush_output(ws);
    conn_advance(ws->conn);
}

void ws_pause(struct ws *ws)
{
    if (!ws->closing)
        ws->paused = true;
}

void ws_resume(struct ws *ws)
{
    ws->paused = false;
    ws_heard(ws);
    conn_advance(ws->conn);
}

void *ws_data(const struct ws *ws)
{
    return ws->data;
}

/* --- life */

/* Something came of the peer, whatever it is. */
void ws_heard(struct ws *ws)
{
    ws->heard_at = uv_now(ws->conn->server->o.loop);
    ws->sent_heard = ws->conn->sent;
    ws->missed = 0;
}

/* A peer answers a ping when it has read what was sent before it, which the kernels on both sides
 * may still hold: at the least rate that is asked of readers. */
static uint64_t answer_patience_ms(const struct ws *ws)
{
    size_t rate = ws->conn->server->o.config.write_min_rate;
    return rate ? (ws->conn->sent - ws->sent_heard) * 1000 / rate : 0;
}

void ws_tick(struct ws *ws, uint64_t now)
{
    uint64_t every = ws->conn->server->o.config.ws_ping_ms;
    if (ws->closing) {
        /* A slow reader gets all that is queued first; one that stopped is the write timeout's. */
        if (conn_queued(ws->conn))
            ws->closing_at = now;
        else if (now - ws->closing_at >= WS_CLOSE_TIMEOUT_MS)
            conn_close(ws->conn);
        return;
    }
    uint64_t last = ws->heard_at > ws->ping_at ? ws->heard_at : ws->ping_at;
    /* While something is queued the write timeouts decide. */
    if (!every || now - last < every || conn_queued(ws->conn) || ws->handlers.peer_never_reads)
        return;
    if (ws->missed >= WS_PINGS_MISSED && now - ws->heard_at >= answer_patience_ms(ws)) {
        log_debug("closed a WebSocket whose peer answers no pings");
        conn_close(ws->conn);
        return;
    }
    /* An answer cannot be heard while the input buffer of a paused one is full. The ping still goes
     * out: where the peer's host is gone, the kernel finds out by it (TCP_USER_TIMEOUT). */
    if (ws->conn->reading)
        ws->missed++;
    ws->ping_at = now;
    struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    wslay_event_queue_msg(ws->ctx, &ping);
    flush_output(ws);
}

/* Called by the connection when libuv has closed it. */
void ws_gone(struct ws *ws)
{
    if (ws->handlers.on_close)
        ws->handlers.on_close(ws);
    while (!list_empty(&ws->held)) {
        struct held *h = container_of(ws->held.next, struct held, node);
        list_remove(&h->node);
        free(h);
    }
    wslay_event_context_free(ws->ctx);
    strbuf_done(&ws->message);
    strbuf_done(&ws->out);
    free(ws);
}

static struct ws *ws_new(struct conn *c, const struct ws_handlers *handlers, void *data)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame_start,
        .on_frame_recv_chunk_callback = on_frame_chunk,
        .on_msg_recv_callback = on_message,
    };
    struct ws *ws = new0(struct ws);
    ws->conn = c;
    ws->handlers = *handlers;
    ws->data = data;
    ws->heard_at = uv_now(c->server->o.loop);
    list_init(&ws->held);
    strbuf_init(&ws->out, SIZE_MAX / 2);
    if (wslay_event_context_server_init(&ws->ctx, &callbacks, ws) != 0)
        abort();
    wslay_event_config_set_no_buffering(ws->ctx, 1);
    wslay_event_config_set_max_recv_msg_length(ws->ctx, c->server->o.config.ws_max_message);
    return ws;
}

int ws_accept(struct http_request *req, const char *subprotocol)
{
    struct conn *c = req->conn;
    const char *message;
    int status =
        c->state == CONN_BUSY && req->answer == ANSWER_NONE ? check_handshake(req, &message) : -1;
    if (status) {
        if (status > 0)
            response_refuse(req, status, message);
        return -1;
    }
    send_accept(req, subprotocol);
    if (c->state == CONN_CLOSING)
        return -1;
    req->answer = ANSWER_DONE;
    req->on_abort = NULL;
    return 0;
}

bool http_request_ws_accept(const struct http_request *req, char ret[HTTP_WS_ACCEPT_SIZE])
{
    const char *key = http_request_header(req, "Sec-WebSocket-Key");
    if (!http_request_wants_ws(req) || !valid_key(key))
        return false;
    accept_value(key, ret);
    return true;
}

struct ws *http_upgrade_ws(struct http_request *req, const char *subprotocol,
                           const struct ws_handlers *handlers, void *data)
{
    struct conn *c = req->conn;
    if (ws_accept(req, subprotocol) < 0)
        return NULL;
    c->ws = ws_new(c, handlers, data);
    c->state = CONN_WS;
    c->in_base = 0;
    if (handlers->peer_never_reads && !c->is_unix)
        uv_tcp_keepalive(&c->h.tcp, 1, WS_PROBE_S);
    if (c->server->draining)
        ws_close(c->ws, WSLAY_CODE_GOING_AWAY, "the server is going away");
    conn_advance(c);
    return c->ws;
}
