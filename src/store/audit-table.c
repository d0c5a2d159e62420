/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's rows, which are written once and never changed. A row's number is its place in the
 * chain of hashes; rows go only from the old end (retention), and checkpoints that change the
 * signing key stay for ever, because without them it is not possible to verify what came after. */
#include "store/audit-table.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/db-error.h"
#include "store/statement.h"

#define READ_BUSY_MS 5000

/* What the text of a checkpoint that changes the signing key starts with: {"checkpoint":"r, which
 * no other purpose does (proto/checkpoint.c). */
#define KEY_CHANGE_START "X'7b22636865636b706f696e74223a2272'"

static int db_error(sqlite3 *db, struct error *err, const char *what)
{
    error_set(err, db_error_code(db), 0, "audit: %s: %s", what, sqlite3_errmsg(db));
    return -EIO;
}

int audit_table_create(sqlite3 *db, struct error *err)
{
    static const char sql[] =
        "CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL,"
        " body BLOB NOT NULL) STRICT;"
        "CREATE TABLE IF NOT EXISTS audit_checkpoint (seq INTEGER PRIMARY KEY,"
        " body BLOB NOT NULL) STRICT;"
        "CREATE TABLE IF NOT EXISTS audit_number (name TEXT PRIMARY KEY, value INTEGER NOT NULL)"
        " STRICT, WITHOUT ROWID";
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(db, err, "tables");
}

/* --- writing */

int audit_insert_begin(struct audit_insert *i, sqlite3 *db)
{
    static const char sql[] = "INSERT INTO audit VALUES (?1, ?2, ?3)";
    i->stmt = statement_get(db, sql);
    return i->stmt ? 0 : -EIO;
}

int audit_insert_row(struct audit_insert *i, uint64_t seq,
                     const uint8_t hash[AUDIT_TABLE_HASH_SIZE], const char *body, size_t len)
{
    sqlite3_bind_int64(i->stmt, 1, (sqlite3_int64)seq);
    sqlite3_bind_blob(i->stmt, 2, hash, AUDIT_TABLE_HASH_SIZE, SQLITE_STATIC);
    sqlite3_bind_blob64(i->stmt, 3, body, len, SQLITE_STATIC);
    int step = sqlite3_step(i->stmt);
    sqlite3_reset(i->stmt);
    sqlite3_clear_bindings(i->stmt);
    return step == SQLITE_DONE ? 0 : -EIO;
}

/* One statement with a number and a text or number. */
static int run_statement(sqlite3 *db, const char *sql,
                         void (*bind)(sqlite3_stmt *stmt, const void *args), const void *args)
{
    sqlite3_stmt *stmt = statement_get(db, sql);
    if (!stmt)
        return -EIO;
    bind(stmt, args);
    int step = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return step == SQLITE_DONE ? 0 : -EIO;
}

struct checkpoint_args {
    uint64_t seq;
    const char *text;
};

static void bind_checkpoint(sqlite3_stmt *stmt, const void *args)
{
    const struct checkpoint_args *a = args;
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)a->seq);
    sqlite3_bind_blob(stmt, 2, a->text, (int)strlen(a->text), SQLITE_STATIC);
}

int audit_table_put_checkpoint(sqlite3 *db, uint64_t seq, const char *text)
{
    struct checkpoint_args args = {seq, text};
    return run_statement(db, "INSERT OR REPLACE INTO audit_checkpoint VALUES (?1, ?2)",
                         bind_checkpoint, &args);
}

struct number_args {
    const char *name;
    int64_t value;
};

static void bind_number(sqlite3_stmt *stmt, const void *args)
{
    const struct number_args *a = args;
    sqlite3_bind_text(stmt, 1, a->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, a->value);
}

int audit_table_put_number(sqlite3 *db, const char *name, int64_t value)
{
    struct number_args args = {name, value};
    return run_statement(db, "INSERT OR REPLACE INTO audit_number VALUES (?1, ?2)", bind_number,
                         &args);
}

int audit_table_add_number(sqlite3 *db, const char *name, int64_t delta)
{
    struct number_args args = {name, delta};
    return run_statement(db,
                         "INSERT INTO audit_number VALUES (?1, ?2)"
                         " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                         bind_number, &args);
}

struct drop_args {
    uint64_t seq;
    uint32_t max;
};

static void bind_drop(sqlite3_stmt *stmt, const void *args)
{
    const struct drop_args *a = args;
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)a->seq);
    sqlite3_bind_int64(stmt, 2, a->max);
}

