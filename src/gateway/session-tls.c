/* SPDX-License-Identifier: Apache-2.0 */
/* TLS with a server, for a client that asks the proxy for a whole https:// URL.
 *
 * Such a client leaves the encryption to its proxy. Everything before stays as it is: the target
 * was decided on, resolved and dialled. Then the connection goes to a thread of its own together
 * with one end of a socket pair, and the other end takes its place: bytes, times and limits are
 * counted as before, and what one slow handshake takes no other connection waits for. The server is
 * verified against the host's certificate authorities and the name that was asked for; there is no
 * switch. A server that is not is answered for: its client gets 502 with the reason, and not a byte
 * of the request has left.
 *
 * Neither direction waits for the other: a server may answer before it has read the request, or
 * instead of it. A connection that ends without TLS saying so was cut, perhaps by an attacker on
 * the way. Where the answer says how long it is, its client finds that out by itself; any other
 * answer would look whole, so that the client's connection is then reset (answer-head.h). */
#include "gateway/session-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/answer-head.h"

#define PIECE        16384
#define STACK_BYTES  (256 * 1024)
#define SHAKE_MAX_MS 10000 /* for a handshake, however many bytes come in between */
#define ALPN_HTTP_11 "\x08http/1.1"

/* Where Debian and others, and where Red Hat and others, have the authorities. */
static const char *const authority_files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                              "/etc/pki/tls/certs/ca-bundle.crt"};

/* Threads that are there. None waits for its server once its session has ended. */
static atomic_uint n_links;

/* Bytes on their way in one direction: at..len are still to be written. */
struct tls_piece {
    size_t at, len;
    char data[PIECE];
};

/* The thread's, but for what is atomic. The session and the thread each have a reference. */
struct tls_link {
    atomic_uint refs;
    atomic_bool cut; /* written before session_fd is closed, so that its end finds it */
    int remote_fd, session_fd;
    bool is_address;
    char host[TARGET_HOST_MAX + 1];
    SSL *ssl;
    struct tls_piece up, down;
    struct answer_head answer;
    short remote_wants, session_wants; /* events without which nothing more can be moved */
    bool up_ended;                     /* the session sends no more, or the server reads no more */
    bool down_ended, server_cut;       /* the server sends no more, and did not say so before */
};

/* The authorities may have changed since the last connection, and this is rare. */
static SSL_CTX *open_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    bool good = false;
    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)ALPN_HTTP_11, sizeof(ALPN_HTTP_11) - 1);
    for (size_t i = 0; !good && i < ELEMENTS(authority_files); i++)
        good = SSL_CTX_load_verify_file(ctx, authority_files[i]) == 1;
    if (good)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static void tell_failure(const struct tls_link *l, const char *why)
{
    char body[400], text[700];
    int len =
        snprintf(body, sizeof(body), "mas-sandbox proxy: connect_failed: %s: %s\n", l->host, why);
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                     len, body);
    send(l->session_fd, text, (size_t)n, MSG_NOSIGNAL);
    while (recv(l->session_fd, text, sizeof(text), MSG_DONTWAIT) > 0)
        ; /* what is left unread would take the answer back */
}

/* Waits for what the handshake needs of the server, which may send a byte at a time for as long as
 * it likes: only the whole has an end. False at that end and when the session has ended. */
static bool await_server(const struct tls_link *l, int result, int64_t until_ms)
{
    int error = SSL_get_error(l->ssl, result);
    short events = error == SSL_ERROR_WANT_READ    ? POLLIN
                   : error == SSL_ERROR_WANT_WRITE ? POLLOUT
                                                   : 0;
    struct pollfd fds[] = {{l->remote_fd, events, 0}, {l->session_fd, 0, 0}};
    int64_t left = until_ms - clock_mono_ms();
    if (!events || left <= 0)
        return false;
    int n = poll(fds, 2, (int)left);
    return n < 0 ? errno == EINTR : n > 0 && !fds[1].revents;
}

