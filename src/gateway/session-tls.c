/* SPDX-License-Identifier: Apache-2.0 */
/* TLS with a server, for a client that asks the proxy for a whole https:// URL.
 *
 * Such a client leaves the encryption to its proxy. Everything before stays as it is: the target
 * was decided on, resolved and dialled. Then the connection goes to a thread of its own together
 * with one end of a socket pair, and the other end takes its place: bytes, times and limits are
 * counted as before, and what one slow handshake takes no other connection waits for. The server is
 * verified against the host's certificate authorities and the name that was asked for; there is no
 * switch. A server that is not is answered for: its client gets 502 with the reason, and not a byte
 * of the request has left. */
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

#define PIECE        16384
#define STACK_BYTES  (256 * 1024)
#define SHAKE_MAX_MS 10000 /* for a handshake, however many bytes come in between */
#define ALPN_HTTP_11 "\x08http/1.1"

/* Where Debian and others, and where Red Hat and others, have the authorities. */
static const char *const authority_files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                              "/etc/pki/tls/certs/ca-bundle.crt"};

/* Threads that are there. None waits for its server once its session has ended. */
static atomic_uint n_links;

struct tls_link {
    uint32_t idle_timeout_ms;
    int remote_fd, session_fd;
    bool is_address;
    char host[TARGET_HOST_MAX + 1];
    SSL *ssl;
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

/* Waits for what TLS needs of the server, which may send a byte at a time for as long as it likes:
 * only the whole has an end. False at that end and when the session has ended. */
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

static bool write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* From the session to the server. False at the end of either. */
static bool move_up(struct tls_link *l, bool *ended)
{
    char piece[PIECE];
    ssize_t n = recv(l->session_fd, piece, sizeof(piece), 0);
    int64_t until_ms = clock_mono_ms() + l->idle_timeout_ms;
    int sent = -1;
    *ended = n == 0;
    if (n <= 0)
        return n == 0;
    do
        sent = SSL_write(l->ssl, piece, (int)n);
    while (sent <= 0 && await_server(l, sent, until_ms));
    return sent > 0;
}

static bool move_down(struct tls_link *l)
{
    char piece[PIECE];
    do {
        int n = SSL_read(l->ssl, piece, sizeof(piece));
        int error = n <= 0 ? SSL_get_error(l->ssl, n) : SSL_ERROR_NONE;
        if (n <= 0) /* a part of a record, or of an answer of TLS's own */
            return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
        if (!write_all(l->session_fd, piece, (size_t)n))
            return false;
    } while (SSL_pending(l->ssl));
    return true;
}

/* The session's end is its own to decide: a client that sends no more may still read. */
static void carry(struct tls_link *l)
{
    bool ended = false, good = true;
    while (good) {
        struct pollfd fds[] = {{l->remote_fd, POLLIN, 0}, {l->session_fd, ended ? 0 : POLLIN, 0}};
        if (poll(fds, 2, -1) < 0)
            good = errno == EINTR;
        else if (fds[1].revents & (POLLHUP | POLLERR))
            good = false;
        else if (fds[1].revents)
            good = move_up(l, &ended);
        if (good && fds[0].revents)
            good = move_down(l);
    }
}

static void *tls_main(void *data)
{
    struct tls_link *l = data;
    SSL_CTX *ctx = open_context();
    if (shake_hands(l, ctx))
        carry(l);
    SSL_free(l->ssl);
    SSL_CTX_free(ctx);
    fd_close(&l->remote_fd);
    fd_close(&l->session_fd);
    free(l);
    n_links--;
    return NULL;
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
    l->remote_fd = fcntl(s->remote_fd, F_DUPFD_CLOEXEC, 3);
    l->session_fd = pair[1];
    l->is_address = s->target.is_address;
    memcpy(l->host, s->target.host, sizeof(l->host));
    int r = l->remote_fd < 0 ? -errno : fd_set_nonblock(l->remote_fd, true);
    l->idle_timeout_ms = (uint32_t)s->gateway->idle_timeout_ms;
    session_close_remote(s);
    s->remote_fd = pair[0];
    if (r >= 0)
        r = fd_set_nonblock(s->remote_fd, true);
    if (r >= 0)
        r = session_watch(s, s->remote_fd, &s->remote_poll);
    n_links++; /* before the thread, which may end at once */
    if (r >= 0)
        r = start_thread(l);
    if (r >= 0)
        return 0;
    n_links--;
    fd_close(&l->remote_fd);
    fd_close(&l->session_fd);
    free(l);
    return r;
}
