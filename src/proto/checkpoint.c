/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digits.h"
#include "base/sha256.h"

static const char magic[24] = "mas-sandbox audit 1", magic_keys[24] = "mas-sandbox audit 2";

static const char slot_magic_1[8] = "masaud1", slot_magic_2[8] = "masaud2";
#define SLOT_1_CHECK_AT (8 + offsetof(struct checkpoint, old_key))
static_assert(sizeof(struct checkpoint_slot) <= CHECKPOINT_SLOT_SIZE, "a slot fits its place");

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (56 - 8 * i));
    return p + 8;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t len)
{
    memcpy(p, data, len);
    return p + len;
}

bool checkpoint_changes_key(const struct checkpoint *c)
{
    return c->purpose == CHECKPOINT_ROTATE || c->purpose == CHECKPOINT_REPLACE;
}

/* What is signed. Every field has a fixed size and its place, and the magic says which of the two
 * layouts it is, so that two different checkpoints never have one statement. */
size_t checkpoint_statement(const struct checkpoint *c, uint8_t out[CHECKPOINT_STATEMENT_SIZE])
{
    bool keys = checkpoint_changes_key(c);
    uint8_t *p = put_bytes(out, keys ? magic_keys : magic, sizeof(magic));
    *p++ = (uint8_t)c->purpose;
    p = put_u64(p, c->seq);
    p = put_u64(p, c->prev_seq);
    p = put_u64(p, (uint64_t)c->time_ns);
    p = put_bytes(p, c->head, sizeof(c->head));
    p = put_bytes(p, c->prev, sizeof(c->prev));
    if (keys) {
        p = put_bytes(p, c->old_key, sizeof(c->old_key));
        p = put_bytes(p, c->new_key, sizeof(c->new_key));
    }
    return (size_t)(p - out);
}

/* --- on disk */

static void hash_bytes(const void *data, size_t len, uint8_t ret[CHECKPOINT_HASH_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, data, len);
    sha256_final(&s, ret);
}

/* The padding is cleared, since the check covers every byte before it. */
void checkpoint_slot_fill(struct checkpoint_slot *slot, const struct checkpoint *c)
{
    memset(slot, 0, sizeof(*slot));
    memcpy(slot->magic, slot_magic_2, sizeof(slot->magic));
    slot->checkpoint = *c;
    hash_bytes(slot, offsetof(struct checkpoint_slot, check), slot->check);
}

bool checkpoint_slot_read(const struct checkpoint_slot *slot, struct checkpoint *ret)
{
    bool old = memcmp(slot->magic, slot_magic_1, sizeof(slot->magic)) == 0;
    size_t at = old ? SLOT_1_CHECK_AT : offsetof(struct checkpoint_slot, check);
    uint8_t check[CHECKPOINT_HASH_SIZE];
    if (!old && memcmp(slot->magic, slot_magic_2, sizeof(slot->magic)) != 0)
        return false;
    /* The hash finds a slot that was written in part when the machine stopped. It is no proof
     * against a forger, who is stopped by the signature. */
    hash_bytes(slot, at, check);
    if (memcmp(check, (const uint8_t *)slot + at, sizeof(check)) != 0)
        return false;
    *ret = (struct checkpoint){0};
    memcpy(ret, &slot->checkpoint, at - offsetof(struct checkpoint_slot, checkpoint));
    return true;
}

/* --- text */

