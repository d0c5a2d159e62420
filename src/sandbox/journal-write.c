/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a journal: bytes become events, characters whole, each event's bytes before its record.
 *
 * Where the disk refuses, nothing is lost: the journal stalls. What comes then waits in memory (at
 * most what the writer may send unacknowledged), nothing more is acknowledged, so the command waits
 * in write(), and journal_retry() goes on where it stopped. Only a command that has ended meanwhile
 * cannot wait: its stream then says with a cut what is missing. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/output-stream.h"
#include "base/utf8.h"
#include "sandbox/journal-internal.h"

#define JOURNAL_BATCH 8 /* events written in one go */

/* Bytes first, then the records that make them count: a kill -9 in between leaves bytes that no
 * record names, and the next writer puts its own in their place. */
static int write_events(struct journal *j, const struct record *recs, size_t n, const char *data,
                        size_t len)
{
    uint64_t before = j->end_pos;
    int r = len ? journal_space_append(j, data, len) : 0;
    fault_point("journal.before-record");
    if (r >= 0)
        r = journal_pay(j);
    if (r >= 0)
        r = journal_write_records(j, recs, n);
    fault_point("journal.recorded");
    if (r < 0 && j->fd >= 0)
        j->end_pos = before;
    return r;
}

static void journal_stall(struct journal *j, int error)
{
    if (!j->said_stalled)
        log_error("a journal cannot be written, its command waits: %s", strerror(-error));
    j->said_stalled = true;
    list_remove(&j->stalled_node);
    list_append(&j->options->stalled, &j->stalled_node);
}

bool journal_stalled(const struct journal *j)
{
    return !list_empty(&j->stalled_node);
}

static int place_events(struct journal *j, struct record *recs, size_t n, const char *data,
                        size_t len)
{
    int r = write_events(j, recs, n, data, len);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        journal_place(j, &recs[i]);
    if (len) {
        j->fresh = data;
        j->fresh_pos = recs[0].pos;
    }
    return 0;
}

/* An event without bytes. The last one is known even where it cannot be written: the exec's row has
 * it too. */
static int push_event(struct journal *j, enum journal_type type)
{
    struct record rec = {.pos = j->end_pos, .time_ns = clock_real_ns(), .type = (uint8_t)type};
    int r = place_events(j, &rec, 1, NULL, 0);
    if (r < 0 && type == JOURNAL_EXIT) {
        j->owed[j->n_owed++] = rec;
        journal_place(j, &rec);
    }
    return r;
}

/* As many events of at most JOURNAL_EVENT_MAX as one go takes; returns the bytes they hold. */
static size_t cut_events(const struct journal *j, uint8_t stream, const char *data, size_t len,
                         struct record recs[JOURNAL_BATCH], size_t *ret_n)
{
    int64_t now = clock_real_ns();
    size_t n = 0, done = 0;
    while (done < len && n < JOURNAL_BATCH) {
        size_t piece = len - done;
        if (piece > JOURNAL_EVENT_MAX)
            piece = JOURNAL_EVENT_MAX - utf8_incomplete_suffix(data + done, JOURNAL_EVENT_MAX);
        recs[n++] = (struct record){.pos = j->end_pos + done,
                                    .time_ns = now,
                                    .offset = j->stream_end[output_index(stream)] + done,
                                    .len = (uint32_t)piece,
                                    .type = JOURNAL_OUTPUT,
                                    .stream = stream};
        done += piece;
    }
    *ret_n = n;
    return done;
}

/* Returns how many bytes are events now: fewer than len when the journal has stalled. */
static size_t push_output(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    struct record recs[JOURNAL_BATCH];
    size_t used = 0;
    while (used < len) {
        size_t n, done = cut_events(j, stream, data + used, len - used, recs, &n);
        int r = place_events(j, recs, n, data + used, done);
        if (r < 0) {
            journal_stall(j, r);
            break;
        }
        used += done;
    }
    return used;
}

