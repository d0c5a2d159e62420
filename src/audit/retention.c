/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping old records, so that what is left can still be proved: only up to a stored checkpoint,
 * which stays as the signed base that the oldest record kept is chained to.
 *
 * Records go by age, as many as are not kept by number, or because all together are over the limit
 * of bytes. A call that has no end yet must not lose its intent, nor hold everything behind it: its
 * intent is first written again, as `carried`, with the old record in it. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "audit/internal.h"
#include "store/audit-table.h"
#include "store/store.h"

#define RETENTION_MS     (10 * 60 * 1000)       /* how often old records are looked for */
#define RETENTION_SOON   100                    /* when there are more of them */
#define RETENTION_AT_ONE 20000                  /* records in one transaction */
#define CARRIED_AT_ONE   256                    /* calls without an end */
#define CARRIED_MAX      (AUDIT_RECORD_MAX / 2) /* a longer intent is carried by its hash alone */

/* An intent that would be dropped while its call has no end. */
struct carried {
    uint64_t seq;
    char hash[AUDIT_DIGEST_SIZE];
    json_t *record; /* NULL if it is too long */
};

struct drop_job {
    struct audit *audit;
    uint64_t below;   /* checkpoints of later records are no base */
    int64_t until_ns; /* nor are those signed later */
    int64_t excess;   /* bytes that have to go in any case; 0 if there is none */
    uint64_t base, first;
    int64_t bytes; /* of what was dropped */
    bool more;
    uint64_t open[CARRIED_AT_ONE];
    size_t n_open;
    struct carried carried[CARRIED_AT_ONE];
    size_t n_carried;
};

static uint64_t first_record(sqlite3 *db)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    if (audit_cursor_open(&c, db, 0, INT64_MAX, AUDIT_OLDEST_FIRST, NULL) < 0)
        return 0;
    return audit_cursor_next(&c, &row, NULL) > 0 ? row.seq : 0;
}

/* The newest checkpoint that is old enough. */
static int find_base(sqlite3 *db, struct drop_job *j)
{
    _cleanup_audit_cursor_ struct audit_cursor c = {0};
    struct audit_row row;
    struct checkpoint found;
    int r = audit_cursor_open_checkpoints(&c, db, 0, j->below, AUDIT_NEWEST_FIRST, NULL);
    while (r >= 0 && (r = audit_cursor_next(&c, &row, NULL)) > 0) {
        if (!checkpoint_parse(row.body, row.len, &found) || found.time_ns > j->until_ns)
            continue;
        j->base = found.seq;
        return 0;
    }
    return r < 0 ? -EIO : 0;
}

/* The oldest checkpoint behind so many bytes of records; 0 where nothing is signed so late. */
static int find_base_by_bytes(sqlite3 *db, const struct drop_job *j, uint64_t *ret)
{
    _cleanup_audit_cursor_ struct audit_cursor records = {0}, checkpoints = {0};
    struct audit_row row;
    int64_t sum = 0;
    uint64_t seq = 0;
    int r = audit_cursor_open(&records, db, 0, INT64_MAX, AUDIT_OLDEST_FIRST, NULL);
    while (r >= 0 && sum < j->excess && (r = audit_cursor_next(&records, &row, NULL)) > 0) {
        sum += (int64_t)row.len;
        seq = row.seq;
    }
    if (r < 0)
        return -EIO;
    if (!seq)
        return 0;
    if (audit_cursor_open_checkpoints(&checkpoints, db, seq - 1, INT64_MAX, AUDIT_OLDEST_FIRST,
                                      NULL) < 0)
        return -EIO;
    r = audit_cursor_next(&checkpoints, &row, NULL);
    if (r < 0)
        return -EIO;
    *ret = r > 0 ? row.seq : 0;
    return 0;
}

static int choose_base(sqlite3 *db, struct drop_job *j)
{
    uint64_t by_bytes = 0;
    if (j->below && find_base(db, j) < 0)
        return -EIO;
    if (j->excess > 0 && find_base_by_bytes(db, j, &by_bytes) < 0)
        return -EIO;
    if (by_bytes > j->base)
        j->base = by_bytes;
    if (!j->base || !j->first || j->first > j->base)
        return 0;
    j->more = j->base - j->first + 1 > RETENTION_AT_ONE;
    if (j->more) { /* every step ends at a checkpoint, or the rest could not be proved meanwhile */
        struct drop_job *part = new0(struct drop_job);
        part->below = j->first + RETENTION_AT_ONE;
        part->until_ns = INT64_MAX;
        int r = find_base(db, part);
        if (part->base >= j->first && part->base < j->base)
            j->base = part->base;
        free(part);
        return r;
    }
    return 0;
}

static int carry_row(struct drop_job *j, const struct audit_row *row)
{
    struct carried *c = &j->carried[j->n_carried++];
    struct error err = {0};
    c->seq = row->seq;
    if (row->hash) {
        memcpy(c->hash, "sha256:", 7);
        hex_format(row->hash, CHECKPOINT_HASH_SIZE, c->hash + 7);
    }
    if (row->len <= CARRIED_MAX)
        c->record = json_parse_object(row->body, row->len, &err);
    return 0;
}

