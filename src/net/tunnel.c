/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that carries what is not ours to understand: after a WebSocket handshake that a
 * server behind us has answered, bytes go to and from the handler as they are. The end of the
 * client's side ends the connection once the handler has taken what came before it. */
#include <stdlib.h>

#include "base/alloc.h"
#include "net/conn.h"

#define TUNNEL_PROBE_S                                                                             \
    60 /* of silence, after which the kernel looks whether the client is there                     \
        */

struct http_tunnel {
    struct conn *conn;
    struct http_tunnel_handlers handlers;
    void *data;
    bool paused, want_drain;
};

void *http_tunnel_data(const struct http_tunnel *t)
{
    return t->data;
}

static bool is_alive(const struct http_tunnel *t)
{
    return t->conn->state == CONN_TUNNEL;
}

bool tunnel_input(struct conn *c)
{
    struct http_tunnel *t = c->tunnel;
    size_t len = c->in_len - c->in_pos;
    /* A client that sends without pause gets its turn again in the next round of the loop, after
     * the others. */
    if (!len || t->paused || conn_turn_over(c))
        return false;
    const char *data = c->in + c->in_pos;
    c->turn_steps++;
    c->in_pos = c->in_len;
    t->handlers.on_data(t, data, len);
    return true;
}

bool tunnel_holds_input(const struct conn *c)
{
    return c->state == CONN_TUNNEL && c->in_pos < c->in_len;
}

void tunnel_drained(struct conn *c)
{
    struct http_tunnel *t = c->tunnel;
    if (!t->want_drain)
        return;
    t->want_drain = false;
    t->handlers.on_drain(t);
}

void tunnel_gone(struct http_tunnel *t)
{
    t->handlers.on_close(t);
    free(t);
}

bool http_tunnel_write(struct http_tunnel *t, const char *data, size_t len)
{
    uv_buf_t buf = buf_of(data, len);
    if (!is_alive(t) || !len)
        return true;
    conn_write(t->conn, &buf, 1);
    t->want_drain = is_alive(t) && conn_queued(t->conn) > t->conn->server->o.config.max_write_queue;
    return !t->want_drain;
}

void http_tunnel_pause(struct http_tunnel *t)
{
    t->paused = true;
}

void http_tunnel_resume(struct http_tunnel *t)
{
    t->paused = false;
    conn_advance(t->conn);
}

void http_tunnel_end(struct http_tunnel *t)
{
    if (is_alive(t))
        conn_linger(t->conn, true);
}

struct http_tunnel *http_upgrade_tunnel(struct http_request *req, const char *subprotocol,
                                        const struct http_tunnel_handlers *handlers, void *data)
{
    struct conn *c = req->conn;
    if (ws_accept(req, subprotocol) < 0)
        return NULL;
    struct http_tunnel *t = new0(struct http_tunnel);
    t->conn = c;
    t->handlers = *handlers;
    t->data = data;
    c->tunnel = t;
    c->state = CONN_TUNNEL;
    /* The head of the handshake lies below in_base and is not needed any more. Bytes that came
     * behind it are the tunnel's first ones: conn_advance() below hands them over. */
    c->in_base = 0;
    if (!c->is_unix)
        uv_tcp_keepalive(&c->h.tcp, 1, TUNNEL_PROBE_S);
    conn_advance(c);
    return t;
}
