/* Dropping old records, so that what is left can still be proved: only up to a stored checkpoint,
 * which stays as the signed base that the oldest record kept is chained to. Calls that have no end
 * yet are not dropped. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "guard/audit-internal.h"
#include "store/audit-table.h"
#include "store/store.h"

#define RETENTION_MS     (10 * 60 * 1000) /* how often old records are looked for */
#define RETENTION_SOON   100              /* when there are more of them */
#define RETENTION_AT_ONE 20000            /* records in one transaction */

struct drop_job {
    struct audit *audit;
    uint64_t below;   /* checkpoints of later records are no base */
    int64_t until_ns; /* nor are those signed later */
    uint64_t base, first;
    bool more;
};

static uint64_t first_record(sqlite3 *db)
{
    struct audit_cursor c;
    struct audit_row row;
    int r = audit_cursor_open(&c, db, 0, INT64_MAX, AUDIT_OLDEST_FIRST, NULL);
    r = r < 0 ? r : audit_cursor_next(&c, &row, NULL);
    audit_cursor_close(&c);
    return r > 0 ? row.seq : 0;
}

/* The newest checkpoint that is old enough. */
static int find_base(sqlite3 *db, struct drop_job *j)
{
    struct audit_cursor c;
    struct audit_row row;
    struct checkpoint found;
    int r = audit_cursor_open_checkpoints(&c, db, 0, j->below, AUDIT_NEWEST_FIRST, NULL);
    while (r >= 0 && (r = audit_cursor_next(&c, &row, NULL)) > 0) {
        if (!checkpoint_parse(row.body, row.len, &found) || found.time_ns > j->until_ns)
            continue;
        j->base = found.seq;
        break;
    }
    audit_cursor_close(&c);
    return r < 0 ? -EIO : 0;
}

static int drop_work(sqlite3 *db, void *data)
{
    struct drop_job *j = data;
    j->base = 0;
    j->first = first_record(db);
    if (find_base(db, j) < 0)
        return -EIO;
    if (!j->base || !j->first || j->first > j->base)
        return 0;
    uint64_t n = j->base - j->first + 1;
    j->more = n > RETENTION_AT_ONE;
    if (j->more) { /* every step ends at a checkpoint, or the rest could not be proved meanwhile */
        struct drop_job part = {.below = j->first + RETENTION_AT_ONE, .until_ns = j->until_ns};
        if (find_base(db, &part) < 0)
            return -EIO;
        if (part.base >= j->first)
            j->base = part.base;
    }
    return audit_table_drop(db, j->base, UINT32_MAX);
}

static void on_dropped(void *data, const struct error *err)
{
    struct drop_job *j = data;
    struct audit *a = j->audit;
    a->jobs--;
    a->dropping = false;
    if (!err)
        a->first_seq = j->base && j->first <= j->base ? j->base + 1 : j->first;
    if (!err && j->base && j->first && j->first <= j->base && !a->closing) {
        char details[120];
        snprintf(details, sizeof(details),
                 "{\"first\":%" PRIu64 ",\"base\":%" PRIu64 ",\"records\":%" PRIu64 "}", j->first,
                 j->base, j->base - j->first + 1);
        audit_note_text(a, "retention", "dropped", details);
    }
    if (!a->closing)
        loop_timer_start(&a->retention_timer, j->more && !err ? RETENTION_SOON : RETENTION_MS);
    free(j);
}

static void on_retention_timer(void *data)
{
    struct audit *a = data;
    const struct audit_options *o = &a->options;
    uint64_t open = audit_calls_lowest(a), below = a->head.seq;
    if (o->retention_records)
        below = below > o->retention_records ? below - o->retention_records : 0;
    if (open && open <= below)
        below = open - 1;
    struct drop_job *j = new0(struct drop_job);
    *j = (struct drop_job){.audit = a, .below = below, .until_ns = INT64_MAX};
    if (o->retention_ms)
        j->until_ns = clock_real_ns() - (int64_t)o->retention_ms * 1000000;
    a->jobs++;
    a->dropping = true;
    store_apply(a->store, drop_work, on_dropped, j);
}

void audit_retention_consider(struct audit *a)
{
    const struct audit_options *o = &a->options;
    uint64_t kept = a->head.seq - a->first_seq + 1;
    if (o->retention_records && !a->dropping && kept > o->retention_records + o->checkpoint_records)
        loop_timer_start(&a->retention_timer, RETENTION_SOON);
}

void audit_retention_init(struct audit *a)
{
    loop_timer_init(&a->retention_timer, a->options.loop, on_retention_timer, a);
    if (a->options.retention_records || a->options.retention_ms)
        loop_timer_start(&a->retention_timer, RETENTION_SOON);
}
