/* One connection: an explicit state machine over a libuv stream, plain or TLS.
 *
 * States (enum conn_state), each left only in this file or by http_upgrade_ws():
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
 *   LINGER   the last bytes are queued, then our side is shut down. Where the client may still be
 *            sending, its bytes are read and dropped for a while: closing at once would make the
 *            kernel send a reset that could destroy the answer before the client has read it.
 *   CLOSING  uv_close() was called. Legal from every state, at any time, also inside a callback.
 *
 * Lifetime: memory is freed only in libuv's close callback, so nothing goes away under a caller's
 * feet. on_abort and on_close are called from there too, never from inside an API function. Every
 * API function on a CLOSING connection does nothing.
 *
 * Control flow: conn_process() is the only place that calls handlers with input. It never nests: a
 * change made from inside one (an answer, a resume) is seen by its loop, and one made from outside
 * puts the connection on the server's ready list (conn_advance()), handled by the loop's next turn.
 *
 * Timeouts are checked by one timer for the whole server (conn_tick()); a request costs no timer.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/conn.h"
#include "net/tls.h"

#define ROOM_MIN 4096 /* compact the input when less is free behind it */

struct write {
    uv_write_t req;
    char data[];
};

struct conn *conn_new(struct http_server *s, bool is_unix)
{
    struct conn *c = new0(struct conn);
    c->server = s;
    c->is_unix = is_unix;
    list_init(&c->node);
    list_init(&c->ready);
    strbuf_init(&c->headers, RESPONSE_HEADERS_MAX);
    return c;
}

static void conn_free(struct conn *c)
{
    strbuf_done(&c->headers);
    strbuf_done(&c->body);
    tls_free(c->tls);
    free(c->in);
    free(c);
}

/* --- closing */

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct http_server *s = c->server;
    struct http_request *req = &c->req;
    if (c->ws)
        ws_gone(c->ws);
    else if (req->on_abort && req->answer != ANSWER_DONE)
        req->on_abort(req, req->abort_data);
    server_conn_gone(s, c);
    conn_free(c);
    server_unref_handle(s);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    c->state = CONN_CLOSING;
    list_remove(&c->ready);
    uv_close(&c->h.handle, on_closed);
}

/* Closes so that the peer sees an error, not an end. */
void conn_reset(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    if (!c->is_unix && uv_tcp_close_reset(&c->h.tcp, on_closed) == 0) {
        c->state = CONN_CLOSING;
        list_remove(&c->ready);
        return;
    }
    conn_close(c);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    struct conn *c = req->handle->data;
    c->shutdown_done = true;
    c->since = uv_now(c->server->o.loop);
    if (status < 0 || !c->linger_read || c->eof || c->lingered > c->server->o.max_discard_bytes)
        conn_close(c);
}

static void tls_flush(struct conn *c);

void conn_linger(struct conn *c, bool read)
{
    if (c->state == CONN_CLOSING || c->state == CONN_LINGER)
        return;
    c->state = CONN_LINGER;
    c->linger_read = read;
    c->since = uv_now(c->server->o.loop);
    if (c->tls) {
        tls_shutdown(c->tls);
        tls_flush(c);
    }
    if (c->state == CONN_LINGER && uv_shutdown(&c->shutdown, &c->h.stream, on_shutdown) < 0)
        conn_close(c);
}

/* --- output */

size_t conn_queued(const struct conn *c)
{
    return uv_stream_get_write_queue_size(&c->h.stream);
}

static void on_written(uv_write_t *w, int status)
{
    struct conn *c = w->handle->data;
    free(container_of(w, struct write, req));
    if (c->state == CONN_CLOSING)
        return;
    if (status < 0) {
        conn_close(c);
        return;
    }
    c->write_since = uv_now(c->server->o.loop);
    c->write_last = conn_queued(c);
    if (c->write_last)
        return;
    struct http_request *req = &c->req;
    if (c->state == CONN_WS) {
        ws_drained(c);
    } else if (c->state == CONN_BUSY && req->want_drain) {
        req->want_drain = false;
        if (req->on_drain)
            req->on_drain(req, req->drain_data);
    }
    conn_process(c);
}

