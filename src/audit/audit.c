/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of the audit: a record is formatted and written, and what happened already but
 * could not be written waits. See audit.h. */
#include "audit/audit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/map.h"
#include "audit/internal.h"

#define OWED_MAX      65536 /* more than calls can be under way */
#define OWED_RETRY_MS 1000

/* A record formatted when it happened; its number is given when it is written. */
struct owed {
    struct list node;
    int flags;
    char call_id[AUDIT_CALL_ID_SIZE];
    int64_t time_ns;
    char *rest; /* the line after its sequence number */
    size_t len;
};

/* --- writing */

/* The number is taken only when the line is written, so a failed write leaves no gap. From then on
 * the file has the record, and kill -9 cannot take it; the database follows in a batch. */
static int append_line(struct audit *a, int flags, const char *call_id,
                       const struct audit_record *record, struct error *err)
{
    uint64_t seq = a->seq + 1;
    if (!audit_batch_has_room(a))
        return error_set(err, ERROR_UNAVAILABLE, 0,
                         "the audit's database is too far behind, so nothing may run");
    strbuf_append(&a->line, "\n", 1);
    fault_point("audit.before-write");
    int r = audit_file_append(&a->file, a->line.data, a->line.len, seq,
                              a->config.fsync == AUDIT_FSYNC_ALWAYS, err);
    if (r < 0)
        return r;
    fault_point("audit.written");
    a->seq = seq;
    audit_calls_apply(a, flags, call_id, seq, record);
    audit_batch_queue(a);
    return 0;
}

static int format_record(struct audit *a, const struct audit_record *r, struct error *err)
{
    int e = audit_record_format(r, a->seq + 1, clock_real_ns(), &a->line);
    if (e == -EINVAL)
        return error_set(err, ERROR_INTERNAL, 0, "audit: there is no kind '%s' of record",
                         r->kind ? r->kind : "");
    return e < 0 ? error_set(err, ERROR_TOO_LARGE, 0, "audit: the record is too large") : 0;
}

static void owed_free(struct audit *a, struct owed *o)
{
    list_remove(&o->node);
    a->n_owed--;
    free(o->rest);
    free(o);
}

/* What could not be written before, in its order. */
static int write_owed(struct audit *a, struct error *err)
{
    while (!list_empty(&a->owed)) {
        struct owed *o = container_of(a->owed.next, struct owed, node);
        strbuf_reset(&a->line);
        strbuf_printf(&a->line, "{\"seq\":%llu", (unsigned long long)(a->seq + 1));
        strbuf_append(&a->line, o->rest, o->len);
        int r = append_line(a, o->flags, o->call_id, NULL, err);
        if (r < 0)
            return r;
        owed_free(a, o);
    }
    return 0;
}

/* For what may not happen without its record. Records that are owed go first: the order of the log
 * is the order in which things happened. */
int audit_write(struct audit *a, const struct audit_record *r, uint64_t *ret_seq, struct error *err)
{
    if (!a)
        return 0;
    int e = write_owed(a, err);
    if (e < 0)
        return e;
    e = format_record(a, r, err);
    if (e < 0)
        return e;
    e = append_line(a, audit_kind_flags(r->kind), r->call_id, r, err);
    if (e < 0)
        return e;
    if (ret_seq)
        *ret_seq = a->seq;
    return e;
}

/* The number is cut off: by the time the record is written, others may have taken it. */
static void owe_record(struct audit *a, const struct audit_record *r)
{
    struct owed *o = new0(struct owed);
    size_t head = strcspn(a->line.data, ",");
    o->flags = audit_kind_flags(r->kind);
    if (r->call_id)
        memcpy(o->call_id, r->call_id, strnlen(r->call_id, sizeof(o->call_id) - 1));
    o->rest = xstrndup(a->line.data + head, a->line.len - head);
    o->len = a->line.len - head;
    list_append(&a->owed, &o->node);
    a->n_owed++;
}

/* For what has happened already, which no failure can undo. Where it cannot be written it waits in
 * memory with the time at which it happened, and calls that want to begin are refused meanwhile
 * (audit_write). A second end of one call is dropped: whichever came first is the one on record. */
