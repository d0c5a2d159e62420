/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/chain.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/alloc.h"
#include "audit/audit.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/strbuf.h"

#define SHORT_BYTES 512

/* --- hashing. Failing here is failing to allocate: nothing could be proved any more. */

struct audit_hasher {
    EVP_MD_CTX *fresh, *work;
};

static void require_crypto(bool ok)
{
    if (!ok)
        abort();
}

struct audit_hasher *audit_hasher_new(void)
{
    struct audit_hasher *h = new0(struct audit_hasher);
    h->fresh = EVP_MD_CTX_new();
    h->work = EVP_MD_CTX_new();
    require_crypto(h->fresh && h->work && EVP_DigestInit_ex(h->fresh, EVP_sha256(), NULL));
    return h;
}

void audit_hasher_free(struct audit_hasher *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->fresh);
    EVP_MD_CTX_free(h->work);
    free(h);
}

static void put_u64(uint8_t *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof(v));
}

/* The number and the length are hashed before the bytes, so that no two records with their
 * places can be written as the same input. A copy of the prepared context is cheaper than
 * looking the algorithm up for every record. */
void audit_hash(struct audit_hasher *h, const uint8_t prev[CHECKPOINT_HASH_SIZE], uint64_t seq,
                const char *line, size_t len, const char *more, size_t more_len,
                uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    uint8_t head[CHECKPOINT_HASH_SIZE + 16];
    memcpy(head, prev, CHECKPOINT_HASH_SIZE);
    put_u64(head + CHECKPOINT_HASH_SIZE, seq);
    put_u64(head + CHECKPOINT_HASH_SIZE + 8, len + more_len);
    require_crypto(EVP_MD_CTX_copy_ex(h->work, h->fresh) &&
                   EVP_DigestUpdate(h->work, head, sizeof(head)) &&
                   EVP_DigestUpdate(h->work, line, len) &&
                   (!more_len || EVP_DigestUpdate(h->work, more, more_len)) &&
                   EVP_DigestFinal_ex(h->work, ret, NULL));
}

void audit_hash_checkpoint(const struct checkpoint *c, uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    size_t len = checkpoint_statement(c, statement);
    require_crypto(EVP_Digest(statement, len, ret, NULL, EVP_sha256(), NULL));
}

static void format_digest(const uint8_t hash[CHECKPOINT_HASH_SIZE], char out[AUDIT_DIGEST_SIZE])
{
    memcpy(out, "sha256:", 7);
    hex_format(hash, CHECKPOINT_HASH_SIZE, out + 7);
}

/* Most texts are short, and finding and setting up a hash in the crypto library takes longer than
 * hashing one. */
static void hash_short(char *const *argv, const void *data, size_t len,
                       uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    for (; argv && *argv; argv++)
        sha256_update(&s, *argv, strlen(*argv) + 1);
    sha256_update(&s, data, len);
    sha256_final(&s, ret);
}

/* The NUL behind each argument is hashed as well: {"a", "b"} and {"ab"} must differ. */
static void hash_argv(char *const *argv, uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    require_crypto(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL));
    for (; argv && *argv; argv++)
        require_crypto(EVP_DigestUpdate(ctx, *argv, strlen(*argv) + 1));
    require_crypto(EVP_DigestFinal_ex(ctx, ret, NULL));
    EVP_MD_CTX_free(ctx);
}

void audit_digest(const void *data, size_t len, char out[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    if (len <= SHORT_BYTES)
        hash_short(NULL, data, len, hash);
    else
        require_crypto(EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL));
    format_digest(hash, out);
}

