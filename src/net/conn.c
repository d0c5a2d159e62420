/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: an explicit state machine. conn-io.c moves its bytes.
 *
 * States (enum conn_state), each left only in this file or by http_upgrade_*():
 *
 *   HEAD     collects a request head. With the head complete it is parsed and the handler is
 * called:
 *            -> BUSY. A head that is refused is answered here: -> LINGER.
 *   BUSY     one request is with its handler. The body is pumped to it as it asks (request.c); what
 *            the handler has not asked for waits in the input buffer, and when that is full reading
 *            stops, which is the backpressure. With the answer and the body complete: -> HEAD, or
 *            -> LINGER when the answer said close. After an early answer the rest of the body is
 *            thrown away up to max_discard_bytes.
 *   WS       ws.c reads and writes; it asks for LINGER when the closing handshake is over.
 *   TUNNEL   tunnel.c passes bytes on as they are; its handler asks for LINGER.
 *   LINGER   the last bytes are queued, then our side is shut down. Where the client may still be
 *            sending, its bytes are read and dropped for a while: closing at once would make the
 *            kernel send a reset that could destroy the answer before the client has read it.
 *   CLOSING  uv_close() was called. Legal from every state, at any time, also inside a callback.
 *
 * Lifetime: memory is freed only in libuv's close callback, so nothing goes away under a caller's
 * feet. on_abort and on_close are called from there too, never from inside an API function. Every
 * API function on a CLOSING connection does nothing.
 *
 * Control flow: handlers get input from within conn_process() and never otherwise. It never nests:
 * a change made from inside one (an answer, a resume) is seen by its loop, and one made from
 * outside puts the connection on the server's ready list (conn_advance()), handled by the loop's
 * next turn.
 *
 * No connection keeps the loop from the others: what it may do in one turn is bounded in requests,
 * bytes and time (conn_turn_over()). One that has more to do stops reading and goes to the end of
 * the server's late list, which is served from the front, a bounded time per turn. The first
 * request of a turn is always served, so a client that waits for each answer is never late; but
 * for one with a large body, whose handler may take long: it is served at once only while nothing
 * is late and the turn has time left (conn_body_waits()). So many connections with one such request
 * each are served one per turn, and small requests in between.
 *
 * Timeouts are checked by one timer for the whole server (conn_tick()); a request costs no timer.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/conn.h"
#include "net/tls.h"

#define HALF_CLOSED_PROBE_S 20

struct conn *conn_new(struct http_server *s, bool is_unix)
{
    struct conn *c = new0(struct conn);
    c->server = s;
    c->is_unix = is_unix;
    list_init(&c->node);
    list_init(&c->ready);
    list_init(&c->stranger);
    list_init(&c->stranger_of_peer);
    strbuf_init(&c->headers, RESPONSE_HEADERS_MAX);
    strbuf_init(&c->target, s->o.config.max_header_bytes);
    return c;
}

static void conn_free(struct conn *c)
{
    strbuf_done(&c->headers);
    strbuf_done(&c->body);
    strbuf_done(&c->target);
    tls_free(c->tls);
    free(c->in);
    free(c);
}

/* --- closing */

/* libuv is done with the handle: the one place where the handler hears of an end, and where memory
 * goes. A request that was answered has no abort. */
static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct http_server *s = c->server;
    struct http_request *req = &c->req;
    if (c->ws)
        ws_gone(c->ws);
    else if (c->tunnel)
        tunnel_gone(c->tunnel);
    else if (req->on_abort && req->answer != ANSWER_DONE)
        req->on_abort(req, req->abort_data);
    server_conn_gone(c);
    conn_free(c);
    server_unref_handle(s);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    c->state = CONN_CLOSING;
    conn_let_go(c, c->kept);
    list_remove(&c->ready);
    uv_close(&c->h.handle, on_closed);
}

/* Closes so that the peer sees an error, not an end. uv_tcp_close_reset() refuses a connection that
 * is to be shut down behind its last answer, and there the end would pass for that of the answer.
 */
