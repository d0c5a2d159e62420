/* SPDX-License-Identifier: Apache-2.0 */
/* A connection is one function, connection_step(), that moves whatever can be moved until nothing
 * can: handshakes on both sides, the request's head and body up, the answer down. Each part says
 * what its side waits for; buffers have limits, so that a slow side holds the other back. */
#include "intercept/connection.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "intercept/ca.h"
#include "intercept/decide.h"
#include "intercept/head.h"
#include "net/chunk.h"

#define PIECE      16384 /* bytes that are moved at a time; a TLS record */
#define QUEUE_FULL 65536 /* bytes that wait for one side before the other is not read any more */
#define QUEUE_MAX  (QUEUE_FULL + 4 * PIECE)
#define REQUEST_US (30 * 1000000ULL) /* for handshakes and the request's head */
#define LINGER_US  (5 * 1000000ULL)  /* for the client to read the end of its answer */
#define STEP_MOVES 64 /* in one turn, so that one connection does not hold up the others */

struct side {
    SSL *ssl;
    struct epoll_watch watch;
    bool ready; /* the handshake is done */
    bool eof;   /* nothing more will come */
    bool cut;   /* and it did not say so before it went */
    bool want_in, want_out;
};

struct connection {
    struct list node;
    struct interceptor *owner;
    struct side client, server;
    struct epoll_timer timer;
    char host[TARGET_HOST_MAX + 1];
    uint16_t port;
    struct strbuf in;          /* from the client, not looked at yet */
    struct strbuf up;          /* to the server */
    struct strbuf answer;      /* the answer's head, until it is whole */
    struct strbuf down;        /* to the client */
    bool head_done, body_done; /* of the request */
    bool answer_done;          /* the head of the final answer went down */
    bool refused;              /* the answer is our own */
    bool lingers;              /* all is said: waits for the client to go */
    bool broken;
    struct head_request request;
    struct decider decider;
    uint64_t body_left;
    struct chunk_decoder chunks;
};

/* Any of these buffers may hold a secret in clear, so all of what was allocated is wiped, also the
 * bytes behind its end that an earlier content has left. */
static void buffer_wipe(struct strbuf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->alloc);
    strbuf_done(b);
}

static void side_close(struct connection *c, struct side *s)
{
    SSL_free(s->ssl);
    s->ssl = NULL;
    s->ready = false;
    epoll_watch_close(&c->owner->loop, &s->watch);
}

static void connection_free(struct connection *c)
{
    epoll_timer_clear(&c->timer);
    side_close(c, &c->client);
    side_close(c, &c->server);
    buffer_wipe(&c->in);
    buffer_wipe(&c->up);
    buffer_wipe(&c->answer);
    buffer_wipe(&c->down);
    decider_done(&c->decider);
    list_remove(&c->node);
    c->owner->n_connections--;
    free(c);
}

/* --- one side */

/* What a call of OpenSSL's that did not succeed means. True where it waits. */
static bool side_waits(struct side *s, int result)
{
    int error = SSL_get_error(s->ssl, result);
    s->want_in = s->want_in || error == SSL_ERROR_WANT_READ;
    s->want_out = s->want_out || error == SSL_ERROR_WANT_WRITE;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

/* Appends up to a piece to b. True where something came. */
static bool side_read(struct side *s, struct strbuf *b)
{
    if (s->eof || strbuf_reserve(b, PIECE) < 0)
        return false;
    int n = SSL_read(s->ssl, b->data + b->len, PIECE);
    if (n > 0) {
        strbuf_commit(b, (size_t)n);
        return true;
    }
    int error = SSL_get_error(s->ssl, n);
    if (side_waits(s, n))
        return false;
    s->eof = true;
    s->cut = error != SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    return true;
}

/* Writes up to a piece of b. True where something went; *failed is set where nothing ever will. */
static bool side_write(struct side *s, struct strbuf *b, bool *failed)
{
    if (!s->ready || b->len == 0)
        return false;
    int n = SSL_write(s->ssl, b->data, (int)(b->len < PIECE ? b->len : PIECE));
    if (n > 0) {
        strbuf_consume(b, (size_t)n);
        return true;
    }
    *failed = !side_waits(s, n);
    ERR_clear_error();
    return false;
}

/* --- refusals */

static const char *reason_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 405:
        return "Method Not Allowed";
    case 421:
        return "Misdirected Request";
    case 431:
        return "Request Header Fields Too Large";
    case 501:
        return "Not Implemented";
    case 502:
        return "Bad Gateway";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Refused";
    }
}