void audit_note(struct audit *a, const struct audit_record *r)
{
    struct error err = {0};
    if (!a || ((audit_kind_flags(r->kind) & AUDIT_KIND_ENDS) && !audit_is_open(a, r->call_id)))
        return;
    bool waits = write_owed(a, &err) < 0;
    struct audit_record whole = audit_calls_complete(a, r);
    if (format_record(a, &whole, &err) < 0) {
        log_error("audit: %s", err.message);
        return;
    }
    size_t len = a->line.len;
    if (!waits && append_line(a, audit_kind_flags(r->kind), r->call_id, NULL, &err) >= 0)
        return;
    a->line.len = len; /* without the newline */
    if (a->n_owed == OWED_MAX) {
        log_error("audit: a record is lost: %s", err.message);
        return;
    }
    if (!a->n_owed)
        log_error("audit: records wait to be written: %s", err.message);
    owe_record(a, r);
    if (!a->closing && !loop_timer_active(&a->owed_timer))
        loop_timer_start(&a->owed_timer, OWED_RETRY_MS);
    /* Its end is on its way; a second one would be one too many. */
    audit_calls_apply(a, audit_kind_flags(r->kind) & AUDIT_KIND_ENDS, r->call_id, 0, NULL);
}

static void on_owed_timer(void *data)
{
    struct audit *a = data;
    if (write_owed(a, NULL) >= 0)
        log_info("audit: what waited is written");
    else
        loop_timer_start(&a->owed_timer, OWED_RETRY_MS);
}

void audit_note_text(struct audit *a, const char *kind, const char *outcome, const char *details)
{
    struct audit_record r = {.kind = kind, .outcome = outcome, .details_text = details};
    audit_note(a, &r);
}

/* --- life */

static void audit_destroy(struct audit *a)
{
    list_for_each_safe(o, &a->owed, struct owed, node)
        owed_free(a, o);
    audit_calls_free(a);
    audit_batch_done(a);
    audit_file_close(&a->file);
    strbuf_done(&a->line);
    free(a);
}

static void on_timer_closed(void *data)
{
    struct audit *a = data;
    if (--a->timers == 0)
        audit_destroy(a);
}

/* The memory goes when the loop has let go of the timers. */
static void close_timers(struct audit *a)
{
    struct loop_timer *timers[] = {&a->owed_timer, &a->batch_timer, &a->checkpoint_timer,
                                   &a->retention_timer};
    a->timers = ELEMENTS(timers);
    for (size_t i = 0; i < ELEMENTS(timers); i++)
        loop_timer_close(timers[i], on_timer_closed, a);
}

struct audit *audit_open(const char *dir, struct store *store, const struct audit_signer *signer,
                         uv_loop_t *loop, const struct audit_config *c, struct error *err)
{
    struct audit *a = new0(struct audit);
    a->loop = loop;
    a->config = *c;
    a->store = store;
    if (signer)
        a->signer = *signer;
    strbuf_init(&a->line, AUDIT_RECORD_MAX + 1);
    list_init(&a->owed);
    list_init(&a->open_in_order);
    a->open = map_new();
    loop_timer_init(&a->owed_timer, loop, on_owed_timer, a);
    audit_batch_init(a);
    audit_checkpoint_init(a);
    audit_retention_init(a);
    if (audit_secret_open(a, dir, err) >= 0 && audit_file_open(&a->file, dir, err) >= 0 &&
        audit_recover(a, err) >= 0)
        return a;
    close_timers(a);
    return NULL;
}

void audit_close(struct audit *a)
{
    struct error err = {0};
    if (!a)
        return;
    a->closing = true;
    a->failures = 0;
    if (write_owed(a, &err) < 0)
        log_error("audit: %zu records are lost: %s", a->n_owed, err.message);
    /* Until every record is in the database, or it does not take them. */
    while (a->chaining || a->jobs || (a->queued.len && !a->failures)) {
        audit_batch_start(a);
        uv_run(a->loop, UV_RUN_ONCE);
    }
    close_timers(a);
    uv_run(a->loop, UV_RUN_NOWAIT);
}