static bool set_name(struct tls_link *l)
{
    if (l->is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(l->ssl), l->host) == 1;
    SSL_set_hostflags(l->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(l->ssl, l->host) == 1 && SSL_set_tlsext_host_name(l->ssl, l->host) == 1;
}

static bool shake_hands(struct tls_link *l, SSL_CTX *ctx)
{
    l->ssl = ctx ? SSL_new(ctx) : NULL;
    if (!l->ssl || !set_name(l) || SSL_set_fd(l->ssl, l->remote_fd) != 1) {
        tell_failure(l, ctx ? "TLS cannot be begun" : "this host has no certificate authorities");
        return false;
    }
    int64_t until_ms = clock_mono_ms() + SHAKE_MAX_MS;
    int n;
    do
        n = SSL_connect(l->ssl);
    while (n != 1 && await_server(l, n, until_ms));
    if (n == 1)
        return true;
    long verified = SSL_get_verify_result(l->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    tell_failure(l, verified != X509_V_OK ? X509_verify_cert_error_string(verified)
                    : reason              ? reason
                                          : "the server does not speak TLS, or not in time");
    return false;
}

/* --- moving bytes: each says whether it has moved something */

/* What a call of OpenSSL's that did not succeed means: true where it waits for the server. */
static bool server_waits(struct tls_link *l, int result)
{
    int error = SSL_get_error(l->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        l->remote_wants |= POLLIN;
    if (error == SSL_ERROR_WANT_WRITE)
        l->remote_wants |= POLLOUT;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

static bool session_receive(struct tls_link *l)
{
    if (l->up.len || l->up_ended)
        return false;
    ssize_t n = recv(l->session_fd, l->up.data, sizeof(l->up.data), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        l->session_wants |= POLLIN;
        return false;
    }
    l->up_ended = n <= 0;
    l->up.len = n > 0 ? (size_t)n : 0;
    return true;
}

/* A server that reads no more of the request may have answered it already. */
static bool server_send(struct tls_link *l)
{
    if (!l->up.len)
        return false;
    int n = SSL_write(l->ssl, l->up.data + l->up.at, (int)(l->up.len - l->up.at));
    if (n <= 0 && server_waits(l, n))
        return false;
    l->up_ended = l->up_ended || n <= 0;
    l->up.at += n > 0 ? (size_t)n : 0;
    if (l->up_ended || l->up.at == l->up.len)
        l->up.at = l->up.len = 0;
    ERR_clear_error();
    return true;
}

static bool server_receive(struct tls_link *l)
{
    if (l->down.len || l->down_ended)
        return false;
    int n = SSL_read(l->ssl, l->down.data, sizeof(l->down.data));
    if (n <= 0 && server_waits(l, n))
        return false;
    l->down_ended = n <= 0;
    l->server_cut = n <= 0 && SSL_get_error(l->ssl, n) != SSL_ERROR_ZERO_RETURN;
    l->down.len = n > 0 ? (size_t)n : 0;
    answer_head_take(&l->answer, l->down.data, l->down.len);
    ERR_clear_error();
    return true;
}

/* A session that has gone is noticed by poll(), which tells of it in any case. */
static bool session_send(struct tls_link *l)
{
    if (!l->down.len)
        return false;
    ssize_t n = send(l->session_fd, l->down.data + l->down.at, l->down.len - l->down.at,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        l->session_wants |= POLLOUT;
        return false;
    }
    l->down.at += (size_t)n;
    if (l->down.at == l->down.len)
        l->down.at = l->down.len = 0;
    return true;
}

/* False at the end of the session, which is its own to decide. */
static bool await_either(struct tls_link *l)
{
    struct pollfd fds[] = {{l->remote_wants ? l->remote_fd : -1, l->remote_wants, 0},
                           {l->session_fd, l->session_wants, 0}};
    int n = poll(fds, 2, -1);
    return n < 0 ? errno == EINTR : !(fds[1].revents & (POLLHUP | POLLERR));
}

/* A client that sends no more may still read. */
static void link_carry(struct tls_link *l)
{
    bool alive = true;
    while (alive && !(l->down_ended && !l->down.len)) {
        l->remote_wants = l->session_wants = 0;
        bool moved = session_receive(l);
        moved = server_send(l) || moved;
        moved = server_receive(l) || moved;
        moved = session_send(l) || moved;
        alive = moved || await_either(l);
    }
    if (alive && !l->answer.begun)
        tell_failure(l, "the server has ended the connection without an answer");
    else
        l->cut = l->server_cut && !answer_head_says_end(&l->answer);
}

static void link_unref(struct tls_link *l)
{
    if (l && --l->refs == 0)
        free(l);
}

static void *tls_main(void *data)
{
    struct tls_link *l = data;
    SSL_CTX *ctx = open_context();
    if (shake_hands(l, ctx))
        link_carry(l);
    answer_head_done(&l->answer);
    SSL_free(l->ssl);
    SSL_CTX_free(ctx);
    fd_close(&l->remote_fd);
    fd_close(&l->session_fd);
    link_unref(l);
    n_links--;
    return NULL;
}

/* --- the session's side */

bool session_tls_was_cut(const struct session *s)
{
    return s->tls_link && s->tls_link->cut;
}

void session_end_tls(struct session *s)
{
    link_unref(steal_ptr(s->tls_link));
}

static int start_thread(struct tls_link *l)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = -pthread_create(&thread, &attr, tls_main, l);
    pthread_attr_destroy(&attr);
    return r;
}

int session_begin_tls(struct session *s)
{
    int pair[2];
    if (n_links >= s->gateway->max_sessions)
        return -EAGAIN;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    struct tls_link *l = new0(struct tls_link);
    l->refs = 1;
    l->remote_fd = fcntl(s->remote_fd, F_DUPFD_CLOEXEC, 3);
    l->session_fd = pair[1];
    l->is_address = s->target.is_address;
    memcpy(l->host, s->target.host, sizeof(l->host));
    answer_head_init(&l->answer, s->method);
    int r = l->remote_fd < 0 ? -errno : fd_set_nonblock(l->remote_fd, true);
    session_close_remote(s);
    s->remote_fd = pair[0];
    if (r >= 0)
        r = fd_set_nonblock(s->remote_fd, true);
    epoll_watch_init(&s->remote, s->remote_fd, session_on_remote);
    n_links++; /* before the thread, which may end at once, and so is its reference */
    l->refs++;
    if (r >= 0)
        r = start_thread(l);
    s->tls_link = l;
    if (r >= 0) {
        s->down.keeps_end = true;
        return 0;
    }
    n_links--;
    fd_close(&l->remote_fd);
    fd_close(&l->session_fd);
    link_unref(l);
    return r;
}