void conn_reset(struct conn *c)
{
    const struct linger at_once = {.l_onoff = 1};
    uv_os_fd_t fd;
    if (c->state == CONN_CLOSING)
        return;
    if (!c->is_unix && uv_fileno(&c->h.handle, &fd) == 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    conn_close(c);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    struct conn *c = req->handle->data;
    c->shutdown_done = true;
    c->since = uv_now(c->server->o.loop);
    if (status < 0 || !c->linger_read || c->eof)
        conn_close(c);
}

void conn_linger(struct conn *c, bool read)
{
    if (c->state == CONN_CLOSING || c->state == CONN_LINGER)
        return;
    c->state = CONN_LINGER;
    c->linger_read = read;
    c->since = uv_now(c->server->o.loop);
    if (c->tls) {
        tls_shutdown(c->tls);
        conn_flush_tls(c);
    }
    if (c->state == CONN_LINGER && uv_shutdown(&c->shutdown, &c->h.stream, on_shutdown) < 0)
        conn_close(c);
}

/* --- the machine */

/* Nothing more is read then, but a client that reads still has a moment to see its answer. */
static bool enough_lingered(const struct conn *c)
{
    return c->lingered > c->server->o.config.max_discard_bytes;
}

bool conn_wants_input(const struct conn *c)
{
    if (c->eof || c->yielded)
        return false;
    switch (c->state) {
    case CONN_LINGER:
        return c->linger_read && !enough_lingered(c);
    case CONN_CLOSING:
        return false;
    default:
        return true;
    }
}

/* An answer of this layer's own to bytes that never became a request. */
void conn_refuse(struct conn *c, int status, const char *message)
{
    struct http_request *req = &c->req;
    memset(req, 0, offsetof(struct http_request, fields));
    req->conn = c;
    req->body_done = true;
    req->close = true;
    c->state = CONN_BUSY;
    response_error(req, status, message);
    conn_linger(c, true);
}

/* Ready for the next request of the same client. Buffers that grew large are given back: a thousand
 * idle connections must not keep a thousand large bodies. */
static void finish_request(struct conn *c)
{
    bool close = c->req.close;
    strbuf_reset(&c->headers);
    if (c->body.alloc > CONN_BODY_ROOM)
        strbuf_done(&c->body);
    else
        strbuf_reset(&c->body);
    if (close) {
        conn_linger(c, c->in_pos < c->in_len);
        return;
    }
    c->state = CONN_HEAD;
    c->in_base = 0;
    c->scan = (struct scan){0};
    c->since = uv_now(c->server->o.loop);
    if (c->server->draining && c->in_pos == c->in_len)
        conn_linger(c, false);
}

static const char *refusal_text(int status)
{
    return status == 505 ? "this server speaks HTTP/1.0 and HTTP/1.1" : "malformed request head";
}

/* The head is scanned as it comes and parsed once it is complete. A client that does not read its
 * answers (max_write_queue) gets no further request served. */
static bool step_head(struct conn *c)
{
    const struct http_config *o = &c->server->o.config;
    size_t avail = c->in_len - c->in_pos;
    if (!avail || conn_queued(c) > o->max_write_queue || conn_turn_over(c))
        return false;
    if (!c->counted) {
        conn_refuse(c, 503, "too many connections");
        return true;
    }
    ssize_t n = scan_head(&c->scan, c->in + c->in_pos, avail);
    if (n < 0) {
        conn_refuse(c, (int)-n, refusal_text((int)-n));
        return true;
    }
    if ((n ? (size_t)n : avail) > o->max_header_bytes) {
        conn_refuse(c, 431, "the request line and headers are too large");
        return true;
    }
    if (!n)
        return false;
    if (c->in_cap - c->in_pos < (size_t)n + CONN_BODY_ROOM / 4) {
        memmove(c->in, c->in + c->in_pos, avail);
        c->in_pos = 0;
        c->in_len = avail;
    }
    const char *message;
    size_t start = c->in_pos + c->scan.start;
    int status = parse_head(c, start, (size_t)n - c->scan.start, &message);
    c->in_pos += (size_t)n;
    if (status) {
        conn_refuse(c, status, message);
        return true;
    }
    c->in_base = c->in_pos;
    c->served = true;
    c->state = CONN_BUSY;
    c->since = uv_now(c->server->o.loop);
    c->turn_steps++;
    c->server->o.on_request(&c->req, c->server->o.data);
    return true;
}

/* With the answer sent, what is left of the body is thrown away up to a limit, so that the
 * connection can be used again; a body that is larger costs less when the connection ends. */
static bool step_busy(struct conn *c)
{
    struct http_request *req = &c->req;
    if (response_end_bodiless(req))
        return true;
    if (req->answer == ANSWER_DONE) {
        if (req->body_done) {
            finish_request(c);
            return true;
        }
        if (req->close || req->discarded > c->server->o.config.max_discard_bytes) {
            conn_linger(c, true);
            return true;
        }
    }
    return request_pump(c);
}

static void step_linger(struct conn *c)
{
    c->lingered += c->in_len - c->in_pos;
    c->in_base = c->in_pos = c->in_len = 0;
    if (c->eof && c->shutdown_done)
        conn_close(c);
}

static bool step_conn(struct conn *c)
{
    switch (c->state) {
    case CONN_HEAD:
        return step_head(c);
    case CONN_BUSY:
        return step_busy(c);
    case CONN_WS:
        ws_input(c);
        return c->state == CONN_LINGER;
    case CONN_TUNNEL:
        return tunnel_input(c);
    case CONN_LINGER:
        step_linger(c);
        return false;
    case CONN_CLOSING:
        return false;
    }
    return false;
}

bool conn_turn_over(struct conn *c)
{
    if (!c->turn_steps)
        return false;
    c->yielded = c->turn_steps >= TURN_STEPS || c->turn_bytes >= TURN_BYTES ||
                 server_turn_is_over(c->server);
    return c->yielded;
}

bool conn_body_waits(struct conn *c, size_t len)
{
    if (len <= TURN_BODY || c->has_turn)
        return false;
    c->yielded = !list_empty(&c->server->late) || server_turn_is_over(c->server);
    return c->yielded;
}

static void reset_turn(struct conn *c)
{
    c->turn_at = uv_now(c->server->o.loop);
    c->turn_steps = 0;
    c->turn_bytes = 0;
}

void conn_begin_turn(struct conn *c)
{
    if (c->turn_at != uv_now(c->server->o.loop))
        reset_turn(c);
}

/* Without events asked for, poll() reports errors and hang-ups only: a peer that has reset the
 * connection, or closed both sides of a Unix socket. */
static bool conn_peer_reads(const struct conn *c)
{
    uv_os_fd_t fd;
    if (uv_fileno(&c->h.handle, &fd) < 0)
        return false;
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) == 0;
}

