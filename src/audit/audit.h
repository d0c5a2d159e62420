/* SPDX-License-Identifier: Apache-2.0 */
/* What happened, in order, so that it can be proved later.
 *
 * A record is one line of JSON with a fixed order of members. audit_write() appends it to a file
 * with write() before it returns, so a record that was written survives kill -9; a worker then
 * chains it into the state database: hash(n) = SHA-256(hash(n-1), n, bytes of record n). From time
 * to time the warden signs the newest hash (proto/checkpoint.h, audit/chain.h).
 *
 * A call is a story under one call_id: `intent` opens it before anything runs, a kind that ends a
 * call (`exited`, `done`, `interrupted`) closes it, once. What is open when a control plane starts
 * is settled: execs that live or are remembered end as usual, everything else is `interrupted`.
 *
 * Everything here is for the loop's thread. A NULL struct audit takes every record and keeps none:
 * audit is off. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "proto/checkpoint.h"

struct audit;
struct error;
struct identity;
struct store;

#define AUDIT_CALL_ID_SIZE 24 /* with NUL */
#define AUDIT_RECORD_MAX   (64 * 1024)

/* Strings are borrowed; NULL or "" leaves the member out. Bytes that are not UTF-8 become U+FFFD.
 */
struct audit_record {
    const char *kind; /* of the table in kind.h; another one is refused */
    const struct identity *who;
    const char *call_id;   /* audit_call_id(), the same in all records of a call */
    const char *action_id; /* approval, action of the actions API, idempotency key, ... */
    const char *sandbox, *exec;
    const char *tool;
    const char *outcome;      /* "allow", "deny", "ask", "ok", "failed", ... */
    const char *rule;         /* that decided */
    const char *revision;     /* of the policy */
    json_t *details;          /* borrowed; redacted by the caller, hashes instead of contents */
    const char *details_text; /* instead of details: an object as compact JSON, trusted */
};

/* A fresh id for one call. */
void audit_call_id(char out[AUDIT_CALL_ID_SIZE]);
/* "sha256:<hex>" of bytes, for details. */
#define AUDIT_DIGEST_SIZE 72
void audit_digest(const void *data, size_t len, char out[AUDIT_DIGEST_SIZE]);
/* The same of an argument vector: each argument with its NUL. */
void audit_digest_argv(char *const *argv, char out[AUDIT_DIGEST_SIZE]);

/* Makes a digest one that only the key of this state directory leads to: for what may be short and
 * secret. a is not NULL. */
void audit_digest_keyed(const struct audit *a, char digest[AUDIT_DIGEST_SIZE]);
/* A digest of what comes in pieces. *s is NULL before the first; audit_stream_end() frees it (NULL
 * is fine) and returns how many bytes there were. */
struct audit_stream;
void audit_stream_add(struct audit_stream **s, const void *data, size_t len);
uint64_t audit_stream_end(struct audit_stream *s, char out[AUDIT_DIGEST_SIZE]);

/* Appended when it returns 0. Negative: nothing was recorded, and the call must not run. ret_seq
 * may be NULL. */
int audit_write(struct audit *a, const struct audit_record *r, uint64_t *ret_seq,
                struct error *err);
/* For what has happened already and must not get lost: where it cannot be written now it is kept
 * and written before anything else is. A kind that ends a call is written once for each intent. */
void audit_note(struct audit *a, const struct audit_record *r);
/* Whether the intent of that call has no end yet. */
bool audit_is_open(const struct audit *a, const char *call_id);
/* The same, and whether it was meant for that lasting sandbox. */
bool audit_is_open_in(const struct audit *a, const char *call_id, const char *sandbox);

/* --- reading */

struct audit_filter {
    uint64_t since;         /* seq > since */
    uint64_t until;         /* seq <= until; 0: to the newest */
    int64_t from_ns, to_ns; /* 0 means any time */
    const char *kind, *key, *call_id, *action_id, *sandbox, *exec, *tool,
        *outcome; /* NULL means any */
    size_t limit; /* records; 0: AUDIT_PAGE_RECORDS */
    bool newest_first;
};
#define AUDIT_PAGE_RECORDS 1000

/* text: JSON lines, each record with its "hash" as the last member. next: `since` (newest_first:
 * `until`) of the following page; more: there may be one. */
struct audit_page {
    struct strbuf text;
    size_t n;
    uint64_t next;
    bool more;
    uint64_t head; /* newest record there is */
};
/* Everything written before the call is seen. a is not NULL. fn comes once, later, page is
 * borrowed; NULL with err set when it could not be read. */
typedef void (*audit_page_fn)(void *data, const struct audit_page *page, const struct error *err);
void audit_query(struct audit *a, const struct audit_filter *f, audit_page_fn fn, void *data);

/* "2026-01-02T03:04:05.678Z". */
int audit_time_parse(const char *text, int64_t *ret_ns);

/* on_records comes whenever there are new records to query, until it is removed. */
struct audit_watch {
    struct list node;
    void (*on_records)(struct audit_watch *w);
};
void audit_watch_add(struct audit *a, struct audit_watch *w);
void audit_watch_remove(struct audit_watch *w); /* legal when not added */

/* --- checkpoints */

/* Has a checkpoint at the newest record made, unless there is one; c is NULL when it failed. That
 * of an export is made in any case, and so is CHECKPOINT_ROTATE, with which another key signs from
 * here on. */
typedef void (*audit_checkpoint_fn)(void *data, const struct checkpoint *c,
                                    const struct error *err);
void audit_checkpoint_now(struct audit *a, enum checkpoint_purpose purpose, audit_checkpoint_fn fn,
                          void *data);
const uint8_t *audit_public_key(const struct audit *a); /* NULL if none is known */

/* --- life */

enum audit_fsync { AUDIT_FSYNC_NEVER, AUDIT_FSYNC_BATCH, AUDIT_FSYNC_ALWAYS };

/* The holder of the signing key. done comes later, exactly once; c is NULL when refused. */
typedef void (*audit_signed_fn)(void *data, const struct checkpoint *c, const char *why);
struct audit_signer {
    void (*sign)(void *data, enum checkpoint_purpose purpose, uint64_t seq,
                 const uint8_t head[CHECKPOINT_HASH_SIZE], audit_signed_fn done, void *done_data);
    void *data;
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    struct checkpoint last; /* what it signed last; seq 0: nothing */
};

struct audit_config {
    enum audit_fsync fsync;
    uint64_t checkpoint_records; /* sign after so many records; 0: not by count */
    uint64_t checkpoint_ms;      /* and so long after an unsigned record; 0: not by time */
    uint64_t retention_ms;       /* kept for so long; 0 means for ever */
    uint64_t retention_records;  /* and so many at least, however old */
    uint64_t max_bytes;          /* but no more of them than this; 0: no such limit */
};

/* dir holds the files and exists. Chains what an earlier control plane left unchained; blocks.
 * signer may be NULL: then there are no checkpoints. */
struct audit *audit_open(const char *dir, struct store *store, const struct audit_signer *signer,
                         uv_loop_t *loop, const struct audit_config *c, struct error *err);
/* After the sandboxes were restored: every intent that an earlier control plane left open, and
 * that lives() says has ended, is recorded as interrupted. */
void audit_settle(struct audit *a, bool (*lives)(void *data, const char *call_id), void *data);
/* Before store_close(): chains and stores what is left, blocking. NULL is fine. */
void audit_close(struct audit *a);
