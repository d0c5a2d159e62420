/* SPDX-License-Identifier: Apache-2.0 */
/* Proving that records are what they were: line by line, in one pass and constant memory.
 *
 * The lines of an export, each ended by a newline:
 *
 *   {"mas_audit":1,"base_seq":B,"base":"<hash of record B>","last":N,"key":"<public key>"}
 *   {checkpoint that changes the key}         each of those before B
 *   {checkpoint B}                            where B is not 0: records up to it were dropped
 *   {record B+1 ..., "hash":"..."}
 *   {checkpoint}                              after the record it is of
 *   ...
 *   {checkpoint of purpose "export"}          the footer, after record N
 *
 * Every byte of it is checked: a line has one spelling, a record's hash covers its bytes and its
 * place, a checkpoint's signature covers a hash and the checkpoint before. Rows of a database go
 * through the same functions. The first fault ends it and is reported with its place.
 *
 * Where the key was rotated or replaced, the header is of version 2 and also names the key that
 * signed first: {"mas_audit":2,...,"key":"<newest>","first_key":"<first>"}. From there every change
 * of the key is a checkpoint that names both. With a key of the caller's own, that one must be
 * among those that signed: what a key signed, and what it signed over when it took over, is proved
 * by it, and so is all that a key signs to which it handed over. A key that took over alone, from
 * a lost one, is believed only when the caller gave it as well. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "proto/checkpoint.h"

struct audit_hasher;
struct audit_key;

enum audit_key_origin {
    AUDIT_KEY_OF_EXPORT, /* it names its own: says that nothing changed, not who signed */
    AUDIT_KEY_GIVEN,
};

#define AUDIT_OTHER_KEYS_MAX 16

/* Why a key's signatures count. */
enum audit_key_basis {
    AUDIT_KEY_FIRST,
    AUDIT_KEY_ROTATED,  /* the key before it handed over */
    AUDIT_KEY_REPLACED, /* the key before it is lost: its own word */
    AUDIT_KEY_RECORDED, /* a record tells of the change, as versions before left it */
};

/* Records that checkpoints of one key prove. */
struct audit_segment {
    uint64_t first, last;
    enum audit_key_basis basis;
    uint8_t key[CHECKPOINT_KEY_SIZE];
};

struct audit_verifier {
    struct audit_hasher *hasher;
    struct audit_key *key; /* NULL if signatures are not checked */
    bool owns_key;
    enum audit_key_origin key_origin;
    struct audit_key *others[AUDIT_OTHER_KEYS_MAX]; /* that signed before it */
    size_t n_others;
    struct audit_key *learned;           /* named by a header or a rotation, not by the caller */
    const struct audit_key *signed_with; /* the newest checkpoint, or took over with it */
    enum audit_key_basis basis;          /* of signed_with */
    uint64_t key_line_seq;               /* of the newest change of the key before the base */
    bool given_seen;                     /* one of the caller's keys has signed */
    struct audit_segment *segments;
    size_t n_segments;
    uint8_t header_key[CHECKPOINT_KEY_SIZE];
    bool key_change_seen;    /* a record of one, since the newest checkpoint */
    uint64_t key_changed_at; /* the newest checkpoint of an earlier key; 0 if there is none */
    const struct checkpoint *known; /* checkpoints from elsewhere that must fit, ascending */
    size_t n_known, next_known;

    bool has_header;
    uint64_t line;     /* lines taken */
    uint64_t base_seq; /* records up to it are not there */
    uint64_t last_seq; /* of the newest record, as the header says */
    uint64_t seq;      /* newest record taken */
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    struct checkpoint last; /* newest checkpoint taken; seq 0 if there is none */
    uint64_t n_records, n_checkpoints;
    bool footer;        /* the last line was a checkpoint */
    struct strbuf rest; /* of audit_verify_feed(): an unfinished line */
    bool failed;
    char reason[256]; /* with failed */
};

/* key may be NULL: that of the export. */
void audit_verifier_init(struct audit_verifier *v, const uint8_t *key);
void audit_verifier_done(struct audit_verifier *v);
/* A key that signed before the one of audit_verifier_init(): false when it cannot be read as a
 * key, or there are too many. Where the checkpoints of one key end and those of another begin, a
 * record must tell of it. */
bool audit_verifier_add_key(struct audit_verifier *v, const uint8_t key[CHECKPOINT_KEY_SIZE]);
/* The key that signed first, as the material itself names it; not one that is believed. */
void audit_verifier_begin_with(struct audit_verifier *v, const uint8_t key[CHECKPOINT_KEY_SIZE]);
/* Checkpoints known from elsewhere; borrowed, in ascending order. */
void audit_verifier_know(struct audit_verifier *v, const struct checkpoint *known, size_t n);

/* Each returns false when what it was given is wrong; v->reason says what is wrong, and where. */
bool audit_verify_start(struct audit_verifier *v, uint64_t base_seq,
                        const uint8_t base[CHECKPOINT_HASH_SIZE]);
bool audit_verify_record(struct audit_verifier *v, const char *record, size_t len, const char *more,
                         size_t more_len, const uint8_t hash[CHECKPOINT_HASH_SIZE]);
bool audit_verify_checkpoint(struct audit_verifier *v, const struct checkpoint *c);
/* A checkpoint that changes the key, of a record before the base: what it says of keys counts. */
bool audit_verify_key_change(struct audit_verifier *v, const struct checkpoint *c);
/* One line of an export, without newline. */
bool audit_verify_line(struct audit_verifier *v, const char *line, size_t len);
/* The same in pieces of any size; the last line must have come whole before the end is checked. */
bool audit_verify_feed(struct audit_verifier *v, const char *piece, size_t len);
/* Lines of a whole text; the last must end in a newline. */
bool audit_verify_text(struct audit_verifier *v, const char *text, size_t len);
/* After the last: whether all that is known was met. */
bool audit_verify_end(struct audit_verifier *v);
/* An export: it ends in its footer, too. That of a daemon which did not run is the newest
 * checkpoint, v->last.purpose tells. */
bool audit_verify_export_end(struct audit_verifier *v);

#define AUDIT_HEADER_SIZE 384
struct audit_header {
    uint64_t base_seq, last_seq;
    uint8_t base[CHECKPOINT_HASH_SIZE];
    uint8_t key[CHECKPOINT_KEY_SIZE];
    uint8_t first_key[CHECKPOINT_KEY_SIZE]; /* zeros: the header is of version 1 */
};
size_t audit_header_format(const struct audit_header *h, char out[AUDIT_HEADER_SIZE]);
