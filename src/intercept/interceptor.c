/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/interceptor.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/target.h"
#include "intercept/ca.h"
#include "intercept/connection.h"
#include "secret/seal.h"

/* Where distributions keep the authorities that the host's administrator trusts. */
static const char *const authority_files[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
static const unsigned char alpn_http11[] = "\x08http/1.1";

int interceptor_load_authorities(struct interceptor *i, struct error *err)
{
    i->servers = SSL_CTX_new(TLS_client_method());
    if (!i->servers)
        return error_set(err, ERROR_INTERNAL, 0, "TLS");
    SSL_CTX_set_min_proto_version(i->servers, TLS1_2_VERSION);
    SSL_CTX_set_options(i->servers, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(i->servers, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(i->servers, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                     SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(i->servers, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(i->servers, alpn_http11, sizeof(alpn_http11) - 1) != 0)
        return error_set(err, ERROR_INTERNAL, 0, "TLS");
    for (size_t n = 0; n < ELEMENTS(authority_files); n++)
        if (SSL_CTX_load_verify_file(i->servers, authority_files[n]) == 1)
            return 0;
    ERR_clear_error();
    return error_set(err, ERROR_UNAVAILABLE, 0,
                     "this host has no certificate authorities (package ca-certificates)");
}

/* The secret exists in clear in this buffer and in the pair, and nowhere else: the buffer is
 * wiped before it is freed, also on failure. */
static int open_pair(struct interceptor *i, const uint8_t *key, const char *sealed, size_t len,
                     struct error *err)
{
    if (len <= SEAL_OVERHEAD || len > INTERCEPT_SEAL_MAX)
        return error_set(err, ERROR_INVALID, 0, "a sealed secret of %zu bytes", len);
    size_t size = len - SEAL_OVERHEAD;
    uint8_t *text = xcalloc(1, size + 1);
    int r = seal_open(key, (const uint8_t *)sealed, len, text);
    r = r < 0 ? error_set(err, ERROR_INVALID, 0, "a secret was not sealed for this warden")
              : pair_parse(&i->pairs[i->n_pairs], (char *)text, size, err);
    explicit_bzero(text, size);
    free(text);
    if (r >= 0)
        i->n_pairs++;
    return r;
}

/* Two secrets in the same header of one host: which one would be meant? */
static int check_headers(const struct interceptor *i, struct error *err)
{
    for (size_t a = 0; a < i->n_pairs; a++)
        for (size_t b = 0; b < a; b++) {
            const struct pair *x = &i->pairs[a], *y = &i->pairs[b];
            if (strcasecmp(x->header, y->header) != 0)
                continue;
            for (size_t k = 0; k < x->n_hosts * y->n_hosts; k++) {
                const struct pair_host *p = &x->hosts[k % x->n_hosts];
                const struct pair_host *q = &y->hosts[k / x->n_hosts];
                if (pair_host_covers(p, q) || pair_host_covers(q, p))
                    return error_set(err, ERROR_INVALID, 0,
                                     "two secrets are for the header '%s' of '%s'", x->header,
                                     p->name);
            }
        }
    return 0;
}

static bool has_host(const struct pair_host *hosts, size_t n, const struct pair_host *host)
{
    for (size_t i = 0; i < n; i++)
        if (pair_host_covers(&hosts[i], host))
            return true;
    return false;
}

/* Hosts whose requests are read for rules, each with a NUL behind it. Those of secrets are there
 * already. */
static int read_hosts(const char *texts, size_t len, struct pair_host *ret, size_t *n,
                      struct error *err)
{
    for (size_t at = 0, count = 0; at < len; count++) {
        const char *end = memchr(texts + at, 0, len - at);
        if (!end || count == INTERCEPT_HOSTS_MAX || pair_parse_host(texts + at, &ret[*n]) < 0)
            return error_set(err, ERROR_INVALID, 0, "a host that cannot be intercepted");
        at = (size_t)(end - texts) + 1;
        *n += !has_host(ret, *n, &ret[*n]);
    }
    return 0;
}

/* The authority is bounded to the union of both lists by name constraints, so even a leaked key
 * could impersonate no other host to this sandbox. */
static int make_authority(struct interceptor *i, const struct intercept_start *start,
                          const char *texts, size_t len, struct error *err)
{
    _cleanup_free_ struct pair_host *hosts =
        xcalloc(INTERCEPT_PAIRS_MAX * PAIR_HOSTS_MAX + INTERCEPT_HOSTS_MAX, sizeof(*hosts));
    size_t n = 0;
    for (size_t p = 0; p < i->n_pairs; p++) {
        memcpy(&hosts[n], i->pairs[p].hosts, i->pairs[p].n_hosts * sizeof(hosts[0]));
        n += i->pairs[p].n_hosts;
    }
    int r = read_hosts(texts, len, hosts, &n, err);
    if (r < 0)
        return r;
    i->ca = ca_new(start->seed, start->label, hosts, n, err);
    return i->ca ? 0 : -EIO;
}

int interceptor_open(struct interceptor *i, const struct intercept_start *start, const char *sealed,
                     size_t len, struct error *err)
{
    struct intercept_pairs head;
    int r;
    if (len < sizeof(head))
        return error_set(err, ERROR_INVALID, 0, "no secrets from the warden");
    memcpy(&head, sealed, sizeof(head));
    if (head.version != INTERCEPT_VERSION || head.n_pairs > INTERCEPT_PAIRS_MAX)
        return error_set(err, ERROR_INVALID, 0, "no secrets from the warden");
    size_t at = sizeof(head);
    for (uint32_t n = 0; n < head.n_pairs; n++) {
        if (head.sealed_len[n] > len - at)
            return error_set(err, ERROR_INVALID, 0, "a sealed secret is cut short");
        r = open_pair(i, start->content_keys[n], sealed + at, head.sealed_len[n], err);
        if (r < 0)
            return r;
        at += head.sealed_len[n];
    }
    memcpy(i->label, start->label, sizeof(i->label));
    r = check_headers(i, err);
    if (r < 0)
        return r;
    if (head.hosts_len != len - at)
        return error_set(err, ERROR_INVALID, 0, "the list of hosts is cut short");
    return make_authority(i, start, sealed + at, head.hosts_len, err);
}

/* --- serving */

/* The gateway is another process of ours, but its records begin with what a sandbox wrote. A
 * host must therefore be in the one form that target_parse_host() makes of it, or a comparison
 * with the hosts of a pair could be fooled by spelling. */
static bool record_is_good(const struct intercept_connection *c, size_t size)
{
    struct target t;
    return size >= offsetof(struct intercept_connection, rules) &&
           c->version == INTERCEPT_CONNECTION_VERSION && c->port &&
           memchr(c->host, 0, sizeof(c->host)) &&
           target_parse_host(c->host, strlen(c->host), &t) == 0 && !t.is_address &&
           strcmp(t.host, c->host) == 0;
}

static void on_gateway_ready(struct epoll_watch *w, uint32_t ready)
{
    struct interceptor *i = container_of(w, struct interceptor, gateway);
    struct intercept_connection record;
    int fds[FD_PASS_MAX];
    (void)ready;
    ssize_t n = fd_recv_msg(w->fd, &record, sizeof(record), fds);
    if (n == -EAGAIN)
        return;
    if (n == 0 || (n < 0 && n != -EMSGSIZE)) {
        i->ended = true;
        return;
    }
    if (n < 0 || fds[0] < 0 || fds[1] < 0 || !record_is_good(&record, (size_t)n))
        log_warn("interceptor dropped a malformed record sandbox=%s", i->label);
    else if (i->n_connections >= INTERCEPT_CONNECTIONS_MAX)
        log_warn("interceptor dropped a connection sandbox=%s connections=%zu", i->label,
                 i->n_connections);
    else
        connection_start(i, &record, (size_t)n,
                         &(struct connection_fds){.client = fd_steal(&fds[0]),
                                                  .server = fd_steal(&fds[1]),
                                                  .verdict = fd_steal(&fds[2]),
                                                  .rules = fds[3]});
    /* The ones that connection_start() took are -1 by now. All others are closed, so that a refused
     * connection ends for both of its sides. */
    for (size_t k = 0; k < FD_PASS_MAX; k++)
        fd_close(&fds[k]);
}

int interceptor_serve(struct interceptor *i, int sock)
{
    list_init(&i->connections);
    int r = epoll_loop_init(&i->loop);
    if (r < 0)
        return r;
    r = fd_set_nonblock(sock, true);
    if (r < 0)
        return r;
    epoll_watch_init(&i->gateway, sock, on_gateway_ready);
    r = epoll_watch_set(&i->loop, &i->gateway, EPOLLIN);
    while (r >= 0 && !i->ended)
        r = epoll_loop_once(&i->loop, -1);
    connection_end_all(i);
    return r;
}

void interceptor_done(struct interceptor *i)
{
    for (size_t n = 0; n < i->n_pairs; n++)
        pair_done(&i->pairs[n]);
    ca_free(i->ca);
    SSL_CTX_free(i->servers);
}