/* Once the answer has begun there is no other way to say it than to cut it. */
static void connection_refuse(struct connection *c, int status, const char *why)
{
    char body[400];
    log_info("interceptor refused sandbox=%s host=%s port=%u status=%d why=\"%s\"", c->owner->label,
             c->host, c->port, status, why);
    if (c->answer_done || c->refused) {
        c->broken = true;
        return;
    }
    int len = snprintf(body, sizeof(body), "mas-sandbox interceptor: %s\n", why);
    strbuf_printf(&c->down,
                  "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                  "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                  status, reason_of(status), len, body);
    c->refused = true;
    side_close(c, &c->server);
}

/* --- handshakes */

static bool client_shake(struct connection *c)
{
    struct side *s = &c->client;
    if (s->ready)
        return false;
    int r = SSL_accept(s->ssl);
    if (r == 1) {
        s->ready = true;
        return true;
    }
    if (!side_waits(s, r)) {
        log_info("interceptor: no TLS with the client sandbox=%s host=%s: %s", c->owner->label,
                 c->host, ERR_reason_error_string(ERR_peek_last_error()));
        c->broken = true;
        ERR_clear_error();
    }
    return false;
}

static bool server_shake(struct connection *c)
{
    struct side *s = &c->server;
    char why[200];
    if (s->ready || !s->ssl)
        return false;
    int r = SSL_connect(s->ssl);
    if (r == 1) {
        s->ready = true;
        return true;
    }
    if (side_waits(s, r))
        return false;
    long verified = SSL_get_verify_result(s->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (verified != X509_V_OK)
        snprintf(why, sizeof(why), "the certificate of %s is not valid: %s", c->host,
                 X509_verify_cert_error_string(verified));
    else
        snprintf(why, sizeof(why), "no TLS with %s: %s", c->host,
                 reason ? reason : "the connection ended");
    ERR_clear_error();
    connection_refuse(c, 502, why);
    return true;
}

/* --- the request */

static void take_head(struct connection *c)
{
    const struct head_place place = {
        .host = c->host, .port = c->port, .pairs = c->owner->pairs, .n_pairs = c->owner->n_pairs};
    const char *why;
    size_t len = http_head_length(c->in.data, c->in.len);
    if (!len && c->in.len >= HTTP_HEAD_MAX) {
        connection_refuse(c, 431, "the head of a request has at most 16384 bytes");
        return;
    }
    if (!len)
        return;
    int status = len > HTTP_HEAD_MAX
                     ? 431
                     : head_rewrite_request(c->in.data, len, &place, &c->request, &c->up, &why);
    if (len > HTTP_HEAD_MAX)
        why = "the head is too large";
    if (!status && (why = decider_check(&c->decider, &c->request)))
        status = 403;
    if (status) {
        buffer_wipe(&c->up); /* nothing of it has left */
        connection_refuse(c, status, why);
        return;
    }
    strbuf_consume(&c->in, len);
    c->head_done = true;
    c->body_left = c->request.body_bytes;
    c->body_done =
        c->request.body == BODY_NONE || (c->request.body == BODY_LENGTH && c->body_left == 0);
    epoll_timer_clear(&c->timer);
}

static void take_length(struct connection *c)
{
    size_t n = c->in.len < c->body_left ? c->in.len : (size_t)c->body_left;
    strbuf_append(&c->up, c->in.data, n);
    strbuf_consume(&c->in, n);
    c->body_left -= n;
    c->body_done = c->body_left == 0;
}

/* Chunks are read and written anew, without what a sender may add to their sizes or after them. */
static void take_chunks(struct connection *c)
{
    while (c->in.len && !c->chunks.done && c->up.len < QUEUE_FULL) {
        const char *piece;
        size_t len;
        ssize_t used = chunk_decode(&c->chunks, c->in.data, c->in.len, &piece, &len);
        if (used < 0) {
            connection_refuse(c, 400, "a chunk of the body is malformed");
            return;
        }
        if (len) {
            strbuf_printf(&c->up, "%zx\r\n", len);
            strbuf_append(&c->up, piece, len);
            strbuf_append(&c->up, "\r\n", 2);
        }
        strbuf_consume(&c->in, (size_t)used);
    }
    if (c->chunks.done && !c->body_done) {
        strbuf_puts(&c->up, "0\r\n\r\n");
        c->body_done = true;
    }
}

/* A server that reads no more of the request may have answered it already. */
static bool request_write(struct connection *c)
{
    bool deaf = false, moved = side_write(&c->server, &c->up, &deaf);
    if (deaf) {
        strbuf_reset(&c->up);
        c->body_done = true;
    }
    return moved || deaf;
}

static bool request_move(struct connection *c)
{
    if (!c->client.ready || c->refused || c->body_done || c->up.len >= QUEUE_FULL)
        return false;
    bool room = c->head_done ? c->in.len == 0 : c->in.len < HTTP_HEAD_MAX;
    bool moved = room && side_read(&c->client, &c->in);
    size_t before = c->in.len;
    if (!c->head_done && c->in.len)
        take_head(c);
    if (c->head_done && !c->body_done && c->in.len) {
        if (c->request.body == BODY_LENGTH)
            take_length(c);
        else
            take_chunks(c);
    }
    if (c->client.eof && !c->body_done && !c->refused && c->in.len == before)
        c->broken = true; /* it left in the middle: no answer can reach it */
    return moved || c->in.len != before;
}

/* --- the answer */

static void take_answer_head(struct connection *c)
{
    for (;;) {
        const char *why;
        int answered = 0;
        size_t len = http_head_length(c->answer.data, c->answer.len);
        if (!len && c->answer.len >= ANSWER_HEAD_MAX) {
            connection_refuse(c, 502, "the head of the answer is too large");
            return;
        }
        if (!len)
            return;
        struct strbuf head = STRBUF_INIT(QUEUE_MAX);
        int status = head_rewrite_answer(c->answer.data, len, &answered, &head, &why);
        if (status)
            connection_refuse(c, status, why);
        else
            strbuf_append(&c->down, head.data, head.len);
        strbuf_done(&head);
        if (status)
            return;
        strbuf_consume(&c->answer, len);
        if (answered < 200)
            continue;
        c->answer_done = true;
        strbuf_append(&c->down, c->answer.data, c->answer.len);
        strbuf_done(&c->answer);
        return;
    }
}

static bool answer_move(struct connection *c)
{
    if (!c->server.ready || c->refused || c->server.eof || c->down.len >= QUEUE_FULL)
        return false;
    if (c->answer_done)
        return side_read(&c->server, &c->down);
    bool moved = side_read(&c->server, &c->answer);
    if (moved && c->answer.len)
        take_answer_head(c);
    if (c->server.eof && !c->answer_done && !c->refused)
        connection_refuse(c, 502, "the server ended the connection without an answer");
    return moved;
}

/* --- the end */

/* All has been said, one way or the other. An answer that the server cut is cut for the client. */
static bool has_said_all(const struct connection *c)
{
    return c->down.len == 0 && (c->refused || (c->answer_done && c->server.eof));
}

/* A socket that is closed over unread bytes may take its answer back, so that what still comes is
 * read and dropped until the client ends, or for some seconds. */
static void connection_linger(struct connection *c)
{
    if (c->refused || !c->server.cut)
        SSL_shutdown(c->client.ssl);
    ERR_clear_error();
    c->lingers = true;
    side_close(c, &c->server);
    shutdown(c->client.watch.fd, SHUT_WR);
    epoll_timer_set_us(&c->owner->loop, &c->timer, LINGER_US);
}

static void side_watch(struct connection *c, struct side *s)
{
    uint32_t events = (s->want_in ? EPOLLIN : 0u) | (s->want_out ? EPOLLOUT : 0u);
    if (s == &c->client)
        events |= EPOLLPRI; /* never comes, but the end of the client does with any */
    if (s->ssl && epoll_watch_set(&c->owner->loop, &s->watch, events) < 0)
        c->broken = true;
}

static void connection_step(struct connection *c)
{
    bool moved = true;
    c->client.want_in = c->client.want_out = c->server.want_in = c->server.want_out = false;
    for (int i = 0; moved && !c->broken && !c->lingers; i++) {
        moved = client_shake(c);
        moved = server_shake(c) || moved;
        moved = request_move(c) || moved;
        moved = request_write(c) || moved;
        moved = answer_move(c) || moved;
        moved = side_write(&c->client, &c->down, &c->broken) || moved;
        if (!c->broken && has_said_all(c))
            connection_linger(c);
        if (i == STEP_MOVES) { /* goes on in the next turn, which a writable socket brings */
            c->client.want_out = true;
            break;
        }
    }
    if (c->lingers && !c->broken) {
        char dropped[4096];
        ssize_t n = recv(c->client.watch.fd, dropped, sizeof(dropped), MSG_DONTWAIT);
        c->broken = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        c->client.want_in = true;
    }
    side_watch(c, &c->client);
    side_watch(c, &c->server);
    if (c->broken)
        connection_free(c);
}

static void on_client_ready(struct epoll_watch *w, uint32_t ready)
{
    struct connection *c = container_of(w, struct connection, client.watch);
    if (ready & (EPOLLHUP | EPOLLERR))
        connection_free(c); /* no answer can reach the client any more */
    else
        connection_step(c);
}

static void on_server_ready(struct epoll_watch *w, uint32_t ready)
{
    (void)ready;
    connection_step(container_of(w, struct connection, server.watch));
}

static void on_timeout(struct epoll_timer *t)
{
    connection_free(container_of(t, struct connection, timer));
}

/* --- the beginning */

/* A name in TLS that is not the connection's would be another host behind the decision. */
static int on_server_name(SSL *ssl, int *alert, void *arg)
{
    const struct connection *c = SSL_get_app_data(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    (void)arg;
    if (!name || strcasecmp(name, c->host) == 0)
        return SSL_TLSEXT_ERR_OK;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int side_open(struct side *s, SSL_CTX *ctx, int fd)
{
    s->ssl = ctx ? SSL_new(ctx) : NULL;
    if (!s->ssl || SSL_set_fd(s->ssl, fd) != 1)
        return -EIO;
    return fd_set_nonblock(fd, true);
}

static int open_sides(struct connection *c)
{
    SSL_CTX *ctx = ca_find_context(c->owner->ca, c->host);
    int r = side_open(&c->client, ctx, c->client.watch.fd);
    if (r < 0)
        return r;
    r = side_open(&c->server, c->owner->servers, c->server.watch.fd);
    if (r < 0)
        return r;
    SSL_CTX_set_tlsext_servername_callback(ctx, on_server_name);
    SSL_set_app_data(c->client.ssl, c);
    SSL_set_hostflags(c->server.ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(c->server.ssl, c->host) != 1 ||
        SSL_set_tlsext_host_name(c->server.ssl, c->host) != 1)
        return -EIO;
    return 0;
}

void connection_start(struct interceptor *i, const struct intercept_connection *record, size_t size,
                      const struct connection_fds *fds)
{
    struct connection *c = new0(struct connection);
    c->owner = i;
    c->port = record->port;
    snprintf(c->host, sizeof(c->host), "%s", record->host);
    strbuf_init(&c->in, HTTP_HEAD_MAX + PIECE);
    strbuf_init(&c->up, QUEUE_MAX);
    strbuf_init(&c->answer, ANSWER_HEAD_MAX + PIECE);
    strbuf_init(&c->down, QUEUE_MAX);
    epoll_watch_init(&c->client.watch, fds->client, on_client_ready);
    epoll_watch_init(&c->server.watch, fds->server, on_server_ready);
    epoll_timer_init(&c->timer, on_timeout);
    list_append(&i->connections, &c->node);
    i->n_connections++;
    epoll_timer_set_us(&i->loop, &c->timer, REQUEST_US);
    if (decider_init(&c->decider, record, size, fds->rules, fds->verdict) < 0 ||
        open_sides(c) < 0) {
        log_warn("interceptor: no TLS for a connection sandbox=%s host=%s", i->label, c->host);
        connection_free(c);
        return;
    }
    connection_step(c);
}

void connection_end_all(struct interceptor *i)
{
    list_for_each_safe(c, &i->connections, struct connection, node)
        connection_free(c);
}
