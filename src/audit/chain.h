/* SPDX-License-Identifier: Apache-2.0 */
/* The hash chain over records, and signatures over its head.
 *
 *   hash(0) = 32 zeros;  hash(n) = SHA-256(hash(n-1) || n || length || bytes),  numbers 8 bytes
 *   big-endian, bytes: the canonical line without newline
 */
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
bool audit_key_is(const struct audit_key *k, const uint8_t public_key[CHECKPOINT_KEY_SIZE]);
bool audit_key_verifies(const struct audit_key *k, const struct checkpoint *c);
/* Whether c changes the key to k, and k signed it too. */
bool audit_key_takes_over(const struct audit_key *k, const struct checkpoint *c);
void audit_key_public(const struct audit_key *k, uint8_t ret[CHECKPOINT_KEY_SIZE]);

/* A record with its hash as one more, last member, and a newline: how records leave the database.
 */
int audit_line_format(struct strbuf *out, const char *record, size_t len,
                      const uint8_t hash[CHECKPOINT_HASH_SIZE]);
/* Takes such a line (without newline) apart: the record is its first *ret_len bytes and a '}'. */
bool audit_line_parse(const char *line, size_t len, size_t *ret_len,
                      uint8_t ret_hash[CHECKPOINT_HASH_SIZE]);