static void queue_rest(struct conn *c, const uv_buf_t *bufs, unsigned n, size_t skip, size_t total)
{
    struct write *w = xrealloc(NULL, sizeof(*w) + total - skip);
    size_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t drop = skip < bufs[i].len ? skip : bufs[i].len;
        memcpy(w->data + at, bufs[i].base + drop, bufs[i].len - drop);
        at += bufs[i].len - drop;
        skip -= drop;
    }
    if (!conn_queued(c)) {
        c->write_since = uv_now(c->server->o.loop);
        c->write_last = at;
    }
    uv_buf_t buf = buf_of(w->data, at);
    if (uv_write(&w->req, &c->h.stream, &buf, 1, on_written) < 0) {
        free(w);
        conn_close(c);
    }
}

static void raw_write(struct conn *c, const uv_buf_t *bufs, unsigned n)
{
    size_t total = 0, done = 0;
    for (unsigned i = 0; i < n; i++)
        total += bufs[i].len;
    if (!conn_queued(c)) {
        int r = uv_try_write(&c->h.stream, bufs, n);
        if (r < 0 && r != UV_EAGAIN) {
            conn_close(c);
            return;
        }
        done = r > 0 ? (size_t)r : 0;
    }
    if (done < total)
        queue_rest(c, bufs, n, done, total);
}

static void tls_flush(struct conn *c)
{
    const char *data;
    size_t len = tls_to_send(c->tls, &data);
    if (!len || c->state == CONN_CLOSING)
        return;
    uv_buf_t buf = buf_of(data, len);
    raw_write(c, &buf, 1);
    tls_sent(c->tls);
}

void conn_write(struct conn *c, const uv_buf_t *bufs, unsigned n)
{
    if (c->state == CONN_CLOSING)
        return;
    if (!c->tls) {
        raw_write(c, bufs, n);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        if (tls_write(c->tls, bufs[i].base, bufs[i].len) < 0) {
            conn_close(c);
            return;
        }
    }
    tls_flush(c);
}

/* --- input */

/* Free bytes behind the input, after moving what is left of it if that helps. */
static size_t make_room(struct conn *c)
{
    if (!c->in) {
        c->in_cap = c->server->o.max_header_bytes + CONN_BODY_ROOM;
        c->in = xrealloc(NULL, c->in_cap + 1);
    }
    if (c->in_pos == c->in_len) {
        c->in_pos = c->in_len = c->in_base;
    } else if (c->in_cap - c->in_len < ROOM_MIN && c->in_pos > c->in_base) {
        memmove(c->in + c->in_base, c->in + c->in_pos, c->in_len - c->in_pos);
        c->in_len -= c->in_pos - c->in_base;
        c->in_pos = c->in_base;
    }
    return c->in_cap - c->in_len;
}

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    struct conn *c = handle->data;
    (void)hint;
    size_t room = make_room(c);
    if (c->tls)
        *buf = buf_of(c->server->tls_in, CONN_BODY_ROOM);
    else
        *buf = buf_of(c->in + c->in_len, room);
}

/* A head is timed from its first byte, a body from its last. */
static void input_came(struct conn *c, size_t n)
{
    if (c->state != CONN_HEAD || c->in_pos == c->in_len)
        c->since = uv_now(c->server->o.loop);
    c->in_len += n;
}

/* Decrypts as much as there is room for; whether anything came. */
static bool tls_pull(struct conn *c)
{
    bool any = false;
    size_t room;
    while (c->state != CONN_CLOSING && !c->eof && (room = make_room(c)) > 0) {
        ssize_t n = tls_read(c->tls, c->in + c->in_len, room);
        tls_flush(c);
        if (n == 0)
            break;
        if (n == -EPROTO)
            conn_close(c);
        else if (n < 0)
            c->eof = true;
        else
            input_came(c, (size_t)n);
        any |= n > 0;
    }
    return any;
}

static void update_reading(struct conn *c);

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (nread == 0 || c->state == CONN_CLOSING)
        return;
    if (nread == UV_ENOBUFS) {
        update_reading(c);
        return;
    }
    if (nread < 0) {
        c->eof = true;
        if (nread != UV_EOF) {
            conn_close(c);
            return;
        }
    } else if (c->tls) {
        if (tls_feed(c->tls, buf->base, (size_t)nread) < 0) {
            conn_close(c);
            return;
        }
    } else {
        input_came(c, (size_t)nread);
    }
    conn_process(c);
}

static bool wants_input(const struct conn *c)
{
    if (c->eof)
        return false;
    switch (c->state) {
    case CONN_LINGER:
        return c->linger_read && c->lingered <= c->server->o.max_discard_bytes;
    case CONN_WS:
        return ws_wants_input(c->ws);
    case CONN_CLOSING:
        return false;
    default:
        return true;
    }
}

