/* SPDX-License-Identifier: Apache-2.0 */
/* One SQLite file, one writer. The loop's thread queues changes and never waits for the disk; a
 * thread of the store's own takes all that is queued and commits it in one transaction. While a
 * commit runs, what comes gathers for the next, so that a busy daemon makes larger commits and
 * not more of them.
 *
 * The connection is opened without a mutex and has exactly one user at a time: the writer while
 * `busy` is set, the loop otherwise. `queued` is always the loop's; `writing` changes hands with
 * `busy`. That is all the locking there is.
 *
 * Order: changes are applied in the order in which they were put, and on_durable comes in that
 * order, after the commit that holds the change. A caller that must not answer before its row is
 * safe answers from there. */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/log.h"
#include "loop/loop.h"
#include "store/db-error.h"
#include "store/statement.h"

#define STORE_FILE    "state.db"
#define STORE_VERSION 2    /* since 2 there are keys, which an older program would not ask for */
#define STORE_SOON_MS 20   /* changes that no callback waits for share a commit */
#define STORE_BUSY_MS 5000 /* waits for another process that reads the file */

static const char *const table_names[] = {
    "sandbox", "exec",  "idempotency", "api_key",       "skill",    "approval", "action",
    "clock",   "event", "secret",      "traffic_token", "snapshot", "tombstone"};
static_assert(ELEMENTS(table_names) == _STORE_TABLE_MAX, "a name per table");

/* One change. body NULL: a delete. apply set: whatever that does. */
struct change {
    struct list node;
    store_apply_fn apply;
    enum store_table table;
    char *key;
    char *body;
    size_t len;
    store_done_fn on_durable;
    void *data;
};

struct store {
    sqlite3 *db;
    char *path;
    uv_loop_t *loop;
    struct loop_thread *writer; /* commits wait for each other and for no other work */
    sqlite3_stmt *put[_STORE_TABLE_MAX], *remove[_STORE_TABLE_MAX];
    struct list queued;           /* the loop's */
    struct list writing;          /* the writer's while busy */
    struct loop_timer soon;       /* changes that no callback waits for gather until it fires */
    int n_open;                   /* the timer and the writer, until they are closed */
    void (*on_batch)(void *data); /* or NULL */
    void *batch_data;
    bool wished;      /* store_want_batch() */
    bool wanted;      /* a caller waits for what is queued */
    bool busy;        /* a batch is being written, or reported */
    struct error err; /* of the batch being written */
};

/* --- opening */

static int db_error(struct store *s, struct error *err, const char *what)
{
    return error_set(err, db_error_code(s->db), 0, "%s: %s", what, sqlite3_errmsg(s->db));
}

static int exec_sql(struct store *s, const char *sql, struct error *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(s, err, sql);
}

static int read_number(struct store *s, const char *sql, int *ret, struct error *err)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return db_error(s, err, sql);
    int step = sqlite3_step(stmt);
    *ret = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return step == SQLITE_ROW ? 0 : db_error(s, err, sql);
}

/* Once per start. A database that is damaged in part would lose sandboxes without a word, so the
 * start fails and says which file it is. */
static int check_integrity(struct store *s, struct error *err)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &stmt, NULL) != SQLITE_OK)
        return db_error(s, err, "quick_check");
    bool good = sqlite3_step(stmt) == SQLITE_ROW &&
                strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    if (!good)
        error_set(err, db_error_code(s->db), 0, "the database is damaged: %s",
                  sqlite3_column_text(stmt, 0) ? (const char *)sqlite3_column_text(stmt, 0)
                                               : sqlite3_errmsg(s->db));
    sqlite3_finalize(stmt);
    return good ? 0 : -EIO;
}

/* Tables are only ever added, which an older program does not notice. STORE_VERSION rises when an
 * older program must not be started on the file any more. */
static int store_migrate(struct store *s, struct error *err)
{
    int version = 0;
    int r = read_number(s, "PRAGMA user_version", &version, err);
    if (r >= 0 && version > STORE_VERSION)
        return error_set(err, ERROR_INTERNAL, 0,
                         "the database is of version %d, this program knows %d: use the newer "
                         "program",
                         version, STORE_VERSION);
    for (int t = 0; r >= 0 && t < _STORE_TABLE_MAX; t++) {
        _cleanup_free_ char *sql = xasprintf("CREATE TABLE IF NOT EXISTS %s "
                                             "(key TEXT PRIMARY KEY, body BLOB NOT NULL) "
                                             "STRICT, WITHOUT ROWID",
                                             table_names[t]);
        r = exec_sql(s, sql, err);
    }
    if (r < 0 || version == STORE_VERSION) /* a start on a full disk writes nothing */
        return r;
    _cleanup_free_ char *set = xasprintf("PRAGMA user_version = %d", STORE_VERSION);
    return exec_sql(s, set, err);
}

