/* SPDX-License-Identifier: Apache-2.0 */
/* What must outlive the control plane: rows of JSON in SQLite (WAL), written on a thread of its
 * own.
 *
 * One writer: puts and deletes queue up and go to its thread as one transaction, so that many
 * requests share one commit. Reading happens only at start, before the loop runs. A database that
 * is damaged, or of a newer version, refuses to open and says what to do; nothing is thrown away.
 */
#pragma once

#include <stddef.h>
#include <uv.h>

struct error;
struct sqlite3;
struct store;

enum store_table {
    STORE_SANDBOX,
    STORE_EXEC,
    STORE_IDEMPOTENCY,
    STORE_KEY,
    STORE_SKILL,
    STORE_APPROVAL,
    STORE_ACTION,
    STORE_CLOCK,     /* the largest time seen, for what expires by the wall clock */
    STORE_EVENT,     /* the journal of changes, some events a row (event/event-journal.c) */
    STORE_SECRET,    /* sealed secrets of keys (secret/secrets.c) */
    STORE_TRAFFIC,   /* traffic tokens of sandboxes (port/token.c) */
    STORE_SNAPSHOT,  /* snapshots of sandboxes (sandbox/snapshot.c) */
    STORE_TOMBSTONE, /* sandboxes that their runtime has yet to remove (sandbox/tombstone.c) */
    _STORE_TABLE_MAX,
};

/* dir must exist. */
struct store *store_open(const char *dir, uv_loop_t *loop, struct error *err);
/* Writes what is queued, then closes; blocks. NULL is fine. */
void store_close(struct store *s);

/* body is copied. on_durable (may be NULL) comes once, later: err is set when it could not be
 * written. */
typedef void (*store_done_fn)(void *data, const struct error *err);
void store_put(struct store *s, enum store_table table, const char *key, const char *body,
               size_t len, store_done_fn on_durable, void *data);
/* The same without hurry: it joins the next batch, at the latest after some milliseconds. So does a
 * delete without a callback. */
void store_put_soon(struct store *s, enum store_table table, const char *key, const char *body,
                    size_t len, store_done_fn on_durable, void *data);
void store_delete(struct store *s, enum store_table table, const char *key,
                  store_done_fn on_durable, void *data);

/* fn comes on the loop's thread when a batch is about to go to the writer, also from inside another
 * call of the store: what it puts with store_put_soon() goes with that batch. Once, for the journal
 * of changes. */
void store_on_batch(struct store *s, void (*fn)(void *data), void *data);
/* There is a batch soon, because fn has something to put. */
void store_want_batch(struct store *s);

/* Calls fn for every row by its key, blocking; for use at start. Waits for a batch that is being
 * written. fn must not call the store. */
int store_load(struct store *s, enum store_table table,
               void (*fn)(void *data, const char *key, const char *body, size_t len), void *data,
               struct error *err);

/* For tables of another shape. apply() runs on the writer's thread, in the transaction of its batch
 * and in order with the puts around it; a negative return undoes the batch. on_durable as for
 * store_put(). */
typedef int (*store_apply_fn)(struct sqlite3 *db, void *data);
void store_apply(struct store *s, store_apply_fn apply, store_done_fn on_durable, void *data);
/* The database itself, for use at start, before the loop runs; the file, to read it elsewhere. */
struct sqlite3 *store_database(struct store *s);
const char *store_path(const struct store *s);
