/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the audit share; for no one else.
 *
 *   audit.c             records to the file, and what waits for it
 *   calls.c       intents without an end
 *   batch.c       from the file into the chain, on the store's worker
 *   checkpoint.c  having the chain's head signed
 *   retention.c   dropping old records
 *   recover.c     the start
 *   secret.c      keyed hashes of what may be secret
 *   query.c       reading pages, on a worker
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "audit/chain.h"
#include "audit/file.h"
#include "audit/record.h"
#include "audit/audit.h"
#include "loop/loop.h"

struct map;

#define AUDIT_OPEN_FROM "open_from" /* in audit_number: the oldest intent without an end */

#define AUDIT_SIGNING_KEY "signing_key" /* and what the public key starts with */

#define AUDIT_BYTES "bytes" /* and how long the records there are together */

#define AUDIT_SECRET_SIZE 32

struct audit_head {
    uint64_t seq;
    uint8_t hash[CHECKPOINT_HASH_SIZE];
};

/* Lines on their way into the database; the worker's while busy. */
struct audit_batch {
    struct strbuf lines;
    struct audit_head head; /* before it; the worker moves it on */
    struct audit_hasher *hasher;
    size_t bytes; /* of its records, once they are inserted */
    uint64_t open_from;
    int sync_fds[2]; /* to be synced with it, or -1 */
};

/* A waiter until the record `seq` is in the database, or could not be put there. */
struct audit_waiter {
    struct list node;
    uint64_t seq;
    void (*on_chained)(struct audit_waiter *w);
};

struct audit {
    uv_loop_t *loop;
    struct audit_config config;
    struct audit_signer signer; /* sign NULL if there is none */
    struct store *store;
    uint8_t secret[AUDIT_SECRET_SIZE];
    struct audit_file file;
    uint64_t seq;       /* of the newest record in the file */
    struct strbuf line; /* the record being written */
    struct map *open;   /* intents without an end, by call_id */
    struct list open_in_order;
    uint64_t recovered_seq; /* newest record of an earlier control plane */
    struct list owed;       /* what could not be written yet */
    size_t n_owed;
    struct loop_timer owed_timer;

    /* batch.c */
    struct strbuf queued;   /* lines that are in the file and not in a batch */
    struct audit_head head; /* of what is in the database */
    struct audit_batch batch;
    bool chaining;
    bool closing;
    unsigned failures; /* batches in a row that could not be written */
    struct loop_timer batch_timer;
    struct list waiters; /* struct audit_waiter */
    struct list watches; /* struct audit_watch */

    /* checkpoint.c */
    struct checkpoint signed_last; /* and stored; seq 0 if there is none */
    bool signing;                  /* from the decision to sign until it is stored */
    struct checkpoint unsaved;
    bool key_replaced; /* the newest checkpoint is of a lost key: the next one has to say so */
    struct loop_timer checkpoint_timer, retention_timer;
    struct list checkpoint_calls; /* who waits for one */
    bool dropping;
    uint64_t first_seq; /* oldest record kept, once looked at */
    int64_t bytes;      /* of the records in the database */
    int emptying;       /* the part of the file, or -1 */
    size_t jobs;        /* workers under way, and queries */
    int timers;         /* still to be closed */
};

/* audit.c: records that tell of the audit itself. */
void audit_note_text(struct audit *a, const char *kind, const char *outcome, const char *details);

/* calls.c */
/* A call that a record opens has the action, tool and sandbox of its intent, where there is one,
 * and the later records of the call have them as well. */
void audit_calls_apply(struct audit *a, int flags, const char *call_id, uint64_t seq,
                       const struct audit_record *intent);
/* The record with the action and tool of its call, where it has none itself. Borrows them. */
struct audit_record audit_calls_complete(const struct audit *a, const struct audit_record *r);
/* What audit_calls_apply() does, from a line of the file or the database. */
void audit_calls_read(struct audit *a, const char *line, size_t len, uint64_t seq);
void audit_calls_free(struct audit *a);
/* The lowest sequence number of them, or 0. */
uint64_t audit_calls_lowest(const struct audit *a);
/* Those of records up to seq, at most max; how many there are. */
/* Which call's intent is that record; false: none that has no end. */
bool audit_calls_at(const struct audit *a, uint64_t seq, char ret[AUDIT_CALL_ID_SIZE]);
size_t audit_calls_up_to(const struct audit *a, uint64_t seq, uint64_t *ret, size_t max);

/* batch.c */
void audit_batch_init(struct audit *a);
/* False: the database is so far behind that nothing more is taken. */
bool audit_batch_has_room(const struct audit *a);
void audit_batch_queue(struct audit *a); /* the line that was just written, a->line */
void audit_batch_start(struct audit *a); /* at once */
void audit_wait(struct audit *a,
                struct audit_waiter *w); /* from inside where it is there already */
void audit_batch_done(struct audit *a);

/* checkpoint.c */
void audit_checkpoint_init(struct audit *a);
void audit_checkpoint_consider(struct audit *a); /* after a batch */
/* Puts on record that the key was rotated with that checkpoint. */
void audit_note_rotated(struct audit *a, const struct checkpoint *c);

/* retention.c */
void audit_retention_init(struct audit *a);
void audit_retention_consider(struct audit *a); /* after a checkpoint */

/* secret.c: the key, made where there is none. */
int audit_secret_open(struct audit *a, const char *dir, struct error *err);

/* recover.c */
int audit_recover(struct audit *a, struct error *err);