void hex_format(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

bool hex_parse(const char *text, size_t len, uint8_t *ret, size_t n)
{
    if (len != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = hex_value_lower(text[2 * i]), low = hex_value_lower(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static const char *const purpose_names[] = {
    [CHECKPOINT_PERIODIC] = "periodic",
    [CHECKPOINT_EXPORT] = "export",
    [CHECKPOINT_ROTATE] = "rotate",
    [CHECKPOINT_REPLACE] = "replace",
};
static_assert(sizeof(purpose_names) / sizeof(purpose_names[0]) == _CHECKPOINT_PURPOSE_MAX,
              "a name per purpose");

#define CHECKPOINT_START "{\"checkpoint\":\""
#define KEYS_START       ",\"version\":2,\"old_key\":\""

static size_t format_keys(const struct checkpoint *c, char *out, size_t size)
{
    char old_key[CHECKPOINT_HEX_SIZE], new_key[CHECKPOINT_HEX_SIZE], signature[CHECKPOINT_HEX_SIZE];
    hex_format(c->old_key, sizeof(c->old_key), old_key);
    hex_format(c->new_key, sizeof(c->new_key), new_key);
    hex_format(c->new_signature, sizeof(c->new_signature), signature);
    return (size_t)snprintf(out, size,
                            KEYS_START "%s\",\"new_key\":\"%s\",\"new_signature\":\"%s\"}", old_key,
                            new_key, signature);
}

size_t checkpoint_format(const struct checkpoint *c, char out[CHECKPOINT_TEXT_SIZE])
{
    char head[CHECKPOINT_HEX_SIZE], prev[CHECKPOINT_HEX_SIZE], signature[CHECKPOINT_HEX_SIZE];
    assert(c->purpose >= CHECKPOINT_PERIODIC && c->purpose < _CHECKPOINT_PURPOSE_MAX);
    hex_format(c->head, sizeof(c->head), head);
    hex_format(c->prev, sizeof(c->prev), prev);
    hex_format(c->signature, sizeof(c->signature), signature);
    size_t n = (size_t)snprintf(
        out, CHECKPOINT_TEXT_SIZE,
        CHECKPOINT_START "%s\",\"seq\":%" PRIu64 ",\"prev_seq\":%" PRIu64 ",\"time_ns\":%" PRId64
                         ",\"head\":\"%s\",\"prev\":\"%s\",\"signature\":\"%s\"}",
        purpose_names[c->purpose], c->seq, c->prev_seq, c->time_ns, head, prev, signature);
    return checkpoint_changes_key(c)
               ? n - 1 + format_keys(c, out + n - 1, CHECKPOINT_TEXT_SIZE - (n - 1))
               : n;
}

bool checkpoint_is_text(const char *text, size_t len)
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

static bool parse_keys(const char *text, struct checkpoint *ret)
{
    char old_key[CHECKPOINT_HEX_SIZE], new_key[CHECKPOINT_HEX_SIZE], signature[CHECKPOINT_HEX_SIZE];
    const char *keys = strstr(text, KEYS_START);
    return keys &&
           sscanf(keys,
                  KEYS_START "%64[0-9a-f]\",\"new_key\":\"%64[0-9a-f]\",\"new_signature\":"
                             "\"%128[0-9a-f]\"}",
                  old_key, new_key, signature) == 3 &&
           hex_parse(old_key, strlen(old_key), ret->old_key, sizeof(ret->old_key)) &&
           hex_parse(new_key, strlen(new_key), ret->new_key, sizeof(ret->new_key)) &&
           hex_parse(signature, strlen(signature), ret->new_signature, sizeof(ret->new_signature));
}

/* Reads leniently, then compares with the one form it has. */
bool checkpoint_parse(const char *text, size_t len, struct checkpoint *ret)
{
    char copy[CHECKPOINT_TEXT_SIZE], again[CHECKPOINT_TEXT_SIZE], purpose[16];
    char head[CHECKPOINT_HEX_SIZE], prev[CHECKPOINT_HEX_SIZE], signature[CHECKPOINT_HEX_SIZE];
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
        !hex_parse(head, strlen(head), c.head, sizeof(c.head)) ||
        !hex_parse(prev, strlen(prev), c.prev, sizeof(c.prev)) ||
        !hex_parse(signature, strlen(signature), c.signature, sizeof(c.signature)) ||
        (checkpoint_changes_key(&c) && !parse_keys(copy, &c)))
        return false;
    size_t size = checkpoint_format(&c, again);
    if (size != len || memcmp(again, text, len) != 0)
        return false;
    *ret = c;
    return true;
}
