/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/seal.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdbool.h>
#include <string.h>

#define TAG_SIZE     16
#define NONCE_SIZE   12
#define PURPOSE_SEAL "mas-sandbox seal 1"
#define DERIVE_SIZE  256 /* purpose and context of a derived key */

int seal_derive(const void *secret, size_t secret_len, const char *purpose, const void *context,
                size_t context_len, uint8_t *ret, size_t ret_len)
{
    char digest[] = "SHA256";
    uint8_t info[DERIVE_SIZE];
    size_t purpose_len = strlen(purpose) + 1; /* its NUL keeps the two apart */
    if (context_len > sizeof(info) || purpose_len > sizeof(info) - context_len)
        return -EINVAL;
    memcpy(info, purpose, purpose_len);
    memcpy(info + purpose_len, context, context_len);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          secret_len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, purpose_len + context_len),
        OSSL_PARAM_construct_end()};
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    int good = ctx ? EVP_KDF_derive(ctx, ret, ret_len, params) : 0;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return good == 1 ? 0 : -EIO;
}

int seal_public_key(const uint8_t private_key[SEAL_KEY_SIZE], uint8_t ret[SEAL_KEY_SIZE])
{
    size_t len = SEAL_KEY_SIZE;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private_key, len);
    int good = key ? EVP_PKEY_get_raw_public_key(key, ret, &len) : 0;
    EVP_PKEY_free(key);
    return good == 1 && len == SEAL_KEY_SIZE ? 0 : -EIO;
}

static int agree_on_key(EVP_PKEY *own, const uint8_t peer[SEAL_KEY_SIZE],
                        uint8_t ret[SEAL_KEY_SIZE])
{
    size_t len = SEAL_KEY_SIZE;
    EVP_PKEY *other = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, peer, SEAL_KEY_SIZE);
    EVP_PKEY_CTX *ctx = own && other ? EVP_PKEY_CTX_new(own, NULL) : NULL;
    /* libcrypto refuses public keys of small order, with which any observer would know the result.
     */
    int good = ctx && EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, other) == 1 &&
               EVP_PKEY_derive(ctx, ret, &len) == 1;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(other);
    return good && len == SEAL_KEY_SIZE ? 0 : -EINVAL;
}

/* The content key depends on both public keys, too, so that it belongs to this seal alone. */
static int derive_content_key(EVP_PKEY *own, const uint8_t peer[SEAL_KEY_SIZE],
                              const uint8_t of_seal[SEAL_KEY_SIZE],
                              const uint8_t of_warden[SEAL_KEY_SIZE], uint8_t ret[SEAL_KEY_SIZE])
{
    uint8_t shared[SEAL_KEY_SIZE], context[2 * SEAL_KEY_SIZE];
    int r = agree_on_key(own, peer, shared);
    if (r < 0)
        return r;
    memcpy(context, of_seal, SEAL_KEY_SIZE);
    memcpy(context + SEAL_KEY_SIZE, of_warden, SEAL_KEY_SIZE);
    r = seal_derive(shared, sizeof(shared), PURPOSE_SEAL, context, sizeof(context), ret,
                    SEAL_KEY_SIZE);
    OPENSSL_cleanse(shared, sizeof(shared));
    return r;
}

/* A content key is used for one message only, so its nonce may be a constant. */
static int encrypt_content(const uint8_t key[SEAL_KEY_SIZE], const void *data, size_t len,
                           uint8_t *ret)
{
    static const uint8_t nonce[NONCE_SIZE];
    int n = 0, last = 0;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool good = ctx && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
                EVP_EncryptUpdate(ctx, ret, &n, data, (int)len) == 1 &&
                EVP_EncryptFinal_ex(ctx, ret + n, &last) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_SIZE, ret + len) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return good ? 0 : -EIO;
}

/* GCM writes its output before the tag is checked: after a failure what is in ret must not be
 * used. */
int seal_open(const uint8_t content_key[SEAL_KEY_SIZE], const uint8_t *sealed, size_t len,
              uint8_t *ret)
{
    static const uint8_t nonce[NONCE_SIZE];
    uint8_t tag[TAG_SIZE];
    int n = 0, last = 0;
    if (len < SEAL_OVERHEAD || len > INT32_MAX)
        return -EINVAL;
    memcpy(tag, sealed + len - TAG_SIZE, TAG_SIZE);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool good =
        ctx && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, content_key, nonce) == 1 &&
        EVP_DecryptUpdate(ctx, ret, &n, sealed + SEAL_KEY_SIZE, (int)(len - SEAL_OVERHEAD)) == 1 &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG_SIZE, tag) == 1 &&
        EVP_DecryptFinal_ex(ctx, ret + n, &last) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return good ? 0 : -EINVAL;
}

int seal_close(const uint8_t public_key[SEAL_KEY_SIZE], const void *data, size_t len, uint8_t *ret)
{
    uint8_t content[SEAL_KEY_SIZE];
    size_t size = SEAL_KEY_SIZE;
    if (len > INT32_MAX - SEAL_OVERHEAD)
        return -EINVAL;
    /* A key pair for this seal alone, whose private half is forgotten: not even the process that
     * closed the seal can open it again. */
    EVP_PKEY *once = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    int r = once && EVP_PKEY_get_raw_public_key(once, ret, &size) == 1 ? 0 : -EIO;
    if (r >= 0 && (r = derive_content_key(once, public_key, ret, public_key, content)) >= 0)
        r = encrypt_content(content, data, len, ret + SEAL_KEY_SIZE);
    OPENSSL_cleanse(content, sizeof(content));
    EVP_PKEY_free(once);
    return r;
}

int seal_content_key(const uint8_t private_key[SEAL_KEY_SIZE], const uint8_t *sealed, size_t len,
                     uint8_t ret[SEAL_KEY_SIZE])
{
    uint8_t public_key[SEAL_KEY_SIZE];
    if (len < SEAL_OVERHEAD)
        return -EINVAL;
    int r = seal_public_key(private_key, public_key);
    if (r < 0)
        return r;
    EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private_key, SEAL_KEY_SIZE);
    r = own ? derive_content_key(own, sealed, sealed, public_key, ret) : -EIO;
    EVP_PKEY_free(own);
    return r;
}
