/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of a maker's secret: whether a token was made while the secret was the one that it is now.
 *
 * A key counts how often it got a new secret. The operator's own token comes with the
 * configuration and has no such count, so that the tokens which it makes carry a mark of it: a salt
 * and what it and the secret are hashed to, slowly, because an operator may choose a short one. */
#include "port/token-maker.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define ROUNDS     20000 /* some milliseconds, once per start */
#define HASH_BYTES 32

/* The mark of a secret with that salt. */
static void mark_fill(const char *secret, const char *salt, struct maker_mark *ret)
{
    unsigned char hash[HASH_BYTES];
    if (!PKCS5_PBKDF2_HMAC(secret, (int)strlen(secret), (const unsigned char *)salt,
                           MAKER_SALT_SIZE, ROUNDS, EVP_sha256(), sizeof(hash), hash))
        abort();
    memcpy(ret->text, salt, MAKER_SALT_SIZE);
    for (size_t i = 0; i < sizeof(hash); i++)
        snprintf(ret->text + MAKER_SALT_SIZE + 2 * i, 3, "%02x", hash[i]);
}

void maker_mark_make(const char *secret, struct maker_mark *ret)
{
    char salt[MAKER_SALT_SIZE + 1];
    random_id(salt, MAKER_SALT_SIZE);
    mark_fill(secret, salt, ret);
}

bool maker_mark_fits(const struct maker_mark *mark, const char *secret)
{
    struct maker_mark own;
    if (strlen(mark->text) != sizeof(mark->text) - 1)
        return false;
    mark_fill(secret, mark->text, &own);
    return CRYPTO_memcmp(own.text, mark->text, sizeof(own.text)) == 0;
}
