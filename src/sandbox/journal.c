/* In memory: `head` holds the first events, `tail` the newest; once the limit is reached new events
 * only join the tail, and its oldest are dropped. Bytes live at a position in one growing space,
 * which is a buffer first and a file later; dropped ranges are punched out of the file. */
#include "sandbox/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "sandbox/journal-internal.h"

#define PUNCH_BYTES   (1024 * 1024)
#define RELEASE_BYTES (2 * 1024 * 1024) /* of pipes and windows of a command that was blocked */
#define EVENTS_LEAST  4096              /* that may be kept, however few bytes */
#define JOURNAL_BATCH 8                 /* events written in one go */

struct journal *journal_new(struct journal_options *o, const char *name,
                            struct journal_group *group, bool block)
{
    struct journal *j = new0(struct journal);
    j->options = o;
    j->group = group;
    j->block = block;
    list_init(&j->blocked_node);
    if (!o->blocked.next)
        list_init(&o->blocked);
    j->name = name ? xstrdup(name) : NULL;
    j->fd = j->index_fd = -1;
    strbuf_init(&j->memory, o->memory_bytes + 1);
    list_init(&j->readers);
    return j;
}

/* --- limits */

static void count_bytes(struct journal *j, int64_t n)
{
    j->options->total_bytes += (uint64_t)n;
    if (j->group)
        j->group->bytes += (uint64_t)n;
}

/* Whether len more bytes would be too many for all journals, or for those of the group. */
/* Records take memory too: of a command that prints byte by byte, far more than its bytes. Where
 * so many bytes may be kept, so many events may. */
static uint64_t events_within(uint64_t bytes)
{
    uint64_t n = bytes / sizeof(struct record);
    return n > EVENTS_LEAST ? n : EVENTS_LEAST;
}

static bool over_shared_limit(const struct journal *j, uint64_t len)
{
    const struct journal_group *g = j->group;
    return j->options->total_bytes + len > j->options->total_limit + j->extra ||
           j->options->total_events > events_within(j->options->total_limit) ||
           (g && g->limit && g->bytes + len > g->limit + j->extra);
}

static bool over_limit(const struct journal *j)
{
    return j->head_bytes + j->tail_bytes > j->options->limit_bytes + j->extra ||
           j->head.count + j->tail.count > events_within(j->options->limit_bytes) ||
           over_shared_limit(j, 0);
}

bool journal_blocked(const struct journal *j)
{
    return !list_empty(&j->blocked_node);
}

void journal_on_room(struct journal *j, void (*on_room)(void *data), void *data)
{
    j->on_room = on_room;
    j->room_data = data;
}

void journal_release(struct journal *j)
{
    if (!j->block)
        return;
    j->block = false;
    j->extra = RELEASE_BYTES;
    if (!journal_blocked(j))
        return;
    list_remove(&j->blocked_node);
    if (j->on_room)
        j->on_room(j->room_data);
}

static void wake_blocked(struct journal_options *o)
{
    list_for_each_safe(j, &o->blocked, struct journal, blocked_node)
    {
        if (over_limit(j))
            continue;
        list_remove(&j->blocked_node);
        if (j->on_room)
            j->on_room(j->room_data);
    }
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    list_remove(&j->blocked_node);
    count_bytes(j, -(int64_t)(j->head_bytes + j->tail_bytes));
    j->options->total_events -= j->head.count + j->tail.count;
    wake_blocked(j->options);
    if (j->has_files)
        journal_remove_files(j);
    strbuf_done(&j->memory);
    fd_close(&j->fd);
    fd_close(&j->index_fd);
    free(j->head.items);
    free(j->tail.items);
    free(j->name);
    free(j);
}

static void records_push(struct records *r, const struct record *rec)
{
    if (r->start && r->start >= r->count) {
        memmove(r->items, r->items + r->start, r->count * sizeof(*r->items));
        r->start = 0;
    }
    if (r->start + r->count == r->alloc) {
        r->alloc = r->alloc ? r->alloc * 2 : 4;
        r->items = xrealloc(r->items, r->alloc * sizeof(*r->items));
    }
    r->items[r->start + r->count++] = *rec;
}

/* --- the space of bytes */

