/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden signs of the audit: that record `seq` had the chain hash `head`, and which
 * checkpoint came before. It signs sequence numbers in strictly increasing order, so there is one
 * signature for each at most, and the link to the one before makes every older checkpoint, and with
 * it the hash of every older record, part of what the newest signature says.
 *
 * A checkpoint may also change the signing key. The statement then names both keys, and both sign
 * it; where the old key is lost, the new one alone says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKPOINT_HASH_SIZE      32 /* SHA-256 */
#define CHECKPOINT_KEY_SIZE       32 /* Ed25519, public */
#define CHECKPOINT_SIGNATURE_SIZE 64

enum checkpoint_purpose {
    CHECKPOINT_PERIODIC = 1,
    CHECKPOINT_EXPORT,  /* the last line of an export */
    CHECKPOINT_ROTATE,  /* old_key hands over to new_key; both sign */
    CHECKPOINT_REPLACE, /* old_key is lost, or all zeros where it is not known; new_key signs */
    _CHECKPOINT_PURPOSE_MAX,
};

struct checkpoint {
    uint32_t purpose; /* enum checkpoint_purpose */
    uint32_t reserved;
    uint64_t seq;
    uint64_t prev_seq; /* of the checkpoint signed before; 0: this is the first */
    int64_t time_ns;   /* the warden's clock */
    uint8_t head[CHECKPOINT_HASH_SIZE];
    uint8_t prev[CHECKPOINT_HASH_SIZE]; /* SHA-256 of the statement signed before, or zeros */
    uint8_t signature[CHECKPOINT_SIGNATURE_SIZE]; /* zeros in a CHECKPOINT_REPLACE */
    /* Zeros unless it changes the key. */
    uint8_t old_key[CHECKPOINT_KEY_SIZE], new_key[CHECKPOINT_KEY_SIZE];
    uint8_t new_signature[CHECKPOINT_SIGNATURE_SIZE]; /* of the same statement */
};

bool checkpoint_changes_key(const struct checkpoint *c);

/* Where the warden keeps the newest: two places of a file, written in turn, so that a write which
 * was cut short leaves the other one. */
#define CHECKPOINT_SLOT_SIZE 512
struct checkpoint_slot {
    char magic[8];
    struct checkpoint checkpoint;
    uint8_t check[CHECKPOINT_HASH_SIZE]; /* SHA-256 of the above */
};
void checkpoint_slot_fill(struct checkpoint_slot *slot, const struct checkpoint *c);
/* False for a place that holds none, or a damaged one. Places of version 1, which end before
 * old_key, are read as well. */
bool checkpoint_slot_read(const struct checkpoint_slot *slot, struct checkpoint *ret);

#define CHECKPOINT_STATEMENT_SIZE                                                                  \
    (24 + 1 + 8 + 8 + 8 + 2 * CHECKPOINT_HASH_SIZE + 2 * CHECKPOINT_KEY_SIZE)
/* The bytes that are signed, and how many: magic, purpose, then the members above, numbers
 * big-endian. The keys are part of version 2 only, which is the one of statements that change the
 * key; the magic tells the versions apart. */
size_t checkpoint_statement(const struct checkpoint *c, uint8_t out[CHECKPOINT_STATEMENT_SIZE]);

#define CHECKPOINT_HEX_SIZE (2 * CHECKPOINT_SIGNATURE_SIZE + 1)
void hex_format(const uint8_t *bytes, size_t n, char *out); /* 2n characters and NUL */
/* Exactly n bytes as 2n lower-case digits at text; false otherwise. */
bool hex_parse(const char *text, size_t len, uint8_t *ret, size_t n);

#define CHECKPOINT_TEXT_SIZE 1024
/* As a line of JSON, in exactly one form:
 * {"checkpoint":"periodic","seq":...,"prev_seq":...,"time_ns":...,"head":"...","prev":"...",
 * "signature":"..."} without newline; its length. One that changes the key goes on behind the
 * signature: ,"version":2,"old_key":"...","new_key":"...","new_signature":"..."} */
size_t checkpoint_format(const struct checkpoint *c, char out[CHECKPOINT_TEXT_SIZE]);
/* False for everything that checkpoint_format() would not have written. */
bool checkpoint_parse(const char *text, size_t len, struct checkpoint *ret);
bool checkpoint_is_text(const char *text, size_t len); /* at least it starts like one */