/* The client has ended its side with a request running: whether it may still read the answer. A
 * full close looks the same over TCP until something is sent; the answer to that is a reset. */
static bool may_answer_after_end(struct conn *c)
{
    struct http_request *req = &c->req;
    if (c->state != CONN_BUSY || (!req->body_done && c->in_pos == c->in_len))
        return false;
    if (c->half_closed)
        return true;
    if (req->answer != ANSWER_NONE || (req->http10 && !c->is_unix))
        return false;
    if (!c->is_unix)
        response_continue(req);
    c->half_closed = c->state == CONN_BUSY && conn_peer_reads(c);
    /* Should it leave while there is nothing to send, the kernel finds out. */
    if (c->half_closed && !c->is_unix)
        uv_tcp_keepalive(&c->h.tcp, 1, HALF_CLOSED_PROBE_S);
    return c->half_closed;
}

/* Steps the machine until it waits. The end of the client's side counts only when all bytes
 * before it were handled: a request and its end may come in one segment. */
void conn_process(struct conn *c)
{
    if (c->processing || c->yielded || c->state == CONN_CLOSING)
        return;
    conn_begin_turn(c);
    /* TLS may hold decrypted bytes that no event of the socket will announce, so it is asked again
     * until it has none. */
    do {
        if (c->tls && !c->eof)
            conn_pull_tls(c);
        c->processing = true;
        while (step_conn(c))
            ;
        c->processing = false;
    } while (c->tls && !c->eof && conn_wants_input(c) && conn_pull_tls(c));
    c->yielded |= c->turn_bytes >= TURN_BYTES;
    if (c->yielded && c->state != CONN_CLOSING)
        server_yield(c->server, c);
    else if (c->eof && c->state == CONN_HEAD)
        conn_linger(c, false); /* earlier answers may still be queued */
    else if (c->eof && c->state != CONN_LINGER && !tunnel_holds_input(c) &&
             !may_answer_after_end(c))
        conn_close(c);
    conn_update_reading(c);
}

void conn_continue(struct conn *c)
{
    c->yielded = false;
    c->has_turn = true;
    reset_turn(c);
    conn_process(c);
    c->has_turn = false;
}

void conn_advance(struct conn *c)
{
    if (!c->processing && c->state != CONN_CLOSING)
        server_kick(c->server, c);
}

