/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kube-server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

#define PAUSE_US 300

static EVP_PKEY *make_key(void)
{
    return EVP_EC_gen("P-256");
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

static X509 *make_cert(EVP_PKEY *key, const char *name, X509 *issuer, EVP_PKEY *issuer_key)
{
    static long serial = 1;
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
    if (!issuer) {
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign");
    } else {
        add_extension(cert, issuer, NID_subject_alt_name, "IP:127.0.0.1,DNS:kube.example");
    }
    X509_sign(cert, issuer ? issuer_key : key, EVP_sha256());
    return cert;
}

static char *take_pem(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    char *text = xstrndup(data, (size_t)n);
    BIO_free(bio);
    return text;
}

static char *format_cert(X509 *cert)
{
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, cert);
    return take_pem(bio);
}

static char *format_key(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    return take_pem(bio);
}

char *server_other_ca(void)
{
    EVP_PKEY *key = make_key();
    X509 *cert = make_cert(key, "another authority", NULL, NULL);
    char *text = format_cert(cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    return text;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *outlen,
                   const unsigned char *in, unsigned inlen, void *arg)
{
    static const unsigned char offered[] = "\x02h2\x08http/1.1"; /* as an API server: h2 first */
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, outlen, offered,
                              sizeof(offered) - 1, in, inlen) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    return SSL_TLSEXT_ERR_OK;
}

static void make_context(struct server *s)
{
    EVP_PKEY *ca_key = make_key(), *key = make_key();
    X509 *ca = make_cert(ca_key, "authority", NULL, NULL);
    X509 *cert = make_cert(key, "server", ca, ca_key);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(ctx, cert);
    SSL_CTX_use_PrivateKey(ctx, key);
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca);
    s->ca = format_cert(ca);
    EVP_PKEY *client_key = make_key();
    X509 *client = make_cert(client_key, "client", ca, ca_key);
    s->cert = format_cert(client);
    s->key = format_key(client_key);
    if (s->want_client_cert)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    s->ctx = ctx;
    X509_free(client);
    EVP_PKEY_free(client_key);
    X509_free(cert);
    EVP_PKEY_free(key);
    X509_free(ca);
    EVP_PKEY_free(ca_key);
}

#define HEAD_SIZE sizeof(((struct server *)0)->last_head)

/* Up to the end of the head and of the body that it announces. Each connection has a buffer of its
 * own, because several may be read at once. */
static bool read_request(SSL *ssl, char *head)
{
    size_t len = 0, want = 0;
    while (len < HEAD_SIZE - 1) {
        int n = SSL_read(ssl, head + len, (int)(HEAD_SIZE - 1 - len));
        if (n <= 0)
            return false;
        len += (size_t)n;
        head[len] = 0;
        const char *end = strstr(head, "\r\n\r\n");
        const char *length = strcasestr(head, "\r\nContent-Length: ");
        if (end)
            want = (size_t)(end + 4 - head) +
                   (length && length < end ? strtoul(length + 18, NULL, 10) : 0);
        if (end && len >= want)
            return true;
    }
    return true; /* more than is looked at */
}

static char *find_answer(struct server *s, const char *head, size_t *ret_len)
{
    char key[25] = "";
    if (s->way == SERVER_SELF)
        return s->serve(s->data, head, ret_len);
    const char *at = strcasestr(head, "Sec-WebSocket-Key: ");
    if (at)
        snprintf(key, sizeof(key), "%.24s", at + 19);
    if (s->answer->head)
        return exchange_upgrade(s->answer, key, ret_len);
    char *copy = xcalloc(1, s->answer->len + 1);
    memcpy(copy, s->answer->bytes, s->answer->len);
    *ret_len = s->answer->len;
    return copy;
}

static void write_all(SSL *ssl, const char *data, size_t len)
{
    while (len) {
        int n = SSL_write(ssl, data, len > 16384 ? 16384 : (int)len);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

/* Whether the connection goes on. */
static bool answer_request(struct server *s, SSL *ssl, const char *head)
{
    size_t len = 0;
    memcpy(s->last_head, head, HEAD_SIZE);
    _cleanup_free_ char *bytes = find_answer(s, head, &len);
    if (!bytes)
        return false;
    enum server_way way = s->way;
    size_t cut = way == SERVER_WHOLE || way == SERVER_SELF || s->cut > len ? len : s->cut;
    bool upgraded = s->answer && s->answer->head;
    bool close_after = strstr(bytes, "\r\nConnection: close") != NULL;
    atomic_fetch_add(&s->n_requests, 1);
    write_all(ssl, bytes, cut);
    if (way == SERVER_TWO) {
        usleep(PAUSE_US);
        write_all(ssl, bytes + cut, len - cut);
    } else if (way == SERVER_CLOSED) {
        SSL_shutdown(ssl);
    } else if (way == SERVER_SILENT) {
        char rest[4096];
        while (SSL_read(ssl, rest, sizeof(rest)) > 0)
            ;
    }
    if (close_after && way != SERVER_TORN)
        SSL_shutdown(ssl);
    return !close_after && !upgraded &&
           (way == SERVER_WHOLE || way == SERVER_TWO || way == SERVER_SELF);
}

static void serve_connection(struct server *s, int fd)
{
    int one = 1;
    SSL *ssl = SSL_new(s->ctx);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    SSL_set_fd(ssl, fd);
    atomic_fetch_add(&s->n_connections, 1);
    _cleanup_free_ char *head = xcalloc(1, HEAD_SIZE);
    if (SSL_accept(ssl) > 0)
        while (!atomic_load(&s->stop) && read_request(ssl, head) && answer_request(s, ssl, head))
            ;
    SSL_free(ssl);
    shutdown(fd, SHUT_WR);
    close(fd);
}

struct served {
    struct server *server;
    int fd;
};

static void *serve_in_thread(void *data)
{
    struct served *one = data;
    serve_connection(one->server, one->fd);
    free(one);
    return NULL;
}

static void *run(void *data)
{
    struct server *s = data;
    while (!atomic_load(&s->stop)) {
        struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
        if (poll(&p, 1, 50) <= 0)
            continue;
        int fd = accept(s->listen_fd, NULL, NULL);
        if (fd < 0)
            continue;
        struct served *one = new0(struct served);
        *one = (struct served){s, fd};
        pthread_t t;
        pthread_create(&t, NULL, serve_in_thread, one);
        pthread_detach(t);
    }
    return NULL;
}

void server_start(struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    signal(SIGPIPE, SIG_IGN);
    make_context(s);
    s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s->listen_fd, 128) < 0) {
        printf("Bail out! no loopback\n");
        exit(1);
    }
    getsockname(s->listen_fd, (struct sockaddr *)&a, &len);
    s->port = ntohs(a.sin_port);
    pthread_create(&s->thread, NULL, run, s);
}

/* Connections that are open end with their clients; their threads keep what they use. */
void server_stop(struct server *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    close(s->listen_fd);
    usleep(20000);
    SSL_CTX_free(s->ctx);
    free(s->ca);
    free(s->cert);
    free(s->key);
}