static int space_append(struct journal *j, const char *data, size_t len)
{
    if (j->fd < 0 && j->end_pos + len <= j->options->memory_bytes) {
        strbuf_append(&j->memory, data, len);
    } else {
        int r = j->fd < 0 ? journal_open_files(j) : 0;
        for (size_t done = 0; r >= 0 && done < len;) {
            ssize_t n = pwrite(j->fd, data + done, len - done, (off_t)(j->end_pos + done));
            if (n > 0)
                done += (size_t)n;
            else if (errno != EINTR)
                r = -errno;
        }
        if (r < 0)
            return r;
    }
    j->end_pos += len;
    return 0;
}

static int write_records(struct journal *j, const struct record *recs, size_t n)
{
    if (j->index_fd < 0)
        return 0;
    return fd_write_all(j->index_fd, recs, n * sizeof(*recs));
}

/* Gives the blocks of what was dropped back to the file system, in large steps. A mark in the index
 * says so first: limits may be others when it is read back, and a hole reads as zeros. */
static void punch(struct journal *j, uint64_t up_to)
{
    struct record mark = {
        .type = JOURNAL_CUT, .pos = j->head.count, .offset = j->head.count + j->dropped_events};
    if (j->fd < 0 || j->restoring || up_to < j->punched_pos + PUNCH_BYTES)
        return;
    if (write_records(j, &mark, 1) < 0)
        return;
    if (fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)j->punched_pos,
                  (off_t)(up_to - j->punched_pos)) == 0)
        j->punched_pos = up_to;
}

/* --- writing */

static void drop_oldest_of_tail(struct journal *j)
{
    struct record *old = &j->tail.items[j->tail.start];
    if (j->dropped_events == 0)
        j->punched_pos = old->pos;
    j->dropped_events++;
    j->dropped_bytes += old->len;
    j->tail_bytes -= old->len;
    count_bytes(j, -(int64_t)old->len);
    j->options->total_events--;
    if (old->type == JOURNAL_OUTPUT)
        j->dropped_end[old->stream - 1] = old->offset + old->len;
    punch(j, old->pos + old->len);
    j->tail.start++;
    j->tail.count--;
}

static bool must_drop(const struct journal *j)
{
    if (j->head.count + j->dropped_events < j->least_first)
        return true;
    return !j->block && j->tail.count > j->options->min_events && over_limit(j);
}

void journal_place(struct journal *j, const struct record *rec)
{
    if (rec->type == JOURNAL_OUTPUT)
        j->stream_end[rec->stream - 1] = rec->offset + rec->len;
    if (!j->cutting && ((j->least_first && j->head.count >= j->least_head) ||
                        j->head_bytes + rec->len > j->options->limit_bytes / 2 ||
                        j->head.count >= events_within(j->options->limit_bytes) / 2 ||
                        over_shared_limit(j, rec->len)))
        j->cutting = true;
    records_push(j->cutting ? &j->tail : &j->head, rec);
    *(j->cutting ? &j->tail_bytes : &j->head_bytes) += rec->len;
    count_bytes(j, rec->len);
    j->options->total_events++;
    while (j->tail.count && must_drop(j)) {
        /* The files tell a successor what the numbers of the rest are. */
        if (j->name && j->fd < 0 && !j->restoring && !j->lost)
            journal_open_files(j);
        drop_oldest_of_tail(j);
    }
}

/* Bytes first, then the records that make them count. */
static int write_events(struct journal *j, const struct record *recs, size_t n, const char *data,
                        size_t len)
{
    int r = len ? space_append(j, data, len) : 0;
    fault_point("journal.before-record");
    if (r >= 0)
        r = write_records(j, recs, n);
    fault_point("journal.recorded");
    return r;
}

static void place_events(struct journal *j, struct record *recs, size_t n, const char *data,
                         size_t len)
{
    uint8_t stream = recs[0].stream;
    uint64_t end = stream ? recs[n - 1].offset + recs[n - 1].len : 0;
    int r = j->lost ? 0 : write_events(j, recs, n, data, len);
    if (r < 0) {
        log_error("the journal cannot be written, output is lost: %s", strerror(-r));
        j->lost = true;
    }
    for (size_t i = 0; i < n; i++) {
        if (j->lost)
            recs[i].len = 0;
        journal_place(j, &recs[i]);
    }
    if (stream)
        j->stream_end[stream - 1] = end;
    if (len) {
        j->fresh = j->lost ? NULL : data;
        j->fresh_pos = recs[0].pos;
    }
}

