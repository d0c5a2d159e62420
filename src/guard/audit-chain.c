#include "guard/audit-chain.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "guard/audit.h"
#include "base/random.h"

/* --- hashing. Failing here is failing to allocate: nothing could be proved any more. */

struct audit_hasher {
    EVP_MD_CTX *fresh, *work;
};

static void must(bool ok)
{
    if (!ok)
        abort();
}

struct audit_hasher *audit_hasher_new(void)
{
    struct audit_hasher *h = new0(struct audit_hasher);
    h->fresh = EVP_MD_CTX_new();
    h->work = EVP_MD_CTX_new();
    must(h->fresh && h->work && EVP_DigestInit_ex(h->fresh, EVP_sha256(), NULL));
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

void audit_hash(struct audit_hasher *h, const uint8_t prev[CHECKPOINT_HASH_SIZE], uint64_t seq,
                const char *line, size_t len, const char *more, size_t more_len,
                uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    uint8_t head[CHECKPOINT_HASH_SIZE + 16];
    memcpy(head, prev, CHECKPOINT_HASH_SIZE);
    put_u64(head + CHECKPOINT_HASH_SIZE, seq);
    put_u64(head + CHECKPOINT_HASH_SIZE + 8, len + more_len);
    must(EVP_MD_CTX_copy_ex(h->work, h->fresh) && EVP_DigestUpdate(h->work, head, sizeof(head)) &&
         EVP_DigestUpdate(h->work, line, len) &&
         (!more_len || EVP_DigestUpdate(h->work, more, more_len)) &&
         EVP_DigestFinal_ex(h->work, ret, NULL));
}

void audit_hash_checkpoint(const struct checkpoint *c, uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    checkpoint_statement(c, statement);
    must(EVP_Digest(statement, sizeof(statement), ret, NULL, EVP_sha256(), NULL));
}

static void format_digest(const uint8_t hash[CHECKPOINT_HASH_SIZE], char out[AUDIT_DIGEST_SIZE])
{
    memcpy(out, "sha256:", 7);
    audit_hex_format(hash, CHECKPOINT_HASH_SIZE, out + 7);
}

void audit_digest(const void *data, size_t len, char out[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    must(EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL));
    format_digest(hash, out);
}

void audit_digest_argv(char *const *argv, char out[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL));
    for (; argv && *argv; argv++)
        must(EVP_DigestUpdate(ctx, *argv, strlen(*argv) + 1));
    must(EVP_DigestFinal_ex(ctx, hash, NULL));
    EVP_MD_CTX_free(ctx);
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

bool audit_key_verifies(const struct audit_key *k, const struct checkpoint *c)
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    checkpoint_statement(c, statement);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx != NULL);
    bool good = EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
                EVP_DigestVerify(ctx, c->signature, sizeof(c->signature), statement,
                                 sizeof(statement)) == 1;
    EVP_MD_CTX_free(ctx);
    return good;
}

/* --- text */

void audit_hex_format(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool audit_hex_parse(const char *text, size_t len, uint8_t *ret, size_t n)
{
    if (len != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static const char *const purpose_names[] = {
    [CHECKPOINT_PERIODIC] = "periodic",
    [CHECKPOINT_EXPORT] = "export",
};
static_assert(ELEMENTS(purpose_names) == _CHECKPOINT_PURPOSE_MAX, "a name per purpose");

#define CHECKPOINT_START "{\"checkpoint\":\""

size_t audit_checkpoint_format(const struct checkpoint *c, char out[AUDIT_CHECKPOINT_TEXT_SIZE])
{
    char head[AUDIT_HEX_SIZE], prev[AUDIT_HEX_SIZE], signature[AUDIT_HEX_SIZE];
    assert(c->purpose >= CHECKPOINT_PERIODIC && c->purpose < _CHECKPOINT_PURPOSE_MAX);
    audit_hex_format(c->head, sizeof(c->head), head);
    audit_hex_format(c->prev, sizeof(c->prev), prev);
    audit_hex_format(c->signature, sizeof(c->signature), signature);
    return (size_t)snprintf(
        out, AUDIT_CHECKPOINT_TEXT_SIZE,
        CHECKPOINT_START "%s\",\"seq\":%" PRIu64 ",\"prev_seq\":%" PRIu64 ",\"time_ns\":%" PRId64
                         ",\"head\":\"%s\",\"prev\":\"%s\",\"signature\":\"%s\"}",
        purpose_names[c->purpose], c->seq, c->prev_seq, c->time_ns, head, prev, signature);
}

bool audit_is_checkpoint(const char *text, size_t len)
{
    size_t n = strlen(CHECKPOINT_START);
    return len >= n && memcmp(text, CHECKPOINT_START, n) == 0;
}

static uint32_t find_purpose(const char *name)
{
    for (uint32_t p = CHECKPOINT_PERIODIC; p < _CHECKPOINT_PURPOSE_MAX; p++)
        if (strcmp(purpose_names[p], name) == 0)
            return p;
    return 0;
}

/* Reads leniently, then compares with the one form it has. */
bool audit_checkpoint_parse(const char *text, size_t len, struct checkpoint *ret)
{
    char copy[AUDIT_CHECKPOINT_TEXT_SIZE], again[AUDIT_CHECKPOINT_TEXT_SIZE], purpose[16];
    char head[AUDIT_HEX_SIZE], prev[AUDIT_HEX_SIZE], signature[AUDIT_HEX_SIZE];
    struct checkpoint c = {0};
    if (len >= sizeof(copy) || memchr(text, 0, len))
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    int n = sscanf(copy,
                   CHECKPOINT_START "%15[a-z]\",\"seq\":%20" SCNu64 ",\"prev_seq\":%20" SCNu64
                                    ",\"time_ns\":%20" SCNd64 ",\"head\":\"%64[0-9a-f]\",\"prev\":"
                                    "\"%64[0-9a-f]\",\"signature\":\"%128[0-9a-f]\"}",
                   purpose, &c.seq, &c.prev_seq, &c.time_ns, head, prev, signature);
    if (n != 7 || !(c.purpose = find_purpose(purpose)) ||
        !audit_hex_parse(head, strlen(head), c.head, sizeof(c.head)) ||
        !audit_hex_parse(prev, strlen(prev), c.prev, sizeof(c.prev)) ||
        !audit_hex_parse(signature, strlen(signature), c.signature, sizeof(c.signature)))
        return false;
    size_t size = audit_checkpoint_format(&c, again);
    if (size != len || memcmp(again, text, len) != 0)
        return false;
    *ret = c;
    return true;
}
