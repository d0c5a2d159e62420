/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "audit/chain.h"
#include "audit/record.h"
#include "store/audit-table.h"

/* --- one row of each */

static int end_record(struct sqlite3 *db, enum audit_order order, uint64_t *ret, struct error *err)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    *ret = 0;
    int r = audit_cursor_open(&c, db, 0, INT64_MAX, order, err);
    if (r < 0)
        return r;
    r = audit_cursor_next(&c, &row, err);
    if (r < 0)
        return r;
    if (r > 0)
        *ret = row.seq;
    return 0;
}

static int first_record(struct sqlite3 *db, uint64_t *ret, struct error *err)
{
    return end_record(db, AUDIT_OLDEST_FIRST, ret, err);
}

int audit_newest_record(struct sqlite3 *db, uint64_t *ret_seq, struct error *err)
{
    return end_record(db, AUDIT_NEWEST_FIRST, ret_seq, err);
}

static int find_checkpoint(struct sqlite3 *db, uint64_t after, uint64_t until,
                           enum audit_order order, struct checkpoint *ret, struct error *err)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    *ret = (struct checkpoint){0};
    int r = audit_cursor_open_checkpoints(&c, db, after, until, order, err);
    if (r < 0)
        return r;
    r = audit_cursor_next(&c, &row, err);
    if (r <= 0)
        return r;
    if (!checkpoint_parse(row.body, row.len, ret) || ret->seq != row.seq)
        return error_set(err, ERROR_INTERNAL, 0,
                         "audit: the stored checkpoint %" PRIu64 " is damaged", row.seq);
    return 0;
}

int audit_newest_checkpoint(struct sqlite3 *db, struct checkpoint *ret, struct error *err)
{
    return find_checkpoint(db, 0, INT64_MAX, AUDIT_NEWEST_FIRST, ret, err);
}

/* --- export */

static int put_checkpoint(struct strbuf *out, const struct checkpoint *c)
{
    char text[CHECKPOINT_TEXT_SIZE + 1];
    size_t n = checkpoint_format(c, text);
    text[n++] = '\n';
    return strbuf_append(out, text, n);
}

/* Every change of the signing key up to `until`, oldest first. 0, or what fn returned. */
static int each_key_change(struct sqlite3 *db, uint64_t until,
                           int (*fn)(void *data, const struct checkpoint *c), void *data,
                           struct error *err)
{
    _cleanup_audit_cursor_ struct audit_cursor cursor = {0};
    struct audit_row row;
    struct checkpoint c;
    int r = audit_cursor_open_key_changes(&cursor, db, until, err);
    if (r < 0)
        return r;
    while ((r = audit_cursor_next(&cursor, &row, err)) > 0) {
        if (!checkpoint_parse(row.body, row.len, &c) || c.seq != row.seq)
            return error_set(err, ERROR_INTERNAL, 0,
                             "audit: the stored checkpoint %" PRIu64 " is damaged", row.seq);
        int stop = fn(data, &c);
        if (stop)
            return stop;
    }
    return r;
}

static int take_first_key(void *data, const struct checkpoint *c)
{
    memcpy(data, c->old_key, sizeof(c->old_key));
    return 1;
}

static int put_key_change(void *data, const struct checkpoint *c)
{
    return put_checkpoint(data, c);
}

/* An export begins at a checkpoint or at record 1, so that its first record has a hash to be
 * chained to. Changes of the signing key before that are carried along: without them, a verifier
 * that trusts an older key could not reach the one that signed this part. */
int audit_export_begin(struct sqlite3 *db, uint64_t since, uint64_t last, const uint8_t *key,
                       struct strbuf *out, uint64_t *ret_base, struct error *err)
{
    struct audit_header h = {.last_seq = last};
    struct checkpoint base = {0};
    char header[AUDIT_HEADER_SIZE + 1];
    uint64_t first;
    int r = first_record(db, &first, err);
    if (r < 0)
        return r;
    if (first > 1 && since < first - 1)
        since = first - 1;
    r = since ? find_checkpoint(db, 0, since, AUDIT_NEWEST_FIRST, &base, err) : 0;
    if (r < 0)
        return r;
    r = key ? each_key_change(db, last, take_first_key, h.first_key, err) : 0;
    if (r < 0)
        return r;
    h.base_seq = base.seq;
    memcpy(h.base, base.head, sizeof(h.base));
    if (key)
        memcpy(h.key, key, sizeof(h.key));
    size_t n = audit_header_format(&h, header);
    header[n++] = '\n';
    strbuf_append(out, header, n);
    *ret_base = base.seq;
    if (!base.seq)
        return 0;
    r = each_key_change(db, base.seq - 1, put_key_change, out, err);
    if (r < 0)
        return r;
    return put_checkpoint(out, &base);
}

/* Records and checkpoints in the order of an export. */
struct merge {
    struct audit_cursor records, checkpoints;
    struct audit_row record, checkpoint;
    int has_record, has_checkpoint;
};

static int merge_open(struct merge *m, struct sqlite3 *db, uint64_t since, struct error *err)
{
    *m = (struct merge){0};
    int r = audit_cursor_open(&m->records, db, since, INT64_MAX, AUDIT_OLDEST_FIRST, err);
    if (r < 0)
        return r;
    r = audit_cursor_open_checkpoints(&m->checkpoints, db, since, INT64_MAX, AUDIT_OLDEST_FIRST,
                                      err);
    if (r < 0)
        return r;
    r = m->has_record = audit_cursor_next(&m->records, &m->record, err);
    if (r < 0)
        return r;
    r = m->has_checkpoint = audit_cursor_next(&m->checkpoints, &m->checkpoint, err);
    return r < 0 ? r : 0;
}

