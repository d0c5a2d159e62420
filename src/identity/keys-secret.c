/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of keys: made from the kernel's randomness, kept only as a hash. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "identity/keys-internal.h"

#define SECRET_BYTES 32

static void to_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

void key_secret_make(char ret[KEY_SECRET_SIZE])
{
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    char *end = stpcpy(ret, KEY_SECRET_PREFIX);
    to_hex(bytes, sizeof(bytes), end);
    OPENSSL_cleanse(bytes, sizeof(bytes));
}

void key_secret_hash(const char *secret, char ret[KEY_DIGEST_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (!EVP_Digest(secret, strlen(secret), digest, NULL, EVP_sha256(), NULL))
        abort();
    to_hex(digest, SECRET_BYTES, ret);
}