/* A journal over its limit that may not cut waits in a list until others give room back. The event
 * that says so is written once, so that a reader knows why the output stands still. */
static void check_blocked(struct journal *j)
{
    if (!j->block || j->ended || journal_blocked(j) || !journal_over_limit(j))
        return;
    if (!j->said_blocked)
        j->said_blocked = push_event(j, JOURNAL_BLOCKED) >= 0;
    list_append(&j->options->blocked, &j->blocked_node);
}

/* Readers may take the newest bytes from `fresh`, where they still lie in the runner's message, and
 * need not read them back from the file. After this call that memory is used again. */
static void journal_notify_readers(struct journal *j)
{
    list_for_each_safe(r, &j->readers, struct journal_reader, node)
        r->on_ready(r);
    j->fresh = NULL;
}

void journal_start(struct journal *j)
{
    push_event(j, JOURNAL_START);
    journal_notify_readers(j);
}

/* Takes from data what completes the carried bytes; returns how much of data is used up. */
static size_t complete_carry(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    char *carry = j->carry[output_index(stream)];
    size_t *n = &j->carry_len[output_index(stream)], used = 0;
    while (*n && used < len && utf8_incomplete_suffix(carry, *n) == *n) {
        if (((unsigned char)data[used] & 0xc0) != 0x80)
            break;
        carry[(*n)++] = data[used++];
    }
    bool whole = *n && (used < len || utf8_incomplete_suffix(carry, *n) != *n);
    if (whole && push_output(j, stream, carry, *n) == *n) {
        j->fresh = NULL; /* the carry is about to be used again */
        *n = 0;
    }
    return used;
}

/* Returns how much of it is used up; the journal has stalled when that is not all. */
static size_t append_now(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    size_t used = complete_carry(j, stream, data, len);
    if (j->carry_len[output_index(stream)] || used == len)
        return used;
    size_t hold = utf8_incomplete_suffix(data + used, len - used);
    used += push_output(j, stream, data + used, len - used - hold);
    if (used != len - hold)
        return used;
    memcpy(j->carry[output_index(stream)], data + used, hold);
    j->carry_len[output_index(stream)] = hold;
    return len;
}

static void give_up(struct journal *j);
static void journal_retry(struct journal *j);

void journal_settle(struct journal *j)
{
    if (!j->released)
        return;
    journal_retry(j);
    if (journal_stalled(j))
        give_up(j);
}

/* A stalled journal takes no more to its files, so that the order of bytes stays; what comes waits
 * in memory. The window of the protocol bounds that, since nothing is acknowledged meanwhile. */
void journal_append(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    size_t used = journal_stalled(j) ? 0 : append_now(j, stream, data, len);
    if (used < len && strbuf_append(&j->pending[output_index(stream)], data + used, len - used) < 0)
        j->pending_lost += len - used;
    journal_settle(j);
    check_blocked(j);
    journal_notify_readers(j);
}

static void journal_retry(struct journal *j)
{
    if (!journal_stalled(j))
        return;
    list_remove(&j->stalled_node);
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR && !journal_stalled(j); s++) {
        struct strbuf *b = &j->pending[output_index(s)];
        size_t used = append_now(j, s, b->data ? b->data : "", b->len);
        j->fresh = NULL; /* it lies in what is about to be moved */
        strbuf_consume(b, used);
        if (!b->len)
            strbuf_done(b);
    }
    j->said_stalled &= journal_stalled(j);
    check_blocked(j);
    journal_notify_readers(j);
    if (!journal_blocked(j) && j->on_room)
        j->on_room(j->room_data);
}

/* One round: a journal that stalls again goes to the end of the list, behind the one that was last
 * when the round began. */
void journal_retry_all(struct journal_options *o)
{
    struct list *last = o->stalled.prev;
    while (o->stalled.next && !list_empty(&o->stalled)) {
        struct list *node = o->stalled.next;
        bool was_last = node == last;
        journal_retry(container_of(node, struct journal, stalled_node));
        if (was_last)
            break;
    }
}