static void update_reading(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    bool want = wants_input(c) && make_room(c) > 0;
    if (want == c->reading)
        return;
    c->reading = want;
    if (want && uv_read_start(&c->h.stream, on_alloc, on_read) < 0)
        conn_close(c);
    else if (!want)
        uv_read_stop(&c->h.stream);
}

/* --- the machine */

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

static const char *refusal(int status)
{
    return status == 505 ? "this server speaks HTTP/1.0 and HTTP/1.1" : "malformed request head";
}

static bool step_head(struct conn *c)
{
    const struct http_options *o = &c->server->o;
    size_t avail = c->in_len - c->in_pos;
    if (!avail || conn_queued(c) > o->max_write_queue)
        return false;
    ssize_t n = scan_head(&c->scan, c->in + c->in_pos, avail);
    if (n < 0) {
        conn_refuse(c, (int)-n, refusal((int)-n));
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
    c->state = CONN_BUSY;
    c->since = uv_now(o->loop);
    o->on_request(&c->req, o->data);
    return true;
}

static bool step_busy(struct conn *c)
{
    struct http_request *req = &c->req;
    if (req->answer == ANSWER_DONE) {
        if (req->body_done) {
            finish_request(c);
            return true;
        }
        if (req->close || req->discarded > c->server->o.max_discard_bytes) {
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
    bool enough = c->eof || c->lingered > c->server->o.max_discard_bytes;
    if (enough && c->shutdown_done)
        conn_close(c);
}

static bool step(struct conn *c)
{
    switch (c->state) {
    case CONN_HEAD:
        return step_head(c);
    case CONN_BUSY:
        return step_busy(c);
    case CONN_WS:
        ws_input(c);
        return c->state == CONN_LINGER;
    case CONN_LINGER:
        step_linger(c);
        return false;
    case CONN_CLOSING:
        return false;
    }
    return false;
}

void conn_process(struct conn *c)
{
    if (c->processing || c->state == CONN_CLOSING)
        return;
    do {
        if (c->tls && !c->eof)
            tls_pull(c);
        c->processing = true;
        while (step(c))
            ;
        c->processing = false;
    } while (c->tls && !c->eof && wants_input(c) && tls_pull(c));
    if (c->eof && c->state == CONN_HEAD)
        conn_linger(c, false); /* earlier answers may still be queued */
    else if (c->eof && c->state != CONN_LINGER)
        conn_close(c);
    update_reading(c);
}

void conn_advance(struct conn *c)
{
    if (!c->processing && c->state != CONN_CLOSING)
        server_kick(c->server, c);
}

void conn_start(struct conn *c)
{
    c->since = uv_now(c->server->o.loop);
    update_reading(c);
}

/* --- time */

static void tick_busy(struct conn *c, uint64_t waited)
{
    struct http_request *req = &c->req;
    bool waits = !req->body_done && !req->paused && c->in_pos == c->in_len &&
                 req->mode != BODY_UNDECIDED &&
                 (req->mode != BODY_DISCARD || req->answer == ANSWER_DONE);
    if (!waits || waited < c->server->o.body_timeout_ms)
        return;
    if (req->answer != ANSWER_NONE) {
        conn_close(c);
        return;
    }
    response_error(req, 408, "the body came too slowly");
}

void conn_tick(struct conn *c, uint64_t now)
{
    const struct http_options *o = &c->server->o;
    size_t queued = conn_queued(c);
    if (c->state == CONN_CLOSING)
        return;
    if (queued) {
        if (queued < c->write_last)
            c->write_since = now;
        c->write_last = queued;
        if (now - c->write_since >= o->write_timeout_ms) {
            log_debug("dropped a client that does not read queued=%zu", queued);
            conn_reset(c);
            return;
        }
    }
    uint64_t waited = now - c->since;
    switch (c->state) {
    case CONN_HEAD:
        if (c->in_pos < c->in_len && waited >= o->header_timeout_ms)
            conn_refuse(c, 408, "the request head came too slowly");
        else if (c->in_pos == c->in_len && waited >= o->idle_timeout_ms)
            conn_linger(c, false);
        break;
    case CONN_BUSY:
        tick_busy(c, waited);
        break;
    case CONN_WS:
        ws_tick(c->ws, now);
        break;
    case CONN_LINGER:
        if (c->shutdown_done && waited >= CONN_LINGER_MS)
            conn_close(c);
        break;
    case CONN_CLOSING:
        break;
    }
}