static void push(struct journal *j, enum journal_type type)
{
    struct record rec = {.pos = j->end_pos, .time_ns = clock_real_ns(), .type = (uint8_t)type};
    place_events(j, &rec, 1, NULL, 0);
}

/* One event, or several where it would be too long for one; written in one go. */
static void push_output(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    struct record recs[JOURNAL_BATCH];
    int64_t now = clock_real_ns();
    while (len) {
        size_t n = 0, done = 0;
        while (done < len && n < JOURNAL_BATCH) {
            size_t piece = len - done;
            if (piece > JOURNAL_EVENT_MAX)
                piece = JOURNAL_EVENT_MAX - utf8_incomplete_suffix(data + done, JOURNAL_EVENT_MAX);
            recs[n++] = (struct record){.pos = j->end_pos + done,
                                        .time_ns = now,
                                        .offset = j->stream_end[stream - 1] + done,
                                        .len = (uint32_t)piece,
                                        .type = JOURNAL_OUTPUT,
                                        .stream = stream};
            done += piece;
        }
        place_events(j, recs, n, data, done);
        data += done;
        len -= done;
    }
}

static void check_blocked(struct journal *j)
{
    if (!j->block || j->ended || journal_blocked(j) || !over_limit(j))
        return;
    if (!j->said_blocked)
        push(j, JOURNAL_BLOCKED);
    j->said_blocked = true;
    list_append(&j->options->blocked, &j->blocked_node);
}

static void notify(struct journal *j)
{
    list_for_each_safe(r, &j->readers, struct journal_reader, node) r->on_ready(r);
    j->fresh = NULL;
}

void journal_start(struct journal *j)
{
    push(j, JOURNAL_START);
    notify(j);
}

/* Takes from data what completes the carried bytes; returns how much of data is used up. */
static size_t complete_carry(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    char *carry = j->carry[stream - 1];
    size_t *n = &j->carry_len[stream - 1], used = 0;
    while (*n && used < len && utf8_incomplete_suffix(carry, *n) == *n) {
        if (((unsigned char)data[used] & 0xc0) != 0x80)
            break;
        carry[(*n)++] = data[used++];
    }
    if (*n && (used < len || utf8_incomplete_suffix(carry, *n) != *n)) {
        push_output(j, stream, carry, *n);
        j->fresh = NULL; /* the carry is about to be used again */
        *n = 0;
    }
    return used;
}

void journal_append(struct journal *j, uint8_t stream, const char *data, size_t len)
{
    size_t used = complete_carry(j, stream, data, len);
    data += used;
    len -= used;
    if (j->carry_len[stream - 1] == 0 && len) {
        size_t hold = utf8_incomplete_suffix(data, len);
        memcpy(j->carry[stream - 1], data + len - hold, hold);
        j->carry_len[stream - 1] = hold;
        if (len > hold)
            push_output(j, stream, data, len - hold);
    }
    check_blocked(j);
    notify(j);
}

void journal_end(struct journal *j)
{
    if (j->end_held) {
        j->end_held = false;
        j->ended = true;
        notify(j);
        return;
    }
    for (uint8_t s = 1; s <= 2; s++)
        if (j->carry_len[s - 1]) {
            push_output(j, s, j->carry[s - 1], j->carry_len[s - 1]);
            j->carry_len[s - 1] = 0;
        }
    list_remove(&j->blocked_node);
    push(j, JOURNAL_EXIT);
    j->ended = true;
    notify(j);
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
    return j->stream_end[stream - 1];
}

uint64_t journal_durable_end(const struct journal *j, uint8_t stream)
{
    if (!j->name || j->lost) /* what is lost is not waited for */
        return j->stream_end[stream - 1] + j->carry_len[stream - 1];
    return j->index_fd >= 0 ? j->stream_end[stream - 1] : 0;
}

uint64_t journal_last_seq(const struct journal *j)
{
    return j->head.count + j->dropped_events + j->tail.count - (j->end_held ? 1 : 0);
}