/* What has to be carried first: then nothing is dropped yet. */
static int read_carried(sqlite3 *db, struct drop_job *j)
{
    for (size_t i = 0; i < j->n_open && j->open[i] <= j->base; i++) {
        _cleanup_audit_cursor_ struct audit_cursor c = {0};
        struct audit_row row;
        if (audit_cursor_open(&c, db, j->open[i] - 1, j->open[i], AUDIT_OLDEST_FIRST, NULL) < 0)
            return -EIO;
        int r = audit_cursor_next(&c, &row, NULL);
        if (r < 0 || (r > 0 && carry_row(j, &row) < 0))
            return -EIO;
    }
    return 0;
}

/* On the store's worker. Where intents must be carried over first, this round only reads them: they
 * are written as new records, and a later round drops the old ones. So there is no moment at which
 * a call that runs has no intent in the database. */
static int drop_work(sqlite3 *db, void *data)
{
    struct drop_job *j = data;
    j->base = 0;
    j->first = first_record(db);
    if (choose_base(db, j) < 0 || read_carried(db, j) < 0)
        return -EIO;
    if (j->n_carried || !j->base || !j->first || j->first > j->base) {
        j->base = 0;
        return 0;
    }
    if (audit_table_bytes(db, j->base, &j->bytes) < 0 ||
        audit_table_add_number(db, AUDIT_BYTES, -j->bytes) < 0)
        return -EIO;
    return audit_table_drop(db, j->base, UINT32_MAX);
}

/* --- on the loop */

static void write_carried(struct audit *a, struct drop_job *j)
{
    for (size_t i = 0; i < j->n_carried; i++) {
        struct error err = {0};
        struct carried *c = &j->carried[i];
        const char *call = json_string_value(json_object_get(c->record, "call"));
        _cleanup_json_ json_t *details = json_pack("{s:I, s:s, s:O?}", "seq", (json_int_t)c->seq,
                                                   "hash", c->hash, "intent", c->record);
        struct audit_record r = {.kind = "carried", .details = details};
        char call_id[AUDIT_CALL_ID_SIZE];
        if (!audit_calls_at(a, c->seq, call_id) || (call && strcmp(call, call_id) != 0))
            continue; /* it has ended meanwhile */
        r.call_id = call_id;
        struct audit_record whole = audit_calls_complete(a, &r);
        if (audit_write(a, &whole, NULL, &err) < 0)
            log_error("audit: an intent cannot be carried: %s", err.message);
    }
}

/* That records were dropped is itself a record, with the base that the rest is proved by. */
static void on_dropped(void *data, const struct error *err)
{
    struct drop_job *j = data;
    struct audit *a = j->audit;
    bool again = !err && (j->more || j->n_carried);
    a->jobs--;
    a->dropping = false;
    if (!err) {
        a->first_seq = j->base ? j->base + 1 : j->first;
        a->bytes -= j->bytes;
    }
    if (!err && !a->closing && j->n_carried)
        write_carried(a, j);
    if (!err && !a->closing && j->base) {
        char details[160];
        snprintf(details, sizeof(details),
                 "{\"first\":%" PRIu64 ",\"base\":%" PRIu64 ",\"records\":%" PRIu64
                 ",\"bytes\":%" PRId64 "}",
                 j->first, j->base, j->base - j->first + 1, j->bytes);
        audit_note_text(a, "retention", "dropped", details);
    }
    if (!a->closing)
        loop_timer_start(&a->retention_timer, again ? RETENTION_SOON : RETENTION_MS);
    for (size_t i = 0; i < j->n_carried; i++)
        json_decref(j->carried[i].record);
    free(j);
}

/* A sixteenth less than the limit, so that not every batch drops some. */
static int64_t excess_of(const struct audit *a)
{
    int64_t max = (int64_t)a->config.max_bytes;
    return max && a->bytes > max ? a->bytes - max + max / 16 : 0;
}

static void on_retention_timer(void *data)
{
    struct audit *a = data;
    const struct audit_config *o = &a->config;
    struct drop_job *j = new0(struct drop_job);
    *j = (struct drop_job){.audit = a, .excess = excess_of(a)};
    if (o->retention_ms && a->head.seq > o->retention_records) {
        j->below = a->head.seq - o->retention_records;
        j->until_ns = clock_real_ns() - (int64_t)o->retention_ms * 1000000;
    }
    j->n_open = audit_calls_up_to(a, a->head.seq, j->open, CARRIED_AT_ONE);
    a->jobs++;
    a->dropping = true;
    store_apply(a->store, drop_work, on_dropped, j);
}

void audit_retention_consider(struct audit *a)
{
    if (excess_of(a) && !a->dropping)
        loop_timer_start(&a->retention_timer, RETENTION_SOON);
}

void audit_retention_init(struct audit *a)
{
    loop_timer_init(&a->retention_timer, a->loop, on_retention_timer, a);
    if (a->config.max_bytes || a->config.retention_ms)
        loop_timer_start(&a->retention_timer, RETENTION_SOON);
}