void conn_start(struct conn *c)
{
    c->since = uv_now(c->server->o.loop);
    conn_update_reading(c);
}

/* Everything queued has been taken by the kernel. */
void conn_drained(struct conn *c)
{
    struct http_request *req = &c->req;
    if (c->state == CONN_WS) {
        ws_drained(c);
    } else if (c->state == CONN_TUNNEL) {
        tunnel_drained(c);
    } else if (c->state == CONN_BUSY && req->want_drain) {
        req->want_drain = false;
        if (req->on_drain)
            req->on_drain(req, req->drain_data);
    }
    conn_process(c);
}

/* --- time */

/* What a transfer of so many bytes may take that has a least rate. */
static uint64_t patience_ms(uint64_t grace_ms, uint64_t bytes, size_t rate)
{
    return rate ? grace_ms + bytes * 1000 / rate : UINT64_MAX;
}

static bool body_is_late(const struct http_request *req, uint64_t now)
{
    const struct http_config *o = &req->conn->server->o.config;
    uint64_t took = now - req->body_since;
    /* A client on a busy machine that sends all it can must not lose its answer to a reset.
     * max_discard_bytes bounds what it gains by that. */
    if (req->answer == ANSWER_DONE)
        return now - req->answered_at >=
               patience_ms(CONN_EARLY_MS < o->body_timeout_ms ? CONN_EARLY_MS : o->body_timeout_ms,
                           req->discarded, CONN_DISCARD_RATE);
    return now - req->conn->since >= o->body_timeout_ms ||
           (o->body_total_ms && took >= o->body_total_ms) ||
           took >= patience_ms(o->body_timeout_ms, req->body_got, o->body_min_rate);
}

static void tick_busy(struct conn *c, uint64_t now)
{
    struct http_request *req = &c->req;
    if (c->half_closed && !conn_peer_reads(c)) {
        conn_close(c);
        return;
    }
    if (!request_waits(req) || !body_is_late(req, now))
        return;
    if (req->answer != ANSWER_NONE)
        conn_close(c);
    else
        response_error(req, 408, "the body came too slowly");
}

/* Whether the client does not take its answer, or too slowly. A stream has no total: no more than
 * max_write_queue of it waits, and it may go on for ever. */
static bool reader_is_late(struct conn *c, size_t queued, uint64_t now)
{
    const struct http_config *o = &c->server->o.config;
    if (queued < c->write_last)
        c->write_since = now;
    c->write_last = queued;
    return now - c->write_since >= o->write_timeout_ms ||
           now - c->write_began >=
               patience_ms(o->write_timeout_ms, c->write_in - queued, o->write_min_rate) ||
           (o->write_total_ms && queued > o->max_write_queue &&
            now - c->write_began >= o->write_total_ms);
}

/* A caller who was never admitted may keep an idle connection for less long. */
static uint64_t idle_limit_ms(const struct conn *c)
{
    const struct http_config *o = &c->server->o.config;
    bool short_one = !c->served || (!c->admitted && o->header_timeout_ms < o->idle_timeout_ms);
    return short_one ? o->header_timeout_ms : o->idle_timeout_ms;
}

void conn_tick(struct conn *c, uint64_t now)
{
    const struct http_config *o = &c->server->o.config;
    size_t queued = conn_queued(c);
    if (c->state == CONN_CLOSING)
        return;
    if (queued && reader_is_late(c, queued, now)) {
        log_debug("dropped a client that does not read queued=%zu", queued);
        conn_reset(c);
        return;
    }
    uint64_t waited = now - c->since;
    switch (c->state) {
    case CONN_HEAD:
        if (c->in_pos < c->in_len && waited >= o->header_timeout_ms)
            conn_refuse(c, 408, "the request head came too slowly");
        else if (c->in_pos == c->in_len && waited >= idle_limit_ms(c))
            conn_linger(c, false);
        break;
    case CONN_BUSY:
        tick_busy(c, now);
        break;
    case CONN_WS:
        ws_tick(c->ws, now);
        break;
    case CONN_TUNNEL: /* silence is its own, and the kernel looks for clients that are gone */
        break;
    case CONN_LINGER:
        if (c->shutdown_done &&
            waited >= (enough_lingered(c)
                           ? CONN_LINGER_FULL_MS
                           : patience_ms(CONN_LINGER_MS, c->lingered, CONN_DISCARD_RATE)))
            conn_close(c);
        break;
    case CONN_CLOSING:
        break;
    }
}
