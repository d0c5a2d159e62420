/* SPDX-License-Identifier: Apache-2.0 */
/* The start: what the database has, what the file has beyond it, what the warden has signed, and
 * which calls were left open, put together. Blocks; the loop does not run yet.
 *
 * Lines of the file that the database lacks are chained. Bytes that are no record, a torn last line
 * among them, are recorded as `damage` with their digest: what a torn line was about never ran.
 * When the warden has signed more than there is, records are gone; the chain goes on behind the
 * signed place, so that the loss stays visible and everything after it can be proved. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "audit/internal.h"
#include "store/audit-table.h"
#include "store/db-error.h"
#include "store/store.h"

#define DAMAGE_MAX 8 /* records of damage; the rest is counted */

struct recovery {
    struct audit *audit;
    sqlite3 *db;
    struct audit_insert insert;
    size_t n_chained, n_damaged, n_missing, bytes_chained;
    char damage[DAMAGE_MAX][160]; /* details to record */
    bool key_changed;
    uint64_t signed_before;    /* with key_changed: the newest record that the other key signed */
    struct checkpoint rotated; /* a rotation that is not on record yet; seq 0 if there is none */
};

static int run_sql(sqlite3 *db, const char *text, struct error *err)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    error_set(err, db_error_code(db), 0, "audit: %s: %s", text, sqlite3_errmsg(db));
    return -EIO;
}

static int read_head(struct audit *a, sqlite3 *db, struct error *err)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    int r = audit_cursor_open(&c, db, 0, INT64_MAX, AUDIT_NEWEST_FIRST, err);
    if (r < 0)
        return r;
    r = audit_cursor_next(&c, &row, err);
    if (r < 0)
        return r;
    if (r > 0) {
        if (!row.hash)
            return error_set(err, ERROR_INTERNAL, 0, "audit: record %" PRIu64 " has no hash",
                             row.seq);
        a->head.seq = row.seq;
        memcpy(a->head.hash, row.hash, sizeof(a->head.hash));
    }
    a->seq = a->head.seq;
    return 0;
}

/* --- the file's tail */

static int chain_line(struct recovery *v, const char *line, size_t len, uint64_t seq,
                      struct error *err)
{
    struct audit *a = v->audit;
    v->n_missing += seq - a->head.seq - 1;
    audit_hash(a->batch.hasher, a->head.hash, seq, line, len, NULL, 0, a->head.hash);
    a->head.seq = a->seq = seq;
    v->n_chained++;
    v->bytes_chained += len;
    if (audit_insert_row(&v->insert, seq, a->head.hash, line, len) >= 0)
        return 0;
    return error_set(err, db_error_code(v->db), 0, "audit: chain: %s", sqlite3_errmsg(v->db));
}

static bool is_record(const char *line, size_t len)
{
    return len <= AUDIT_RECORD_MAX && audit_record_seq(line, len) && line[len - 1] == '}' &&
           !memchr(line, 0, len);
}

static int on_line(void *data, const char *line, size_t len, bool complete, struct error *err)
{
    struct recovery *v = data;
    uint64_t seq = audit_record_seq(line, len);
    if (!complete || !is_record(line, len)) {
        const char *what = complete ? "not a record" : "torn";
        char digest[AUDIT_DIGEST_SIZE];
        audit_digest(line, len, digest);
        if (v->n_damaged < DAMAGE_MAX)
            snprintf(v->damage[v->n_damaged], sizeof(v->damage[0]),
                     "{\"what\":\"%s\",\"bytes\":%zu,\"digest\":\"%s\"}", what, len, digest);
        v->n_damaged++;
        return 0;
    }
    return seq <= v->audit->head.seq ? 0 : chain_line(v, line, len, seq, err);
}

