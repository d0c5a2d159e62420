/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pin.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digits.h"

#define PREFIX "sha256:"
/* Of each side's certificate: one of ours has some 300 bytes. */
#define CERTIFICATE_MAX 2048
/* Nothing looks at the times of a certificate, which has to have some. */
#define NOT_BEFORE "20240101000000Z"
#define NOT_AFTER  "20991231235959Z"

EVP_PKEY *pin_key_new(void)
{
    return EVP_EC_gen("P-256");
}

static bool pin_of_public(X509_PUBKEY *public, uint8_t ret[PIN_SIZE])
{
    unsigned char *der = NULL;
    int n = public ? i2d_X509_PUBKEY(public, &der) : -1;
    bool good = n > 0 && EVP_Digest(der, (size_t)n, ret, NULL, EVP_sha256(), NULL) == 1;
    OPENSSL_free(der);
    return good;
}

bool pin_of_key(EVP_PKEY *key, uint8_t ret[PIN_SIZE])
{
    X509_PUBKEY *public = NULL;
    bool good = X509_PUBKEY_set(&public, key) == 1 && pin_of_public(public, ret);
    X509_PUBKEY_free(public);
    return good;
}

bool pin_parse(const char *text, uint8_t ret[PIN_SIZE])
{
    uint8_t pin[PIN_SIZE];
    size_t n = strlen(PREFIX);
    if (strlen(text) != n + 2 * PIN_SIZE || memcmp(text, PREFIX, n) != 0)
        return false;
    for (size_t i = 0; i < PIN_SIZE; i++) {
        int high = hex_value_lower(text[n + 2 * i]), low = hex_value_lower(text[n + 2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        pin[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret, pin, PIN_SIZE);
    return true;
}

void pin_format(const uint8_t pin[PIN_SIZE], char ret[PIN_TEXT_SIZE])
{
    size_t at = (size_t)snprintf(ret, PIN_TEXT_SIZE, PREFIX);
    for (size_t i = 0; i < PIN_SIZE; i++, at += 2)
        snprintf(ret + at, PIN_TEXT_SIZE - at, "%02x", pin[i]);
}

static X509 *certificate_new(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
    if (cert && X509_set_version(cert, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) == 1 &&
        ASN1_TIME_set_string_X509(X509_getm_notBefore(cert), NOT_BEFORE) == 1 &&
        ASN1_TIME_set_string_X509(X509_getm_notAfter(cert), NOT_AFTER) == 1 &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"mas-sandbox",
                                   -1, -1, 0) == 1 &&
        X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1 &&
        X509_sign(cert, key, EVP_sha256()) > 0)
        return cert;
    X509_free(cert);
    return NULL;
}

/* In place of all verification of OpenSSL's: one comparison. */
static int on_certificate(X509_STORE_CTX *store, void *data)
{
    (void)data;
    uint8_t shown[PIN_SIZE];
    const X509 *cert = X509_STORE_CTX_get0_cert(store);
    /* The handshake's signature, which OpenSSL checks by itself, proves that the peer has the
     * private key of the certificate whose public key is compared here. */
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    const uint8_t *expected = ssl ? SSL_get_app_data(ssl) : NULL;
    bool good = cert && expected && pin_of_public(X509_get_X509_PUBKEY(cert), shown) &&
                CRYPTO_memcmp(shown, expected, PIN_SIZE) == 0;
    X509_STORE_CTX_set_error(store, good ? X509_V_OK : X509_V_ERR_CERT_REJECTED);
    return good;
}

static bool context_fill(SSL_CTX *ctx, EVP_PKEY *key, X509 *cert)
{
    /* Both sides show a certificate, and neither goes on without that of the other. A session that
     * is resumed would skip that, so there are none: no cache, no tickets. */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(ctx, on_certificate, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(ctx, CERTIFICATE_MAX);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           SSL_CTX_set1_groups_list(ctx, "X25519:P-256") == 1 &&
           SSL_CTX_set1_sigalgs_list(ctx, "ECDSA+SHA256") == 1 &&
           SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;
}

SSL_CTX *pin_context_new(EVP_PKEY *key, bool server)
{
    X509 *cert = certificate_new(key);
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    bool good = cert && ctx && context_fill(ctx, key, cert);
    X509_free(cert);
    if (good)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

SSL *pin_connection_new(SSL_CTX *ctx, int fd, const uint8_t expected[PIN_SIZE])
{
    SSL *ssl = SSL_new(ctx);
    if (ssl && SSL_set_app_data(ssl, (void *)(uintptr_t)expected) == 1 && SSL_set_fd(ssl, fd) == 1)
        return ssl;
    SSL_free(ssl);
    return NULL;
}
