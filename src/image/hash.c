/* SPDX-License-Identifier: Apache-2.0 */
#include "image/hash.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/sha256.h"

/* A library that cannot hash is a broken machine; guessing on would be worse than stopping. */
static void require_crypto(int good)
{
    if (good != 1)
        abort();
}

void hash_init(struct hash *h)
{
    h->ctx = EVP_MD_CTX_new();
    require_crypto(h->ctx && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) == 1);
}

void hash_update(struct hash *h, const void *data, size_t len)
{
    require_crypto(EVP_DigestUpdate(h->ctx, data, len));
}

void hash_final(struct hash *h, char ret[IMAGE_DIGEST_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    require_crypto(EVP_DigestFinal_ex(h->ctx, digest, NULL));
    sha256_hex(digest, ret);
    hash_done(h);
}

void hash_done(struct hash *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

void hash_bytes(const void *data, size_t len, char ret[IMAGE_DIGEST_SIZE])
{
    struct hash h;
    hash_init(&h);
    hash_update(&h, data, len);
    hash_final(&h, ret);
}