static int chain_tail(struct recovery *v, struct error *err)
{
    int r = run_sql(v->db, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    if (audit_insert_begin(&v->insert, v->db) < 0) {
        r = error_set(err, db_error_code(v->db), 0, "audit: %s", sqlite3_errmsg(v->db));
        goto rollback;
    }
    r = audit_file_load(&v->audit->file, on_line, v, err);
    if (r < 0)
        goto rollback;
    if (audit_table_add_number(v->db, AUDIT_BYTES, (int64_t)v->bytes_chained) < 0) {
        r = error_set(err, db_error_code(v->db), 0, "audit: %s", sqlite3_errmsg(v->db));
        goto rollback;
    }
    r = run_sql(v->db, "COMMIT", err);
    if (r >= 0)
        return r;
rollback:
    sqlite3_exec(v->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

/* Everything the file has is in the database; once that is on disk the file is not needed. */
static int empty_file(struct recovery *v, struct error *err)
{
    int r = run_sql(v->db, "PRAGMA wal_checkpoint(TRUNCATE)", err);
    for (int i = 0; r >= 0 && i < 2; i++)
        if (v->audit->file.parts[i].size)
            audit_file_empty(&v->audit->file, i);
    return r;
}

/* --- what was signed */

static int newest_stored(sqlite3 *db, struct checkpoint *ret, struct error *err)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    int r = audit_cursor_open_checkpoints(&c, db, 0, INT64_MAX, AUDIT_NEWEST_FIRST, err);
    if (r < 0)
        return r;
    r = audit_cursor_next(&c, &row, err);
    if (r < 0)
        return r;
    if (r > 0 && !checkpoint_parse(row.body, row.len, ret))
        log_error("audit: the stored checkpoint %" PRIu64 " is damaged", row.seq);
    return 0;
}

static bool is_signed_with(const struct audit_key *key, const struct checkpoint *c)
{
    return checkpoint_changes_key(c) ? audit_key_takes_over(key, c) : audit_key_verifies(key, c);
}

/* Whether the key that signed until now handed over to the one there is. */
static bool is_rotation(const struct audit *a, const struct checkpoint *c, int64_t before)
{
    return c->seq && c->purpose == CHECKPOINT_ROTATE &&
           memcmp(c->new_key, a->signer.public_key, sizeof(c->new_key)) == 0 &&
           memcmp(c->old_key, &before, sizeof(before)) == 0;
}

/* Databases of versions before do not say which key it was: the newest checkpoint does. */
static int meet_key(struct recovery *v, struct error *err)
{
    struct audit *a = v->audit;
    const struct checkpoint *last = a->signer.last.seq ? &a->signer.last : &a->signed_last;
    int64_t before = 0, now;
    memcpy(&now, a->signer.public_key, sizeof(now));
    struct audit_key *key = audit_key_new(a->signer.public_key);
    a->key_replaced = last->seq && key && !is_signed_with(key, last);
    audit_key_free(key);
    int r = audit_table_get_number(v->db, AUDIT_SIGNING_KEY, &before, err);
    if (r < 0 || before == now)
        return r;
    if (is_rotation(a, last, before))
        v->rotated = *last;
    else
        v->key_changed = before || a->key_replaced;
    v->signed_before = a->signed_last.seq;
    if (audit_table_put_number(v->db, AUDIT_SIGNING_KEY, now) < 0)
        return error_set(err, db_error_code(v->db), 0, "audit: %s", sqlite3_errmsg(v->db));
    return 0;
}

/* The warden remembers its last signature, and the database the newest one that was stored. Where
 * the warden has signed a later record than there is, records are missing: the state was altered or
 * an older copy was put back. The chain goes on from what was signed, so that no number is used
 * twice. */
static int meet_signer(struct recovery *v, struct error *err)
{
    struct audit *a = v->audit;
    const struct checkpoint *last = &a->signer.last;
    char text[CHECKPOINT_TEXT_SIZE];
    int r = newest_stored(v->db, &a->signed_last, err);
    if (r < 0 || !a->signer.sign)
        return r;
    r = meet_key(v, err);
    if (r < 0)
        return r;
    if (last->seq && last->seq != a->signed_last.seq) {
        checkpoint_format(last, text);
        if (audit_table_put_checkpoint(v->db, last->seq, text) < 0)
            return error_set(err, db_error_code(v->db), 0, "audit: %s", sqlite3_errmsg(v->db));
    }
    a->signed_last = *last;
    if (last->seq > a->head.seq) {
        v->n_missing += last->seq - a->head.seq;
        a->head.seq = a->seq = last->seq;
        memcpy(a->head.hash, last->head, sizeof(a->head.hash));
    }
    return 0;
}

/* --- open calls */

static int read_open_calls(struct recovery *v, struct error *err)
{
    struct audit_cursor c;
    struct audit_row row;
    int64_t from = 0;
    int r = audit_table_get_number(v->db, AUDIT_OPEN_FROM, &from, err);
    /* Without one, no call was open when the last batch was made: what follows is the tail. */
    uint64_t since = from > 0 ? (uint64_t)from - 1 : v->audit->seq - v->n_chained;
    if (r < 0)
        return r;
    r = audit_cursor_open(&c, v->db, since, INT64_MAX, AUDIT_OLDEST_FIRST, err);
    if (r < 0)
        return r;
    while ((r = audit_cursor_next(&c, &row, err)) > 0)
        audit_calls_read(v->audit, row.body, row.len, row.seq);
    audit_cursor_close(&c);
    return r;
}

/* --- what recovery found, for the audit and the log */

static void note_recovery(struct recovery *v)
{
    struct audit *a = v->audit;
    char details[160];
    for (size_t i = 0; i < v->n_damaged && i < DAMAGE_MAX; i++)
        audit_note_text(a, "damage", "recovered", v->damage[i]);
    if (v->n_damaged > DAMAGE_MAX) {
        snprintf(details, sizeof(details), "{\"what\":\"not records\",\"more\":%zu}",
                 v->n_damaged - DAMAGE_MAX);
        audit_note_text(a, "damage", "recovered", details);
    }
    if (v->n_damaged)
        log_warn("audit: bytes that are not a record were found count=%zu", v->n_damaged);
    if (v->n_missing) {
        snprintf(details, sizeof(details), "{\"what\":\"missing\",\"records\":%zu}", v->n_missing);
        audit_note_text(a, "damage", "lost", details);
        log_error("audit: %zu records are missing: the state was altered, or an older copy of it "
                  "put back",
                  v->n_missing);
    }
    if (v->rotated.seq)
        audit_note_rotated(a, &v->rotated);
    if (v->key_changed) {
        char key[2 * CHECKPOINT_KEY_SIZE + 1], text[256];
        hex_format(a->signer.public_key, CHECKPOINT_KEY_SIZE, key);
        snprintf(text, sizeof(text),
                 "{\"what\":\"signing key\",\"new\":\"%s\",\"signed_by_the_old\":%" PRIu64 "}", key,
                 v->signed_before);
        audit_note_text(a, "key_change", "replaced", text);
        log_error("audit: the signing key is another one; what it signs from here on is proved by "
                  "warden/audit.pub, what was signed before by the key kept beside it");
    }
    if (v->n_chained)
        log_info("audit: records of an earlier control plane chained count=%zu", v->n_chained);
}

/* The order is that of trust. What the database has is chained already; lines of the file behind it
 * were written by a control plane that died before its batch, and are chained now; only then is the
 * file emptied. Open calls are read when every record is there. The signer comes last, because it
 * says how many records there must be. What was found is put on record at the end, in the chain
 * that it is about. */
int audit_recover(struct audit *a, struct error *err)
{
    struct recovery v = {.audit = a, .db = store_database(a->store)};
    int r = audit_table_create(v.db, err);
    if (r < 0)
        return r;
    r = read_head(a, v.db, err);
    if (r < 0)
        return r;
    /* Databases of versions before have no sum yet. */
    int64_t bytes = -1;
    r = audit_table_get_number(v.db, AUDIT_BYTES, &bytes, err);
    if (r < 0)
        return r;
    if (bytes < 0 && (audit_table_bytes(v.db, INT64_MAX, &bytes) < 0 ||
                      audit_table_put_number(v.db, AUDIT_BYTES, bytes) < 0))
        return error_set(err, db_error_code(v.db), 0, "audit: %s", sqlite3_errmsg(v.db));
    a->bytes = bytes;
    r = chain_tail(&v, err);
    if (r < 0)
        return r;
    a->bytes += (int64_t)v.bytes_chained;
    r = empty_file(&v, err);
    if (r < 0)
        return r;
    r = read_open_calls(&v, err);
    if (r < 0)
        return r;
    a->recovered_seq = a->seq;
    r = meet_signer(&v, err);
    if (r < 0)
        return r;
    note_recovery(&v);
    return 0;
}
