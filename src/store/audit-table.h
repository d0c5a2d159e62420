/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's tables in the state database: records with their chain hash, checkpoints as text, and
 * a few numbers. What they mean is audit/audit.h's. Functions return 0 or -EIO with the reason in
 * the database's message, unless they take an error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct sqlite3;
struct sqlite3_stmt;

#define AUDIT_TABLE_HASH_SIZE 32

int audit_table_create(struct sqlite3 *db, struct error *err);

/* Within a transaction of the store's. */
struct audit_insert {
    struct sqlite3_stmt *stmt;
};
int audit_insert_begin(struct audit_insert *i, struct sqlite3 *db);
int audit_insert_row(struct audit_insert *i, uint64_t seq,
                     const uint8_t hash[AUDIT_TABLE_HASH_SIZE], const char *body, size_t len);
int audit_table_put_checkpoint(struct sqlite3 *db, uint64_t seq, const char *text);
int audit_table_put_number(struct sqlite3 *db, const char *name, int64_t value);
int audit_table_add_number(struct sqlite3 *db, const char *name, int64_t delta);
/* How many bytes the records up to seq have. */
int audit_table_bytes(struct sqlite3 *db, uint64_t seq, int64_t *ret);
/* Records up to seq, and checkpoints before it, at most max of each. Checkpoints that change the
 * signing key stay: without them a verifier that knows the first key could not trust the newest. */
int audit_table_drop(struct sqlite3 *db, uint64_t seq, uint32_t max);

/* Leaves *ret as it was where there is none. */
int audit_table_get_number(struct sqlite3 *db, const char *name, int64_t *ret, struct error *err);

/* Reading, on any connection. */
struct audit_row {
    uint64_t seq;
    const uint8_t *hash; /* AUDIT_TABLE_HASH_SIZE bytes, or NULL where it is not as long */
    const char *body;    /* not NUL-terminated */
    size_t len;
};
struct audit_cursor {
    struct sqlite3 *db;
    struct sqlite3_stmt *stmt;
};
#define _cleanup_audit_cursor_ __attribute__((cleanup(audit_cursor_close)))
enum audit_order { AUDIT_OLDEST_FIRST, AUDIT_NEWEST_FIRST };
/* Records with since < seq <= until. */
int audit_cursor_open(struct audit_cursor *c, struct sqlite3 *db, uint64_t since, uint64_t until,
                      enum audit_order order, struct error *err);
/* The same of checkpoints; their rows have no hash. */
int audit_cursor_open_checkpoints(struct audit_cursor *c, struct sqlite3 *db, uint64_t since,
                                  uint64_t until, enum audit_order order, struct error *err);
/* Only those that change the signing key, up to `until`, oldest first. */
int audit_cursor_open_key_changes(struct audit_cursor *c, struct sqlite3 *db, uint64_t until,
                                  struct error *err);
/* 1 with a row that is valid until the next call, 0 at the end, negative with err set. */
int audit_cursor_next(struct audit_cursor *c, struct audit_row *ret, struct error *err);
/* Also of one that is all zeros, or could not be opened. */
void audit_cursor_close(struct audit_cursor *c);

/* A connection of one's own that only reads. */
struct sqlite3 *audit_table_open(const char *path, struct error *err);
void audit_table_close(struct sqlite3 *db);