static void merge_close(struct merge *m)
{
    audit_cursor_close(&m->records);
    audit_cursor_close(&m->checkpoints);
}

/* A checkpoint comes after its record. */
static bool checkpoint_is_next(const struct merge *m)
{
    return m->has_checkpoint > 0 && (m->has_record <= 0 || m->checkpoint.seq < m->record.seq);
}

static int merge_next_record(struct merge *m, struct error *err)
{
    return m->has_record = audit_cursor_next(&m->records, &m->record, err);
}

static int merge_next_checkpoint(struct merge *m, struct error *err)
{
    return m->has_checkpoint = audit_cursor_next(&m->checkpoints, &m->checkpoint, err);
}

static int export_record(struct merge *m, uint64_t *since, struct strbuf *out, struct error *err)
{
    if (!m->record.hash)
        return error_set(err, ERROR_INTERNAL, 0, "audit: record %" PRIu64 " has no hash",
                         m->record.seq);
    int r = audit_line_format(out, m->record.body, m->record.len, m->record.hash);
    *since = m->record.seq;
    if (r < 0)
        return r;
    return merge_next_record(m, err);
}

static int export_checkpoint(struct merge *m, struct strbuf *out, struct error *err)
{
    int r = strbuf_append(out, m->checkpoint.body, m->checkpoint.len);
    if (r < 0)
        return r;
    r = strbuf_append(out, "\n", 1);
    if (r < 0)
        return r;
    return merge_next_checkpoint(m, err);
}

int audit_export_page(struct sqlite3 *db, uint64_t *since, uint64_t until, size_t max,
                      struct strbuf *out, struct error *err)
{
    struct merge m;
    int r = merge_open(&m, db, *since, err);
    while (r >= 0 && (m.has_record > 0 || m.has_checkpoint > 0)) {
        bool checkpoint = checkpoint_is_next(&m);
        if (checkpoint ? m.checkpoint.seq >= until : m.record.seq > until)
            break;
        /* A page ends before a record and never between a record and its checkpoint, so that the
         * next page can go on from a record's number alone. */
        if (!checkpoint && out->len >= max) {
            merge_close(&m);
            return 1;
        }
        r = checkpoint ? export_checkpoint(&m, out, err) : export_record(&m, since, out, err);
    }
    merge_close(&m);
    return r < 0 ? r : 0;
}

/* --- verifying in place */

static bool verify_checkpoint_row(struct audit_verifier *v, const struct audit_row *row)
{
    struct checkpoint c;
    if (!checkpoint_parse(row->body, row->len, &c) || c.seq != row->seq) {
        snprintf(v->reason, sizeof(v->reason), "the stored checkpoint %" PRIu64 " is damaged",
                 row->seq);
        v->failed = true;
        return false;
    }
    return audit_verify_checkpoint(v, &c);
}

static bool verify_record_row(struct audit_verifier *v, const struct audit_row *row)
{
    static const uint8_t none[CHECKPOINT_HASH_SIZE];
    if (row->len && audit_record_seq(row->body, row->len) != row->seq) {
        snprintf(v->reason, sizeof(v->reason), "record %" PRIu64 " is stored in another's place",
                 row->seq);
        v->failed = true;
        return false;
    }
    return audit_verify_record(v, row->body, row->len, NULL, 0, row->hash ? row->hash : none);
}

static int verify_key_change(void *data, const struct checkpoint *c)
{
    return audit_verify_key_change(data, c) ? 0 : 1;
}

/* The chain begins with the first record there ever was, or with a signed base. */
static int verify_begin(struct audit_verifier *v, struct sqlite3 *db, uint64_t *ret_since,
                        struct error *err)
{
    struct checkpoint base = {0};
    uint64_t first;
    uint8_t first_key[CHECKPOINT_KEY_SIZE] = {0};
    int r = first_record(db, &first, err);
    if (r < 0)
        return r;
    r = each_key_change(db, INT64_MAX, take_first_key, first_key, err);
    if (r < 0)
        return r;
    if (r > 0)
        audit_verifier_begin_with(v, first_key);
    if (first > 1)
        r = find_checkpoint(db, first - 2, first - 1, AUDIT_NEWEST_FIRST, &base, err);
    if (r < 0)
        return r;
    *ret_since = first > 1 ? first - 1 : 0;
    if (first > 1 && !base.seq) {
        snprintf(v->reason, sizeof(v->reason),
                 "records up to %" PRIu64 " are missing, and no signed base tells of them",
                 first - 1);
        v->failed = true;
    } else if (audit_verify_start(v, base.seq, base.head) && base.seq) {
        r = each_key_change(db, base.seq - 1, verify_key_change, v, err);
        if (r == 0)
            audit_verify_checkpoint(v, &base);
    }
    return r < 0 ? r : 0;
}

int audit_verify_database(struct audit_verifier *v, struct sqlite3 *db, struct error *err)
{
    struct merge m;
    uint64_t since = 0;
    int r = verify_begin(v, db, &since, err);
    if (r < 0 || v->failed)
        return r;
    r = merge_open(&m, db, since, err);
    while (r >= 0 && !v->failed && (m.has_record > 0 || m.has_checkpoint > 0)) {
        if (checkpoint_is_next(&m))
            r = verify_checkpoint_row(v, &m.checkpoint) ? merge_next_checkpoint(&m, err) : 0;
        else
            r = verify_record_row(v, &m.record) ? merge_next_record(&m, err) : 0;
    }
    merge_close(&m);
    return r < 0 ? r : 0;
}