/* Files get it before anything else, or the exec's row does. */
static void owe_gap(struct journal *j, uint64_t events, uint64_t bytes)
{
    if (j->fd < 0)
        return; /* the writer of what is in memory writes the gap too */
    if (j->n_owed) {
        events += j->owed[0].pos;
        bytes += j->owed[0].offset;
    }
    journal_gap_records(j->owed, events, bytes, j->dropped_end);
    j->n_owed = 2;
    journal_pay(j);
}

static void journal_give_up_output(struct journal *j, const uint64_t lost[OUTPUT_STREAMS],
                                   uint64_t more)
{
    uint64_t events = 0, bytes = more;
    j->cutting = true;
    while (j->tail.count)
        journal_drop_oldest(j);
    for (size_t s = 0; s < 2; s++) {
        events += lost[s] > 0;
        bytes += lost[s];
        j->stream_end[s] += lost[s];
        if (lost[s])
            j->dropped_end[s] = j->stream_end[s];
    }
    j->dropped_events += events;
    j->dropped_bytes += bytes;
    owe_gap(j, events, bytes);
    j->gave_up = true;
}

void journal_lose(struct journal *j, uint8_t stream, uint64_t bytes)
{
    uint64_t lost[OUTPUT_STREAMS] = {0};
    lost[output_index(stream)] = bytes;
    if (!j->end_held)
        journal_give_up_output(j, lost, 0);
}

/* What could not be written of a command that has ended is a part of the gap, like what is dropped
 * over a limit: the stream says so. */
static void give_up(struct journal *j)
{
    uint64_t lost[OUTPUT_STREAMS];
    log_error("output of a command is lost, because its journal cannot be written");
    list_remove(&j->stalled_node);
    for (size_t s = 0; s < 2; s++) {
        lost[s] = j->carry_len[s] + j->pending[s].len;
        j->carry_len[s] = 0;
        strbuf_done(&j->pending[s]);
    }
    journal_give_up_output(j, lost, j->pending_lost);
    j->pending_lost = 0;
}

static void push_end(struct journal *j)
{
    j->released = true;
    journal_settle(j);
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR && !journal_stalled(j); s++) {
        size_t n = j->carry_len[output_index(s)];
        if (n && push_output(j, s, j->carry[output_index(s)], n) == n)
            j->carry_len[output_index(s)] = 0;
    }
    journal_settle(j);
    list_remove(&j->blocked_node);
    push_event(j, JOURNAL_EXIT);
}

/* Writing the end and showing it are two steps, because the exec's end must be on record between
 * the two (exec_finish). A journal whose end was written by an earlier control plane holds it back
 * until the exec has ended here, too. */
void journal_write_end(struct journal *j)
{
    if (!j->end_held)
        push_end(j);
    j->end_held = false;
    j->ended = true;
}

void journal_tell_end(struct journal *j)
{
    journal_notify_readers(j);
    journal_park(j);
}

void journal_end(struct journal *j)
{
    journal_write_end(j);
    journal_tell_end(j);
}

void journal_hold_end(struct journal *j)
{
    j->end_held = j->ended;
    j->ended = false;
}

bool journal_ended(const struct journal *j)
{
    return j->ended;
}

uint64_t journal_stream_end(const struct journal *j, uint8_t stream)
{
    return j->stream_end[output_index(stream)];
}

/* Up to here output may be acknowledged, which lets the runner drop it. As long as a journal is in
 * memory alone that is nothing: the next control plane gets it from the runner again. A journal
 * without a name does not outlive this process, and there is nothing to wait for. */
uint64_t journal_durable_end(const struct journal *j, uint8_t stream)
{
    if (!j->name || j->gave_up)
        return j->stream_end[output_index(stream)] + j->carry_len[output_index(stream)];
    return j->index_fd >= 0 || j->parked ? j->stream_end[output_index(stream)] : 0;
}

uint64_t journal_last_seq(const struct journal *j)
{
    return j->head.count + j->dropped_events + j->tail.count - (j->end_held ? 1 : 0);
}
