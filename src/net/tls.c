/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL over memory BIOs: the connection moves the bytes, this file only turns them. */
#include "net/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct tls_context {
    SSL_CTX *ctx;
};

struct tls {
    SSL *ssl;
    BIO *in, *out;  /* owned by ssl */
    unsigned empty; /* records read since the last one with data */
};

/* Every record read passes here. A key update costs us much and its sender little, and OpenSSL
 * takes any number of them. */
static void on_record(int sent, int version, int type, const void *data, size_t len, SSL *ssl,
                      void *arg)
{
    struct tls *t = arg;
    (void)version;
    (void)data;
    (void)len;
    (void)ssl;
    if (!sent && type == SSL3_RT_HEADER)
        t->empty++;
}

static const unsigned char alpn_http11[] = "\x08http/1.1";

/* A client that offers only other protocols is served all the same, without ALPN: HTTP/1.1 is
 * what it gets then, and what old clients expect. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *outlen,
                   const unsigned char *in, unsigned inlen, void *arg)
{
    (void)ssl;
    (void)arg;
    unsigned char *found;
    if (SSL_select_next_proto(&found, outlen, alpn_http11, sizeof(alpn_http11) - 1, in, inlen) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

static int tls_fail(struct error *err, const char *what)
{
    char text[160] = "";
    unsigned long code = ERR_peek_last_error();
    if (code)
        ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return error_set(err, ERROR_INVALID, 0, "%s%s%s", what, code ? ": " : "", text);
}

/* The first certificate is the server's, the rest its chain. */
static int use_certificates(SSL_CTX *ctx, const char *pem, struct error *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    int r = 0;
    if (!cert || SSL_CTX_use_certificate(ctx, cert) != 1)
        r = tls_fail(err, "TLS certificate");
    X509_free(cert);
    X509 *next;
    while (!r && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
            X509_free(next);
            r = tls_fail(err, "TLS certificate chain");
        }
    }
    ERR_clear_error(); /* the end of the PEM text counts as an error */
    BIO_free(bio);
    return r;
}

static int use_key(SSL_CTX *ctx, const char *pem, struct error *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    /* With an empty passphrase an encrypted key fails to load. Without this argument OpenSSL
     * would ask for the passphrase on the terminal, and the daemon would hang at its start. */
    static char no_passphrase[] = "";
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_passphrase) : NULL;
    int r = 0;
    if (!key || SSL_CTX_use_PrivateKey(ctx, key) != 1)
        r = tls_fail(err, "TLS key");
    else if (SSL_CTX_check_private_key(ctx) != 1)
        r = tls_fail(err, "TLS key does not belong to the certificate");
    EVP_PKEY_free(key);
    BIO_free(bio);
    return r;
}

struct tls_context *tls_context_new(const char *cert_pem, const char *key_pem, struct error *err)
{
    struct tls_context *t = new0(struct tls_context);
    t->ctx = SSL_CTX_new(TLS_server_method());
    if (!t->ctx) {
        tls_fail(err, "TLS");
        goto fail;
    }
    SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS);
    /* SSL_read() returns after each record without data, so that they can be counted. */
    SSL_CTX_clear_mode(t->ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_msg_callback(t->ctx, on_record);
    SSL_CTX_set_alpn_select_cb(t->ctx, on_alpn, NULL);
    if (use_certificates(t->ctx, cert_pem, err) < 0 || use_key(t->ctx, key_pem, err) < 0)
        goto fail;
    return t;
fail:
    tls_context_free(t);
    return NULL;
}

void tls_context_free(struct tls_context *ctx)
{
    if (!ctx)
        return;
    SSL_CTX_free(ctx->ctx);
    free(ctx);
}

struct tls *tls_new(struct tls_context *ctx)
{
    struct tls *t = new0(struct tls);
    t->ssl = SSL_new(ctx->ctx);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out)
        abort();
    /* An empty input means "more comes later", not the end of the stream. */
    BIO_set_mem_eof_return(t->in, -1);
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_accept_state(t->ssl);
    SSL_set_msg_callback_arg(t->ssl, t);
    return t;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    free(t);
}

int tls_feed(struct tls *t, const char *data, size_t len)
{
    if (len > INT_MAX || BIO_write(t->in, data, (int)len) != (int)len)
        return -ENOMEM;
    return 0;
}

/* -EAGAIN is for a record that carried no data while more records wait: the caller asks again at
 * once, because no event of the socket will follow for bytes that are here already.
 * TLS_EMPTY_MAX bounds how often a peer can do that. */
ssize_t tls_read(struct tls *t, char *buf, size_t size)
{
    unsigned empty = t->empty;
    int n = SSL_read(t->ssl, buf, size > INT_MAX ? INT_MAX : (int)size);
    if (n > 0) {
        t->empty = 0;
        return n;
    }
    int e = SSL_get_error(t->ssl, n);
    ERR_clear_error();
    if (t->empty > TLS_EMPTY_MAX)
        return -EPROTO;
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
        return t->empty > empty && BIO_pending(t->in) ? -EAGAIN : 0;
    return e == SSL_ERROR_ZERO_RETURN ? -ESHUTDOWN : -EPROTO;
}

/* The output BIO grows as needed, so a write never waits; what limits it is the connection's own
 * queue (conn-io.c). */
int tls_write(struct tls *t, const char *data, size_t len)
{
    while (len) {
        int n = SSL_write(t->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
        ERR_clear_error();
        if (n <= 0)
            return -EPROTO;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

void tls_shutdown(struct tls *t)
{
    if (SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl);
    ERR_clear_error();
}

size_t tls_to_send(struct tls *t, const char **ret_data)
{
    char *data = NULL;
    long n = BIO_get_mem_data(t->out, &data);
    *ret_data = data;
    return n > 0 ? (size_t)n : 0;
}

void tls_sent(struct tls *t)
{
    (void)BIO_reset(t->out);
}
