/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/ca.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "secret/pair.h"

#define CURVE           "prime256v1"
#define POINT_SIZE      65
#define CONTEXTS_MAX    32 /* hosts whose certificates are kept */
#define LEAF_DAYS       7
#define LEAF_RENEW_S    (24 * 3600)
#define CONSTRAINTS_MAX 16384
#define COMMON_NAME_MAX 64
/* The authority is as old and as young as its sandbox, whatever the clocks say. */
#define CA_NOT_BEFORE "20240101000000Z"
#define CA_NOT_AFTER  "20491231235959Z"

struct leaf {
    char *host;
    SSL_CTX *context;
    time_t made;
};

struct ca {
    EVP_PKEY *key, *leaf_key;
    X509 *certificate;
    struct leaf leaves[CONTEXTS_MAX];
    size_t n_leaves;
};

/* --- the key */

/* A number from 1 to the curve's order - 1; the seed is so long that all are equally likely. */
static BIGNUM *scalar_of(const EC_GROUP *group, const uint8_t seed[INTERCEPT_SEED_SIZE])
{
    BN_CTX *ctx = BN_CTX_new();
    BIGNUM *order = BN_new(), *k = BN_bin2bn(seed, INTERCEPT_SEED_SIZE, NULL);
    bool good = ctx && order && k && EC_GROUP_get_order(group, order, ctx) == 1 &&
                BN_sub_word(order, 1) == 1 && BN_mod(k, k, order, ctx) == 1 &&
                BN_add_word(k, 1) == 1;
    BN_free(order);
    BN_CTX_free(ctx);
    if (good)
        return k;
    BN_clear_free(k);
    return NULL;
}

static bool point_of(const EC_GROUP *group, const BIGNUM *k, uint8_t ret[POINT_SIZE])
{
    EC_POINT *point = EC_POINT_new(group);
    bool good = point && EC_POINT_mul(group, point, k, NULL, NULL, NULL) == 1 &&
                EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, ret, POINT_SIZE,
                                   NULL) == POINT_SIZE;
    EC_POINT_free(point);
    return good;
}

static EVP_PKEY *key_of_parts(const BIGNUM *k, const uint8_t point[POINT_SIZE])
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params = NULL;
    if (parts && OSSL_PARAM_BLD_push_utf8_string(parts, OSSL_PKEY_PARAM_GROUP_NAME, CURVE, 0) &&
        OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_PRIV_KEY, k) &&
        OSSL_PARAM_BLD_push_octet_string(parts, OSSL_PKEY_PARAM_PUB_KEY, point, POINT_SIZE))
        params = OSSL_PARAM_BLD_to_param(parts);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    if (params && ctx && EVP_PKEY_fromdata_init(ctx) == 1)
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(parts);
    return key;
}

static EVP_PKEY *key_of_seed(const uint8_t seed[INTERCEPT_SEED_SIZE])
{
    EVP_PKEY *key = NULL;
    uint8_t point[POINT_SIZE];
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    BIGNUM *k = group ? scalar_of(group, seed) : NULL;
    if (k && point_of(group, k, point))
        key = key_of_parts(k, point);
    BN_clear_free(k);
    EC_GROUP_free(group);
    return key;
}

/* --- certificates */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&ctx);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool good = ext && X509_add_ext(cert, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return good;
}

static bool set_name(X509_NAME *name, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)text, -1, -1,
                                      0) == 1;
}

static bool set_serial(X509 *cert)
{
    uint64_t number;
    return RAND_bytes((unsigned char *)&number, sizeof(number)) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), number | 1) == 1;
}

/* Names below these hosts, and no address at all: without the exclusions every address would do. A
 * host of ours stands for the names below it, too, which is how constraints are meant. */
static char *format_constraints(const struct pair_host *hosts, size_t n)
{
    struct strbuf b = STRBUF_INIT(CONSTRAINTS_MAX);
    strbuf_puts(&b,
                "critical,excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0");
    if (n == 0)
        strbuf_puts(&b, ",permitted;DNS:none.invalid");
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&b, ",permitted;DNS:%s", hosts[i].name);
    return strbuf_steal(&b);
}

static bool fill_authority(X509 *cert, EVP_PKEY *key, const char *label,
                           const struct pair_host *hosts, size_t n)
{
    char name[COMMON_NAME_MAX + 1];
    _cleanup_free_ char *constraints = format_constraints(hosts, n);
    snprintf(name, sizeof(name), "mas-sandbox %.40s", label);
    X509_set_version(cert, X509_VERSION_3);
    return set_serial(cert) && set_name(X509_get_subject_name(cert), name) &&
           X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
           ASN1_TIME_set_string(X509_getm_notBefore(cert), CA_NOT_BEFORE) == 1 &&
           ASN1_TIME_set_string(X509_getm_notAfter(cert), CA_NOT_AFTER) == 1 &&
           X509_set_pubkey(cert, key) == 1 &&
           add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
           add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
           add_extension(cert, cert, NID_name_constraints, constraints) &&
           X509_sign(cert, key, EVP_sha256()) > 0;
}