static int open_database(struct store *s, const char *path, struct error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
        return db_error(s, err, "open");
    sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
    /* Before anything is written: a journal mode that is set, or a table that is added, would be a
     * change of a file that may have to be looked at as it was found. */
    int r = check_integrity(s, err);
    /* NORMAL: a kill -9 loses nothing; power loss may lose the last commits, never the file. */
    if (r < 0)
        return r;
    r = exec_sql(s,
                 "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                 "PRAGMA temp_store = MEMORY",
                 err);
    if (r < 0)
        return r;
    r = store_migrate(s, err);
    if (r < 0)
        return r;
    for (int t = 0; t < _STORE_TABLE_MAX; t++) {
        _cleanup_free_ char *put =
            xasprintf("INSERT OR REPLACE INTO %s VALUES (?1, ?2)", table_names[t]);
        _cleanup_free_ char *del = xasprintf("DELETE FROM %s WHERE key = ?1", table_names[t]);
        if (sqlite3_prepare_v2(s->db, put, -1, &s->put[t], NULL) != SQLITE_OK ||
            sqlite3_prepare_v2(s->db, del, -1, &s->remove[t], NULL) != SQLITE_OK)
            return db_error(s, err, "prepare");
    }
    return 0;
}

static void free_handles(struct store *s)
{
    if (s->db)
        statements_free(s->db);
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}

static void on_soon(void *data);

struct store *store_open(const char *dir, uv_loop_t *loop, struct error *err)
{
    struct store *s = new0(struct store);
    s->path = xasprintf("%s/" STORE_FILE, dir);
    s->loop = loop;
    list_init(&s->queued);
    list_init(&s->writing);
    if (open_database(s, s->path, err) < 0) {
        error_prefix(err, "%s cannot be used (move it away to start empty, or restore a copy)",
                     s->path);
        free_handles(s);
        return NULL;
    }
    loop_timer_init(&s->soon, loop, on_soon, s);
    s->writer = loop_thread_new(loop);
    s->n_open = 2;
    return s;
}

/* --- writing */

static void change_free(struct change *c)
{
    list_remove(&c->node);
    free(c->key);
    free(c->body);
    free(c);
}

static int apply_change(struct store *s, const struct change *c)
{
    if (c->apply)
        return c->apply(s->db, c->data);
    sqlite3_stmt *stmt = c->body ? s->put[c->table] : s->remove[c->table];
    sqlite3_bind_text(stmt, 1, c->key, -1, SQLITE_STATIC);
    if (c->body)
        sqlite3_bind_blob64(stmt, 2, c->body, c->len, SQLITE_STATIC);
    int step = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return step == SQLITE_DONE ? 0 : -EIO;
}

/* Batches are told apart by what they hold: when those of the audit and of the journal of changes
 * come does not depend on what a test does. */
static bool batch_has_rows(const struct store *s)
{
    list_for_each(c, &s->writing, struct change, node) {
        if (!c->apply && c->table != STORE_EVENT)
            return true;
    }
    return false;
}

#define COMMIT_POINT(name)                                                                         \
    do {                                                                                           \
        if (rows)                                                                                  \
            fault_point(name);                                                                     \
    } while (0)

