/* SPDX-License-Identifier: Apache-2.0 */
/* The server: listeners, the set of connections, what runs them besides their own I/O, and its end.
 *
 * n_handles counts every libuv handle that points into the server; the server is freed when it was
 * closed and the last of them is gone. */
#include <errno.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/conn.h"
#include "net/tls.h"

#define ANSWER_SCRATCH_MAX (256 * 1024)
#define ACCEPT_WARN_MS     1000
#define TICK_MIN_MS        10
#define TICK_MAX_MS        1000
#define CROWD_MIN          64 /* connections at once whose memory is worth giving back */
#define CROWD_REST         4  /* fewer are no rest of a crowd any more */

struct listener {
    union conn_handle h;
    struct http_server *server;
    struct list node;
    bool is_unix;
};

void http_options_init(struct http_options *o)
{
    *o = (struct http_options){.config = {
                                   .listen_backlog = 4096,
                                   .max_connections = 1024,
                                   .body_total_ms = 6 * 3600 * 1000,
                                   .body_min_rate = 1024,
                                   .write_min_rate = 1024,
                                   .max_header_bytes = 32 * 1024,
                                   .max_discard_bytes = 1024 * 1024,
                                   .header_timeout_ms = 10 * 1000,
                                   .body_timeout_ms = 30 * 1000,
                                   .idle_timeout_ms = 75 * 1000,
                                   .write_timeout_ms = 60 * 1000,
                                   .write_total_ms = 3600 * 1000,
                                   .max_write_queue = 1024 * 1024,
                                   .max_write_total = 512 * 1024 * 1024,
                                   .ws_max_message = 16 * 1024 * 1024,
                                   .ws_ping_ms = 30 * 1000,
                               }};
}

/* --- handles */

void server_unref_handle(struct http_server *s)
{
    if (--s->n_handles || !s->closing)
        return;
    tls_context_free(s->tls);
    strbuf_done(&s->out);
    free(s->tls_in);
    fd_close(&s->spare_fd);
    admit_done(s);
    free(s);
}

static void on_own_closed(uv_handle_t *handle)
{
    server_unref_handle(handle->data);
}

static void tell_drained(struct http_server *s)
{
    if (!s->draining || s->drained_told || s->n_conns || !list_empty(&s->listeners))
        return;
    s->drained_told = true;
    if (s->on_drained)
        s->on_drained(s->drained_data);
}

/* --- running connections */

static void keep_spare(struct http_server *s)
{
    if (s->spare_fd < 0)
        s->spare_fd = eventfd(0, EFD_CLOEXEC);
}

/* Timers come before input: after a loop that stood still (the disk was busy, the machine asleep) a
 * tick would find clients silent whose requests only have not been read yet. It leaves them until
 * the next, and that one is not left out. */
static bool stood_still(struct http_server *s, uint64_t now)
{
    uint64_t since = now - s->ticked_at;
    s->ticked_at = now;
    s->tick_left_out = !s->tick_left_out && since > 2 * s->tick_ms;
    return s->tick_left_out;
}

static bool has_memory_to_give(const struct http_server *s)
{
    return s->crowded && s->n_conns <= s->n_conns_peak / 2;
}

static void stop_tick_if_idle(struct http_server *s)
{
    if (list_empty(&s->conns) && list_empty(&s->refused) && !has_memory_to_give(s) && !s->closing)
        uv_timer_stop(&s->tick);
}

static void on_tick(uv_timer_t *t)
{
    struct http_server *s = t->data;
    uint64_t now = uv_now(s->o.loop);
    if (stood_still(s, now))
        return;
    list_for_each(c, &s->conns, struct conn, node)
        conn_tick(c, now);
    list_for_each(c, &s->refused, struct conn, node)
        conn_tick(c, now);
    keep_spare(s);
    /* What a crowd of slow readers had queued lies in pieces between what still lives, so the
     * allocator keeps it. After the crowd has gone, all of it goes back to the system. */
    if (has_memory_to_give(s)) {
        /* A tick may come while the crowd is leaving: the rest of it has memory to give, too. */
        s->n_conns_peak = s->n_conns;
        s->crowded = s->n_conns >= CROWD_REST;
        malloc_trim(0);
    }
    stop_tick_if_idle(s);
}

static void start_kick(struct http_server *s);

bool server_turn_is_over(const struct http_server *s)
{
    return uv_hrtime() / 1000000 > uv_now(s->o.loop) + TURN_MS;
}

/* One at least, and each at most once, until the turn's time is over. */
static void serve_late(struct http_server *s)
{
    struct list *last = s->late.prev;
    while (!list_empty(&s->late)) {
        struct list *n = s->late.next;
        list_remove(n);
        conn_continue(container_of(n, struct conn, ready));
        if (n == last || server_turn_is_over(s))
            break;
    }
    if (!list_empty(&s->late))
        start_kick(s);
}

/* Connections that something outside conn_process() changed. An idle handle runs once a turn, so
 * two connections that wake each other cannot keep the loop from everything else. */