static bool fill_leaf(X509 *cert, const struct ca *ca, const char *host)
{
    /* Without a subject, the name must be said to be critical. */
    bool named = strlen(host) <= COMMON_NAME_MAX;
    _cleanup_free_ char *san = xasprintf("%sDNS:%s", named ? "" : "critical,", host);
    X509_set_version(cert, X509_VERSION_3);
    if (named && !set_name(X509_get_subject_name(cert), host))
        return false;
    return set_serial(cert) &&
           X509_set_issuer_name(cert, X509_get_subject_name(ca->certificate)) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -LEAF_RENEW_S) &&
           X509_gmtime_adj(X509_getm_notAfter(cert), LEAF_DAYS * LEAF_RENEW_S) &&
           X509_set_pubkey(cert, ca->leaf_key) == 1 &&
           add_extension(cert, ca->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(cert, ca->certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(cert, ca->certificate, NID_ext_key_usage, "serverAuth") &&
           add_extension(cert, ca->certificate, NID_subject_key_identifier, "hash") &&
           add_extension(cert, ca->certificate, NID_authority_key_identifier, "keyid:always") &&
           add_extension(cert, ca->certificate, NID_subject_alt_name, san) &&
           X509_sign(cert, ca->key, EVP_sha256()) > 0;
}

/* --- contexts */

static const unsigned char alpn_http11[] = "\x08http/1.1";

/* A client that speaks HTTP/2 alone, as gRPC's do, learns from TLS that this server does not. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
    unsigned char *found;
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&found, out_len, alpn_http11, sizeof(alpn_http11) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_context(const struct ca *ca, const char *host)
{
    X509 *cert = X509_new();
    SSL_CTX *ctx = cert && fill_leaf(cert, ca, host) ? SSL_CTX_new(TLS_server_method()) : NULL;
    if (ctx) {
        SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        SSL_CTX_set_options(ctx,
                            SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    }
    if (ctx && (SSL_CTX_use_certificate(ctx, cert) != 1 ||
                SSL_CTX_use_PrivateKey(ctx, ca->leaf_key) != 1)) {
        SSL_CTX_free(ctx);
        ctx = NULL;
    }
    X509_free(cert);
    return ctx;
}

static void leaf_done(struct leaf *l)
{
    free(l->host);
    SSL_CTX_free(l->context);
    *l = (struct leaf){0};
}

/* A place for that host: its own, a free one, or the oldest's. */
static struct leaf *find_place(struct ca *ca, const char *host)
{
    struct leaf *oldest = &ca->leaves[0];
    for (size_t i = 0; i < ca->n_leaves; i++) {
        if (strcmp(ca->leaves[i].host, host) == 0)
            return &ca->leaves[i];
        if (ca->leaves[i].made < oldest->made)
            oldest = &ca->leaves[i];
    }
    return ca->n_leaves < CONTEXTS_MAX ? &ca->leaves[ca->n_leaves++] : oldest;
}

SSL_CTX *ca_find_context(struct ca *ca, const char *host)
{
    time_t now = time(NULL);
    struct leaf *l = find_place(ca, host);
    bool fresh =
        l->host && strcmp(l->host, host) == 0 && now >= l->made && now - l->made < LEAF_RENEW_S;
    if (fresh && l->context)
        return l->context;
    leaf_done(l);
    l->host = xstrdup(host);
    l->context = make_context(ca, host);
    l->made = now;
    return l->context;
}

/* --- all of it */

struct ca *ca_new(const uint8_t seed[INTERCEPT_SEED_SIZE], const char *label,
                  const struct pair_host *hosts, size_t n_hosts, struct error *err)
{
    struct ca *ca = new0(struct ca);
    ca->key = key_of_seed(seed);
    ca->leaf_key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", CURVE);
    ca->certificate = X509_new();
    if (ca->key && ca->leaf_key && ca->certificate &&
        fill_authority(ca->certificate, ca->key, label, hosts, n_hosts))
        return ca;
    error_set(err, ERROR_INTERNAL, 0, "make a certificate authority: %s",
              ERR_reason_error_string(ERR_peek_last_error()));
    ca_free(ca);
    return NULL;
}

void ca_free(struct ca *ca)
{
    if (!ca)
        return;
    for (size_t i = 0; i < ca->n_leaves; i++)
        leaf_done(&ca->leaves[i]);
    EVP_PKEY_free(ca->key);
    EVP_PKEY_free(ca->leaf_key);
    X509_free(ca->certificate);
    free(ca);
}

int ca_format(const struct ca *ca, struct strbuf *out)
{
    char *data;
    BIO *bio = BIO_new(BIO_s_mem());
    int good = bio ? PEM_write_bio_X509(bio, ca->certificate) : 0;
    long len = good == 1 ? BIO_get_mem_data(bio, &data) : 0;
    int r = len > 0 ? strbuf_append(out, data, (size_t)len) : -EIO;
    BIO_free(bio);
    return r;
}