int audit_table_drop(sqlite3 *db, uint64_t seq, uint32_t max)
{
    struct drop_args args = {seq, max};
    /* Records up to `seq`, but checkpoints only before it: the one at `seq` is what the rest of
     * the chain is proved from. */
    int r = run_statement(db,
                          "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE seq <= ?1"
                          " ORDER BY seq LIMIT ?2)",
                          bind_drop, &args);
    if (r < 0)
        return r;
    return run_statement(
        db,
        "DELETE FROM audit_checkpoint WHERE seq IN (SELECT seq FROM"
        " audit_checkpoint WHERE seq < ?1 AND substr(body, 1, 16) <> " KEY_CHANGE_START
        " ORDER BY seq LIMIT ?2)",
        bind_drop, &args);
}

/* --- reading */

int audit_table_get_number(sqlite3 *db, const char *name, int64_t *ret, struct error *err)
{
    static const char sql[] = "SELECT value FROM audit_number WHERE name = ?1";
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return db_error(db, err, "read");
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    int step = sqlite3_step(stmt);
    if (step == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : db_error(db, err, "read");
}

int audit_table_bytes(sqlite3 *db, uint64_t seq, int64_t *ret)
{
    static const char sql[] = "SELECT coalesce(sum(length(body)), 0) FROM audit WHERE seq <= ?1";
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return -EIO;
    sqlite3_bind_int64(stmt, 1, seq > INT64_MAX ? INT64_MAX : (sqlite3_int64)seq);
    int step = sqlite3_step(stmt);
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return step == SQLITE_ROW ? 0 : -EIO;
}

static int open_cursor(struct audit_cursor *c, sqlite3 *db, const char *select, uint64_t since,
                       uint64_t until, enum audit_order order, struct error *err)
{
    char sql[256];
    snprintf(sql, sizeof(sql), "%s WHERE seq > ?1 AND seq <= ?2 ORDER BY seq%s", select,
             order == AUDIT_NEWEST_FIRST ? " DESC" : "");
    *c = (struct audit_cursor){.db = db};
    if (sqlite3_prepare_v2(db, sql, -1, &c->stmt, NULL) != SQLITE_OK)
        return db_error(db, err, "read");
    sqlite3_bind_int64(c->stmt, 1, since > INT64_MAX ? INT64_MAX : (sqlite3_int64)since);
    sqlite3_bind_int64(c->stmt, 2, until > INT64_MAX ? INT64_MAX : (sqlite3_int64)until);
    return 0;
}

int audit_cursor_open(struct audit_cursor *c, sqlite3 *db, uint64_t since, uint64_t until,
                      enum audit_order order, struct error *err)
{
    return open_cursor(c, db, "SELECT seq, body, hash FROM audit", since, until, order, err);
}

int audit_cursor_open_checkpoints(struct audit_cursor *c, sqlite3 *db, uint64_t since,
                                  uint64_t until, enum audit_order order, struct error *err)
{
    return open_cursor(c, db, "SELECT seq, body, NULL FROM audit_checkpoint", since, until, order,
                       err);
}

int audit_cursor_open_key_changes(struct audit_cursor *c, sqlite3 *db, uint64_t until,
                                  struct error *err)
{
    return open_cursor(c, db,
                       "SELECT seq, body, NULL FROM (SELECT * FROM audit_checkpoint"
                       " WHERE substr(body, 1, 16) = " KEY_CHANGE_START ")",
                       0, until, AUDIT_OLDEST_FIRST, err);
}

int audit_cursor_next(struct audit_cursor *c, struct audit_row *ret, struct error *err)
{
    int step = sqlite3_step(c->stmt);
    if (step == SQLITE_DONE)
        return 0;
    if (step != SQLITE_ROW)
        return db_error(c->db, err, "read");
    *ret = (struct audit_row){
        .seq = (uint64_t)sqlite3_column_int64(c->stmt, 0),
        .body = sqlite3_column_blob(c->stmt, 1),
        .len = (size_t)sqlite3_column_bytes(c->stmt, 1),
    };
    const void *hash = sqlite3_column_blob(c->stmt, 2);
    if (sqlite3_column_bytes(c->stmt, 2) == AUDIT_TABLE_HASH_SIZE)
        ret->hash = hash;
    return 1;
}

void audit_cursor_close(struct audit_cursor *c)
{
    sqlite3_finalize(c->stmt);
    c->stmt = NULL;
}

sqlite3 *audit_table_open(const char *path, struct error *err)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, READ_BUSY_MS);
        return db;
    }
    db_error(db, err, path);
    sqlite3_close(db);
    return NULL;
}

void audit_table_close(sqlite3 *db)
{
    sqlite3_close(db);
}