static void on_kick(uv_idle_t *idle)
{
    struct http_server *s = idle->data;
    struct list todo;
    uv_idle_stop(idle);
    list_init(&todo);
    while (!list_empty(&s->ready)) {
        struct list *n = s->ready.next;
        list_remove(n);
        list_append(&todo, n);
    }
    while (!list_empty(&todo)) {
        struct conn *c = container_of(todo.next, struct conn, ready);
        list_remove(&c->ready);
        conn_process(c);
    }
    serve_late(s);
    tell_drained(s);
}

static void start_kick(struct http_server *s)
{
    if (!s->closing)
        uv_idle_start(&s->kick, on_kick);
}

void server_kick(struct http_server *s, struct conn *c)
{
    if (!list_empty(&c->ready))
        return;
    list_append(&s->ready, &c->ready);
    start_kick(s);
}

void server_yield(struct http_server *s, struct conn *c)
{
    list_remove(&c->ready);
    list_append(&s->late, &c->ready);
    start_kick(s);
}

static uint64_t tick_interval(const struct http_config *o)
{
    uint64_t least = o->header_timeout_ms;
    const uint64_t others[] = {o->body_timeout_ms, o->idle_timeout_ms, o->write_timeout_ms,
                               o->write_total_ms ? o->write_total_ms : UINT64_MAX,
                               o->ws_ping_ms ? o->ws_ping_ms : UINT64_MAX};
    for (size_t i = 0; i < ELEMENTS(others); i++)
        if (others[i] < least)
            least = others[i];
    least /= 4;
    return least < TICK_MIN_MS ? TICK_MIN_MS : least > TICK_MAX_MS ? TICK_MAX_MS : least;
}

/* What every answer begins with after its status: "\r\nDate: ...\r\n" and that a browser must not
 * guess at the content's type. Made once a second. */
const char *server_date(struct http_server *s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != s->date_s) {
        struct tm tm;
        time_t t = now.tv_sec;
        gmtime_r(&t, &tm);
        strftime(s->date, sizeof(s->date),
                 "\r\nDate: %a, %d %b %Y %H:%M:%S GMT\r\nX-Content-Type-Options: nosniff\r\n", &tm);
        s->date_s = now.tv_sec;
    }
    return s->date;
}

/* --- life */

struct http_server *http_server_new(const struct http_options *o, struct error *err)
{
    struct tls_context *tls = NULL;
    const struct http_config *c = &o->config;
    if (c->tls_cert || c->tls_key) {
        if (!c->tls_cert || !c->tls_key) {
            error_set(err, ERROR_INVALID, 0, "TLS needs both a certificate and a key");
            return NULL;
        }
        tls = tls_context_new(c->tls_cert, c->tls_key, err);
        if (!tls)
            return NULL;
    }
    signal(SIGPIPE, SIG_IGN);
    struct http_server *s = new0(struct http_server);
    s->o = *o;
    s->o.config.tls_cert = s->o.config.tls_key = NULL;
    s->tls = tls;
    s->spare_fd = eventfd(0, EFD_CLOEXEC);
    if (tls)
        s->tls_in = xrealloc(NULL, CONN_BODY_ROOM);
    s->tick_ms = tick_interval(&o->config);
    admit_init(s);
    list_init(&s->conns);
    list_init(&s->listeners);
    list_init(&s->ready);
    list_init(&s->late);
    strbuf_init(&s->out, ANSWER_SCRATCH_MAX);
    uv_timer_init(o->loop, &s->tick);
    uv_idle_init(o->loop, &s->kick);
    s->tick.data = s->kick.data = s;
    s->n_handles = 2;
    return s;
}

size_t http_server_connections(const struct http_server *s)
{
    return s->n_conns;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    struct http_server *s = l->server;
    list_remove(&l->node);
    free(l);
    tell_drained(s);
    server_unref_handle(s);
}

static void close_listeners(struct http_server *s)
{
    list_for_each(l, &s->listeners, struct listener, node) {
        if (!uv_is_closing(&l->h.handle))
            uv_close(&l->h.handle, on_listener_closed);
    }
}

void http_server_drain(struct http_server *s, void (*on_drained)(void *data), void *data)
{
    s->draining = true;
    s->on_drained = on_drained;
    s->drained_data = data;
    close_listeners(s);
    list_for_each(c, &s->conns, struct conn, node) {
        if (c->state == CONN_HEAD && c->in_pos == c->in_len)
            conn_linger(c, false);
        else if (c->state == CONN_WS)
            ws_close(c->ws, 1001, "the server is going away");
        else if (c->state == CONN_TUNNEL)
            conn_close(c);
    }
    start_kick(s);
}

static void drop_conn(struct conn *c, const char *reason)
{
    if (c->state == CONN_WS)
        ws_close(c->ws, 1008, reason);
    else
        conn_close(c);
}

void http_server_drop(struct http_server *s, const char *tag, const char *reason)
{
    list_for_each(c, &s->conns, struct conn, node) {
        if (*tag && (strcmp(c->tag, tag) == 0 || strcmp(c->credential, tag) == 0))
            drop_conn(c, reason);
    }
}

void http_request_drop_others(struct http_request *req, const char *reason)
{
    list_for_each(c, &req->conn->server->conns, struct conn, node) {
        if (c != req->conn)
            drop_conn(c, reason);
    }
}

