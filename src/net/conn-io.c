/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a connection: reading into its input buffer and writing, plain or through TLS.
 *
 * Reading stops when the input buffer is full or the state has no use for input, and that is all
 * the backpressure there is. A write is tried at once; what the socket does not take is copied and
 * queued in libuv, whose queue length is what max_write_queue is compared with. The copies of all
 * connections are counted, and admit.c bounds their sum. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "net/conn.h"
#include "net/tls.h"

#define ROOM_MIN  4096  /* compact the input when less is free behind it */
#define TLS_PIECE 65536 /* of an answer is encrypted before it is written */

struct write {
    uv_write_t req;
    size_t len;
    char data[];
};

/* --- output */

size_t conn_queued(const struct conn *c)
{
    return uv_stream_get_write_queue_size(&c->h.stream);
}

/* A connection that closes gives all of its bytes back at once, before libuv ends its writes. */
void conn_let_go(struct conn *c, size_t len)
{
    size_t n = len < c->kept ? len : c->kept;
    c->kept -= n;
    c->server->kept -= n;
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = req->handle->data;
    struct write *w = container_of(req, struct write, req);
    conn_let_go(c, w->len);
    free(w);
    if (c->state == CONN_CLOSING)
        return;
    if (status < 0) {
        conn_close(c);
        return;
    }
    c->write_since = uv_now(c->server->o.loop);
    c->write_last = conn_queued(c);
    if (!c->write_last)
        conn_drained(c);
}

/* The clocks for slow readers (reader_is_late) start with the first byte that has to wait, not with
 * the connection: a client that takes everything at once is never timed. */
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
        c->write_since = c->write_began = uv_now(c->server->o.loop);
        c->write_last = at;
        c->write_in = 0;
    }
    c->write_in += at;
    w->len = at;
    uv_buf_t buf = buf_of(w->data, at);
    if (uv_write(&w->req, &c->h.stream, &buf, 1, on_written) < 0) {
        free(w);
        conn_close(c);
        return;
    }
    c->kept += at;
    c->server->kept += at;
}

/* Most answers fit into the socket's buffer and are gone with one call, without a copy. With bytes
 * queued already there is no try: they must not be overtaken. */
static void raw_write(struct conn *c, const uv_buf_t *bufs, unsigned n)
{
    size_t total = 0, done = 0;
    for (unsigned i = 0; i < n; i++)
        total += bufs[i].len;
    c->sent += total;
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

void conn_flush_tls(struct conn *c)
{
    const char *data;
    size_t len = tls_to_send(c->tls, &data);
    if (!len || c->state == CONN_CLOSING)
        return;
    uv_buf_t buf = buf_of(data, len);
    raw_write(c, &buf, 1);
    tls_sent(c->tls);
}

/* OpenSSL keeps the buffer that it encrypts into as long as the connection, and clears all of it
 * each time: it must not grow to the size of the largest answer. */
static void encrypt_write(struct conn *c, const char *data, size_t len)
{
    const char *encrypted;
    while (len && c->state != CONN_CLOSING) {
        size_t n = len < TLS_PIECE ? len : TLS_PIECE;
        if (tls_write(c->tls, data, n) < 0)
            conn_close(c);
        else if (tls_to_send(c->tls, &encrypted) >= TLS_PIECE)
            conn_flush_tls(c);
        data += n;
        len -= n;
    }
}

void conn_write(struct conn *c, const uv_buf_t *bufs, unsigned n)
{
    if (c->state == CONN_CLOSING)
        return;
    if (c->tls) {
        for (unsigned i = 0; i < n; i++)
            encrypt_write(c, bufs[i].base, bufs[i].len);
        conn_flush_tls(c);
    } else {
        raw_write(c, bufs, n);
    }
    admit_relieve(c->server);
}

/* --- input */

/* Free bytes behind the input, after moving what is left of it if that helps. */
static size_t make_room(struct conn *c)
{
    if (!c->in) {
        c->in_cap = c->server->o.config.max_header_bytes + CONN_BODY_ROOM;
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

/* TLS reads into a buffer that all connections share, because its bytes are taken over at once. */
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

/* A head is timed from its first byte, a body from its last, lingering from its start. */
static void input_came(struct conn *c, size_t n)
{
    if (c->state == CONN_BUSY || (c->state == CONN_HEAD && c->in_pos == c->in_len))
        c->since = uv_now(c->server->o.loop);
    else if (c->state == CONN_WS)
        ws_heard(c->ws);
    c->in_len += n;
}

/* Decrypts as much as there is room for; whether anything came. */
bool conn_pull_tls(struct conn *c)
{
    bool any = false;
    size_t room;
    while (c->state != CONN_CLOSING && !c->eof && !c->yielded && (room = make_room(c)) > 0) {
        ssize_t n = tls_read(c->tls, c->in + c->in_len, room);
        conn_flush_tls(c);
        if (n == -EAGAIN) {
            c->turn_steps++;
            conn_turn_over(c);
            continue;
        }
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

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (nread == 0 || c->state == CONN_CLOSING)
        return;
    if (nread == UV_ENOBUFS) {
        conn_update_reading(c);
        return;
    }
    conn_begin_turn(c);
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
    c->turn_bytes += nread > 0 ? (size_t)nread : 0;
    conn_process(c);
}

/* Called after everything that may change whether input is wanted; this is the one place that
 * starts and stops reading. */
void conn_update_reading(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    bool want = conn_wants_input(c) && make_room(c) > 0;
    if (want == c->reading)
        return;
    c->reading = want;
    if (want && uv_read_start(&c->h.stream, on_alloc, on_read) < 0)
        conn_close(c);
    else if (!want)
        uv_read_stop(&c->h.stream);
}
