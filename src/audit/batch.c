/* SPDX-License-Identifier: Apache-2.0 */
/* From the file into the chain. Lines queue up for some milliseconds and go to the store's worker
 * as one batch: hashed there, inserted in one transaction with the number of the oldest open call.
 * A batch that cannot be written stays queued and is tried again; the file has it meanwhile. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/log.h"
#include "audit/internal.h"
#include "store/audit-table.h"
#include "store/store.h"

#define BATCH_DELAY_MS  100
#define BATCH_BYTES     (512 * 1024) /* go at once */
#define BATCH_RETRY_MS  1000
#define BACKLOG_MAX     (256 * 1024 * 1024)
#define BACKLOG_REFUSED (64 * 1024 * 1024) /* what the database may be behind */

static void on_batch_timer(void *data)
{
    audit_batch_start(data);
}

void audit_batch_init(struct audit *a)
{
    strbuf_init(&a->queued, BACKLOG_MAX);
    strbuf_init(&a->batch.lines, BACKLOG_MAX);
    list_init(&a->waiters);
    list_init(&a->watches);
    a->batch.hasher = audit_hasher_new();
    loop_timer_init(&a->batch_timer, a->loop, on_batch_timer, a);
}

void audit_batch_done(struct audit *a)
{
    audit_hasher_free(a->batch.hasher);
    strbuf_done(&a->batch.lines);
    strbuf_done(&a->queued);
}

/* A database that does not keep up, or cannot be written, must not fill the memory: from here on
 * calls are refused. */
bool audit_batch_has_room(const struct audit *a)
{
    return a->queued.len + a->batch.lines.len < BACKLOG_REFUSED;
}

void audit_batch_queue(struct audit *a)
{
    strbuf_append(&a->queued, a->line.data, a->line.len);
    if (a->queued.len >= BATCH_BYTES && !a->failures)
        audit_batch_start(a);
    else if (!a->chaining && !loop_timer_active(&a->batch_timer))
        loop_timer_start(&a->batch_timer, BATCH_DELAY_MS);
}

/* --- on the worker */

/* The number is read from the line and not taken for granted: a line out of order would give the
 * chain a hash that no verifier could repeat. */
static int chain_line(struct audit_batch *b, struct audit_insert *insert, const char *line,
                      size_t len)
{
    uint64_t seq = b->head.seq + 1;
    if (audit_record_seq(line, len) != seq)
        return -EINVAL;
    audit_hash(b->hasher, b->head.hash, seq, line, len, NULL, 0, b->head.hash);
    b->head.seq = seq;
    b->bytes += len;
    return audit_insert_row(insert, seq, b->head.hash, line, len);
}

/* With audit_fsync=batch the file is on the disk before the rows are: what a checkpoint signs later
 * cannot be lost with the power. */
static int write_batch(struct sqlite3 *db, void *data)
{
    struct audit *a = data;
    struct audit_batch *b = &a->batch;
    struct audit_insert insert;
    fault_point("audit.chain");
    if (b->sync_fds[0] >= 0 && audit_file_sync(b->sync_fds) < 0)
        return -EIO;
    int r = audit_insert_begin(&insert, db);
    for (size_t at = 0; r >= 0 && at < b->lines.len;) {
        const char *line = b->lines.data + at;
        size_t len = (size_t)((char *)memchr(line, '\n', b->lines.len - at) - line);
        r = chain_line(b, &insert, line, len);
        at += len + 1;
    }
    if (r < 0)
        return r;
    r = audit_table_add_number(db, AUDIT_BYTES, (int64_t)b->bytes);
    if (r < 0)
        return r;
    return audit_table_put_number(db, AUDIT_OPEN_FROM, (int64_t)b->open_from);
}

/* --- on the loop */

/* A callback may add a waiter or take one away, so those that are due are put aside first. After a
 * failure all of them are woken: each looks at the head by itself. */
static void wake_waiters(struct audit *a)
{
    struct list due;
    list_init(&due);
    list_for_each_safe(w, &a->waiters, struct audit_waiter, node) {
        if (w->seq > a->head.seq && !a->failures)
            continue;
        list_remove(&w->node);
        list_append(&due, &w->node);
    }
    while (!list_empty(&due)) {
        struct audit_waiter *w = container_of(due.next, struct audit_waiter, node);
        list_remove(&w->node);
        w->on_chained(w);
    }
}

/* The head moves only here, when the rows are committed: what waits for a record compares its
 * number with the head, and must not be woken for rows that a rollback took back. */
static void on_chained(void *data, const struct error *err)
{
    struct audit *a = data;
    a->chaining = false;
    if (err) {
        /* Back to the front of the queue; the store has logged why. */
        strbuf_append(&a->batch.lines, a->queued.data, a->queued.len);
        struct strbuf all = a->batch.lines;
        a->batch.lines = a->queued;
        a->queued = all;
        strbuf_reset(&a->batch.lines);
        a->failures++;
        if (!a->closing)
            loop_timer_start(&a->batch_timer, BATCH_RETRY_MS);
        wake_waiters(a);
        return;
    }
    a->failures = 0;
    a->head = a->batch.head;
    a->bytes += (int64_t)a->batch.bytes;
    strbuf_reset(&a->batch.lines);
    wake_waiters(a);
    if (a->closing)
        return;
    if (!list_empty(&a->waiters))
        audit_batch_start(a);
    else if (a->queued.len && !loop_timer_active(&a->batch_timer))
        loop_timer_start(&a->batch_timer, BATCH_DELAY_MS);
    list_for_each_safe(w, &a->watches, struct audit_watch, node)
        w->on_records(w);
    audit_checkpoint_consider(a);
}

/* The worker gets everything as values of its own (a->batch): the loop goes on appending to the
 * queue while it hashes. The two buffers change places, so no line is copied. */
void audit_batch_start(struct audit *a)
{
    if (a->chaining || !a->queued.len)
        return;
    struct strbuf empty = a->batch.lines;
    bool sync = a->config.fsync == AUDIT_FSYNC_BATCH;
    loop_timer_stop(&a->batch_timer);
    a->chaining = true;
    a->batch.lines = a->queued;
    a->queued = empty;
    a->batch.head = a->head;
    a->batch.bytes = 0;
    a->batch.open_from = audit_calls_lowest(a);
    for (int i = 0; i < 2; i++)
        a->batch.sync_fds[i] = sync ? a->file.parts[i].fd : -1;
    store_apply(a->store, write_batch, on_chained, a);
}

void audit_wait(struct audit *a, struct audit_waiter *w)
{
    if (w->seq <= a->head.seq) {
        list_init(&w->node);
        w->on_chained(w);
        return;
    }
    list_append(&a->waiters, &w->node);
    if (!a->failures)
        audit_batch_start(a);
}

void audit_watch_add(struct audit *a, struct audit_watch *w)
{
    list_append(&a->watches, &w->node);
}

void audit_watch_remove(struct audit_watch *w)
{
    if (w->node.next)
        list_remove(&w->node);
}