void http_server_close(struct http_server *s)
{
    if (s->closing)
        return;
    s->closing = true;
    close_listeners(s);
    list_for_each(c, &s->conns, struct conn, node)
        conn_close(c);
    list_for_each(c, &s->refused, struct conn, node)
        conn_close(c);
    uv_close((uv_handle_t *)&s->tick, on_own_closed);
    uv_close((uv_handle_t *)&s->kick, on_own_closed);
}

/* --- accepting */

void server_conn_gone(struct conn *c)
{
    struct http_server *s = c->server;
    admit_gone(c);
    stop_tick_if_idle(s);
    tell_drained(s);
}

/* Out of descriptors, most likely, and then every connection fails. */
static void warn_accept(struct http_server *s, int status)
{
    uint64_t now = uv_now(s->o.loop);
    if (s->warned_at && now - s->warned_at < ACCEPT_WARN_MS)
        return;
    s->warned_at = now;
    log_warn("cannot accept error=%s", uv_strerror(status));
}

/* libuv calls on_connection() without a pause until accept() finds no connection waiting, which it
 * cannot say without a free descriptor: give one up, close all connections that wait, and keep it
 * free for libuv's own look. The next connection or tick takes it back. */
static void turn_away(struct http_server *s, uv_stream_t *stream)
{
    uv_os_fd_t fd;
    if (s->spare_fd < 0 && !list_empty(&s->conns))
        conn_close(container_of(s->conns.prev, struct conn, node));
    fd_close(&s->spare_fd);
    if (uv_fileno((uv_handle_t *)stream, &fd) < 0)
        return;
    for (int i = 0; i < s->o.config.listen_backlog; i++) {
        _cleanup_close_ int caller = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (caller < 0)
            break;
    }
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    struct http_server *s = l->server;
    if (status < 0) {
        warn_accept(s, status);
        if (status == UV_EMFILE || status == UV_ENFILE)
            turn_away(s, stream);
        return;
    }
    keep_spare(s);
    struct conn *c = conn_new(s, l->is_unix);
    if (l->is_unix)
        uv_pipe_init(s->o.loop, &c->h.pipe, 0);
    else
        uv_tcp_init(s->o.loop, &c->h.tcp);
    c->h.handle.data = c;
    s->n_handles++;
    if (!uv_is_active((uv_handle_t *)&s->tick)) {
        s->ticked_at = uv_now(s->o.loop);
        uv_timer_start(&s->tick, on_tick, s->tick_ms, s->tick_ms);
    }
    bool accepted = uv_accept(stream, &c->h.stream) == 0;
    const char *why;
    bool admitted = admit_conn(c, &why);
    if (s->n_conns > s->n_conns_peak)
        s->n_conns_peak = s->n_conns;
    s->crowded |= s->n_conns >= CROWD_MIN;
    if (!accepted) {
        conn_close(c);
        return;
    }
    if (!l->is_unix)
        uv_tcp_nodelay(&c->h.tcp, 1);
    /* A Unix socket never leaves this machine, and its file's mode says who may connect: TLS would
     * add nothing there, and would keep out clients that speak plain HTTP over it. */
    if (s->tls && !l->is_unix)
        c->tls = tls_new(s->tls);
    if (!admitted && !c->tls)
        conn_refuse(c, 503, why);
    else
        conn_start(c); /* what TLS protects can be said after the handshake only */
}

static int open_handle(struct listener *l, uv_loop_t *loop, int fd)
{
    int r = l->is_unix ? uv_pipe_init(loop, &l->h.pipe, 0) : uv_tcp_init(loop, &l->h.tcp);
    if (r < 0)
        return r;
    l->h.handle.data = l;
    l->server->n_handles++;
    list_append(&l->server->listeners, &l->node);
    return l->is_unix ? uv_pipe_open(&l->h.pipe, fd) : uv_tcp_open(&l->h.tcp, fd);
}

int http_server_listen_fd(struct http_server *s, int fd, struct error *err)
{
    _cleanup_close_ int owned = fd;
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        return error_set(err, ERROR_INVALID, errno, "listening socket");
    struct listener *l = new0(struct listener);
    l->server = s;
    l->is_unix = addr.ss_family == AF_UNIX;
    list_init(&l->node);
    if (l->is_unix) {
        s->has_unix = true;
    } else {
        /* Data that the peer's kernel does not take for so long ends a connection, also one that we
         * do not read from just now. Accepted sockets inherit it. */
        uint64_t ms = 3 * s->o.config.ws_ping_ms;
        unsigned limit =
            (unsigned)(s->o.config.write_timeout_ms > ms ? s->o.config.write_timeout_ms : ms);
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
    }
    int r = open_handle(l, s->o.loop, fd);
    if (r == 0) {
        fd_steal(&owned);
        r = uv_listen(&l->h.stream, s->o.config.listen_backlog, on_connection);
    }
    if (r < 0) {
        uv_close(&l->h.handle, on_listener_closed);
        return error_set(err, ERROR_INTERNAL, -r, "listen");
    }
    return 0;
}