/* On the writer's thread: all of one batch, or nothing of it. */
static void write_batch(void *data)
{
    struct store *s = data;
    bool rows = batch_has_rows(s);
    error_clear(&s->err);
    COMMIT_POINT("commit.begin");
    /* IMMEDIATE takes the write lock at once and waits for it (STORE_BUSY_MS). A transaction that
     * began as a reader and then met another writer would fail without any wait. */
    if (statement_run(s->db, "BEGIN IMMEDIATE") < 0) {
        db_error(s, &s->err, "BEGIN IMMEDIATE");
        return;
    }
    list_for_each(c, &s->writing, struct change, node) {
        if (apply_change(s, c) >= 0)
            continue;
        db_error(s, &s->err, "write");
        break;
    }
    COMMIT_POINT("commit.before");
    if (!error_is_set(&s->err) && statement_run(s->db, "COMMIT") < 0)
        db_error(s, &s->err, "COMMIT");
    COMMIT_POINT("commit.done");
    if (error_is_set(&s->err))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static void start_batch(struct store *s);
static void start_soon(struct store *s);

/* Each change is taken out and freed before its callback comes, because the callback may put
 * another one. */
static void finish_batch(struct store *s)
{
    struct error err = s->err;
    if (error_is_set(&err))
        log_error("state database: %s", err.message);
    while (!list_empty(&s->writing)) {
        struct change *c = container_of(s->writing.next, struct change, node);
        store_done_fn fn = c->on_durable;
        void *data = c->data;
        change_free(c);
        if (fn)
            fn(data, error_is_set(&err) ? &err : NULL);
    }
}

/* The store stays busy while the callbacks run: a change made from inside on_durable must not join
 * this batch. */
static void on_batch_done(void *data)
{
    struct store *s = data;
    finish_batch(s);
    s->busy = false;
    if (s->wanted)
        start_batch(s);
    else if (s->wished || !list_empty(&s->queued))
        start_soon(s);
}

/* on_batch may add rows that can only be made now: the audit's and the journal's share the commit
 * with everything else. */
static void take_queue(struct store *s)
{
    s->wished = false;
    if (s->on_batch)
        s->on_batch(s->batch_data);
    while (!list_empty(&s->queued)) {
        struct list *node = s->queued.next;
        list_remove(node);
        list_append(&s->writing, node);
    }
}

/* One batch at a time. What comes while one is being written waits for it to end and then goes in
 * one commit together: under load a commit carries more, and does not come more often. */
static void start_batch(struct store *s)
{
    s->wanted = true;
    if (s->busy)
        return;
    s->busy = true;
    s->wanted = false;
    take_queue(s);
    if (list_empty(&s->writing)) {
        s->busy = false;
        return;
    }
    loop_thread_work(s->writer, write_batch, on_batch_done, s);
}

static void on_soon(void *data)
{
    start_batch(data);
}

static void start_soon(struct store *s)
{
    if (!s->busy && !loop_timer_active(&s->soon))
        loop_timer_start(&s->soon, STORE_SOON_MS);
}

void store_on_batch(struct store *s, void (*fn)(void *data), void *data)
{
    s->on_batch = fn;
    s->batch_data = data;
}

void store_want_batch(struct store *s)
{
    s->wished = true;
    start_soon(s);
}

static void on_part_closed(void *data)
{
    ((struct store *)data)->n_open--;
}

static void queue_change(struct store *s, enum store_table table, const char *key, const char *body,
                         size_t len, store_done_fn on_durable, void *data)
{
    struct change *c = new0(struct change);
    c->table = table;
    c->key = xstrdup(key);
    if (body) {
        c->body = xcalloc(1, len + 1);
        memcpy(c->body, body, len);
        c->len = len;
    }
    c->on_durable = on_durable;
    c->data = data;
    list_append(&s->queued, &c->node);
}

void store_put(struct store *s, enum store_table table, const char *key, const char *body,
               size_t len, store_done_fn on_durable, void *data)
{
    queue_change(s, table, key, body, len, on_durable, data);
    start_batch(s);
}

void store_put_soon(struct store *s, enum store_table table, const char *key, const char *body,
                    size_t len, store_done_fn on_durable, void *data)
{
    queue_change(s, table, key, body, len, on_durable, data);
    start_soon(s);
}

void store_delete(struct store *s, enum store_table table, const char *key,
                  store_done_fn on_durable, void *data)
{
    queue_change(s, table, key, NULL, 0, on_durable, data);
    if (on_durable)
        start_batch(s);
    else
        start_soon(s);
}

void store_apply(struct store *s, store_apply_fn apply, store_done_fn on_durable, void *data)
{
    struct change *c = new0(struct change);
    *c = (struct change){.apply = apply, .on_durable = on_durable, .data = data};
    list_append(&s->queued, &c->node);
    start_batch(s);
}

/* The connection has no lock of its own: it is the writer's while a batch is being written. */
static void wait_written(struct store *s)
{
    while (s->busy)
        uv_run(s->loop, UV_RUN_ONCE);
}

struct sqlite3 *store_database(struct store *s)
{
    wait_written(s);
    return s->db;
}

const char *store_path(const struct store *s)
{
    return s->path;
}

/* The loop is run here until the writer has ended, so its callbacks come as at any other time. What
 * is queued after that is written on this thread; nothing that was put is lost by a close. */
void store_close(struct store *s)
{
    if (!s)
        return;
    loop_timer_close(&s->soon, on_part_closed, s);
    while (s->busy)
        uv_run(s->loop, UV_RUN_ONCE);
    loop_thread_close(s->writer, on_part_closed, s);
    while (s->n_open)
        uv_run(s->loop, UV_RUN_ONCE);
    s->busy = true; /* what on_durable still puts is written here, not by the writer */
    /* A callback of one round may put rows for the next, so it goes on until a round finds none. */
    while (take_queue(s), !list_empty(&s->writing)) {
        write_batch(s);
        finish_batch(s);
    }
    free_handles(s);
}

/* --- reading */

int store_load(struct store *s, enum store_table table,
               void (*fn)(void *data, const char *key, const char *body, size_t len), void *data,
               struct error *err)
{
    sqlite3_stmt *stmt;
    int step;
    wait_written(s);
    _cleanup_free_ char *sql = xasprintf("SELECT key, body FROM %s", table_names[table]);
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return db_error(s, err, sql);
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW)
        fn(data, (const char *)sqlite3_column_text(stmt, 0), sqlite3_column_blob(stmt, 1),
           (size_t)sqlite3_column_bytes(stmt, 1));
    sqlite3_finalize(stmt);
    return step == SQLITE_DONE ? 0 : db_error(s, err, sql);
}
