/* The hash chain over records, and checkpoints as text.
 *
 *   hash(0) = 32 zeros;  hash(n) = SHA-256(hash(n-1) || n || length || bytes),  numbers 8 bytes
 *   big-endian, bytes: the canonical line without newline
 *
 * A checkpoint is a line of JSON in exactly one form; any other spelling of it is none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/checkpoint.h"

struct strbuf;

/* Of one thread. */
struct audit_hasher;
struct audit_hasher *audit_hasher_new(void);
void audit_hasher_free(struct audit_hasher *h); /* NULL is fine */
/* line may come in two pieces (more may be NULL). ret may be prev. */
void audit_hash(struct audit_hasher *h, const uint8_t prev[CHECKPOINT_HASH_SIZE], uint64_t seq,
                const char *line, size_t len, const char *more, size_t more_len,
                uint8_t ret[CHECKPOINT_HASH_SIZE]);
/* The hash a following checkpoint carries. */
void audit_hash_checkpoint(const struct checkpoint *c, uint8_t ret[CHECKPOINT_HASH_SIZE]);

/* Checks signatures of one public key. */
struct audit_key;
struct audit_key *audit_key_new(const uint8_t public_key[CHECKPOINT_KEY_SIZE]);
void audit_key_free(struct audit_key *k);
bool audit_key_verifies(const struct audit_key *k, const struct checkpoint *c);

#define AUDIT_HEX_SIZE (2 * CHECKPOINT_SIGNATURE_SIZE + 1)
void audit_hex_format(const uint8_t *bytes, size_t n, char *out); /* 2n characters and NUL */
/* Exactly n bytes as 2n lower-case digits at text; false otherwise. */
bool audit_hex_parse(const char *text, size_t len, uint8_t *ret, size_t n);

#define AUDIT_CHECKPOINT_TEXT_SIZE 512
/* {"checkpoint":"periodic","seq":...,"prev_seq":...,"time_ns":...,"head":"...","prev":"...",
 * "signature":"..."} without newline; its length. */
size_t audit_checkpoint_format(const struct checkpoint *c, char out[AUDIT_CHECKPOINT_TEXT_SIZE]);
/* False for everything that audit_checkpoint_format() would not have written. */
bool audit_checkpoint_parse(const char *text, size_t len, struct checkpoint *ret);
bool audit_is_checkpoint(const char *text, size_t len); /* at least it starts like one */