void audit_digest_argv(char *const *argv, char out[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    size_t total = 0;
    for (char *const *a = argv; a && *a && total <= SHORT_BYTES; a++)
        total += strlen(*a) + 1;
    if (total <= SHORT_BYTES)
        hash_short(argv, NULL, 0, hash);
    else
        hash_argv(argv, hash);
    format_digest(hash, out);
}

void audit_call_id(char out[AUDIT_CALL_ID_SIZE])
{
    memcpy(out, "call-", 5);
    random_id(out + 5, AUDIT_CALL_ID_SIZE - 6);
}

/* --- signatures */

struct audit_key {
    EVP_PKEY *pkey;
};

struct audit_key *audit_key_new(const uint8_t public_key[CHECKPOINT_KEY_SIZE])
{
    struct audit_key *k = new0(struct audit_key);
    k->pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, CHECKPOINT_KEY_SIZE);
    if (k->pkey)
        return k;
    free(k);
    return NULL;
}

void audit_key_free(struct audit_key *k)
{
    if (!k)
        return;
    EVP_PKEY_free(k->pkey);
    free(k);
}

void audit_key_public(const struct audit_key *k, uint8_t ret[CHECKPOINT_KEY_SIZE])
{
    size_t len = CHECKPOINT_KEY_SIZE;
    require_crypto(EVP_PKEY_get_raw_public_key(k->pkey, ret, &len) == 1);
}

bool audit_key_is(const struct audit_key *k, const uint8_t public_key[CHECKPOINT_KEY_SIZE])
{
    uint8_t own[CHECKPOINT_KEY_SIZE];
    if (!k)
        return false;
    audit_key_public(k, own);
    return memcmp(own, public_key, sizeof(own)) == 0;
}

static bool signature_verifies(const struct audit_key *k, const struct checkpoint *c,
                               const uint8_t signature[CHECKPOINT_SIGNATURE_SIZE])
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    size_t len = checkpoint_statement(c, statement);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    require_crypto(ctx != NULL);
    bool good = EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
                EVP_DigestVerify(ctx, signature, CHECKPOINT_SIGNATURE_SIZE, statement, len) == 1;
    EVP_MD_CTX_free(ctx);
    return good;
}

bool audit_key_verifies(const struct audit_key *k, const struct checkpoint *c)
{
    return signature_verifies(k, c, c->signature);
}

/* The new key signs the same statement itself. A key can therefore not be named as a successor
 * without the agreement of its holder. */
bool audit_key_takes_over(const struct audit_key *k, const struct checkpoint *c)
{
    return checkpoint_changes_key(c) && audit_key_is(k, c->new_key) &&
           signature_verifies(k, c, c->new_signature);
}

/* --- records with their hash */

#define HASH_START ",\"hash\":\""
#define HASH_END   "\"}"
#define HASH_CHARS ((size_t)2 * CHECKPOINT_HASH_SIZE)

/* The hash becomes the last member of the record's own object: the closing brace is cut off, and
 * the hash brings it back. A reader of plain JSON sees one more member. */
int audit_line_format(struct strbuf *out, const char *record, size_t len,
                      const uint8_t hash[CHECKPOINT_HASH_SIZE])
{
    char end[sizeof(HASH_START) + HASH_CHARS + sizeof(HASH_END)];
    size_t n = strlen(HASH_START);
    memcpy(end, HASH_START, n);
    hex_format(hash, CHECKPOINT_HASH_SIZE, end + n);
    memcpy(end + n + HASH_CHARS, HASH_END "\n", 3);
    int r = strbuf_append(out, record, len ? len - 1 : 0);
    if (r < 0)
        return r;
    return strbuf_append(out, end, n + HASH_CHARS + 3);
}

bool audit_line_parse(const char *line, size_t len, size_t *ret_len,
                      uint8_t ret_hash[CHECKPOINT_HASH_SIZE])
{
    size_t start = strlen(HASH_START), end = strlen(HASH_END), tail = start + HASH_CHARS + end;
    if (len < tail)
        return false;
    const char *p = line + len - tail;
    if (memcmp(p, HASH_START, start) != 0 || memcmp(line + len - end, HASH_END, end) != 0 ||
        !hex_parse(p + start, HASH_CHARS, ret_hash, CHECKPOINT_HASH_SIZE))
        return false;
    *ret_len = len - tail;
    return true;
}
