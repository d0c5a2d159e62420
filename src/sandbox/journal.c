/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept. In memory: `head` holds the first events, `tail` the newest; once the limit is
 * reached new events only join the tail, and its oldest are dropped. Bytes live at a position in
 * one growing space, which is a buffer first and a file later; dropped ranges are punched out of
 * the file. */
#include "sandbox/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "proto/claims.h"
#include "sandbox/journal-internal.h"

#define CLAIM_BYTES   (1024 * 1024)
#define PUNCH_BYTES   (1024 * 1024)
#define RELEASE_BYTES (2 * 1024 * 1024) /* of pipes and windows of a command that was blocked */
#define EVENTS_LEAST  4096              /* that may be kept, however few bytes */
#define COMPACT_LEAST 16384             /* records of an index that is worth writing anew */

struct journal *journal_new(struct journal_options *o, const char *name,
                            struct journal_group *group, bool block)
{
    struct journal *j = new0(struct journal);
    j->options = o;
    j->group = group;
    j->block = block;
    list_init(&j->blocked_node);
    list_init(&j->stalled_node);
    if (!o->blocked.next)
        list_init(&o->blocked);
    if (!o->stalled.next)
        list_init(&o->stalled);
    for (size_t s = 0; s < 2; s++)
        strbuf_init(&j->pending[s], JOURNAL_PENDING_MAX);
    j->name = name ? xstrdup(name) : NULL;
    j->fd = j->index_fd = -1;
    strbuf_init(&j->memory, o->memory_bytes + 1);
    list_init(&j->readers);
    return j;
}

/* --- limits */

/* Claims what journals may write next, so that neither a disk nor an image is given it. */
static void claim_room(struct journal_options *o)
{
    o->claimed = CLAIM_BYTES;
    o->short_of_room = claims_take(&o->room, CLAIM_BYTES, NULL) < 0;
}

static void count_bytes(struct journal *j, int64_t n)
{
    j->options->total_bytes += (uint64_t)n;
    if (n > 0 && (uint64_t)n >= j->options->claimed)
        claim_room(j->options);
    else if (n > 0)
        j->options->claimed -= (uint64_t)n;
    if (j->group)
        j->group->bytes += (uint64_t)n;
}

/* Records take memory too: of a command that prints byte by byte, far more than its bytes. Where
 * so many bytes may be kept, so many events may. */
static uint64_t events_within(uint64_t bytes)
{
    uint64_t n = bytes / sizeof(struct record);
    return n > EVENTS_LEAST ? n : EVENTS_LEAST;
}

/* Whether len more bytes would be too many for all journals, or for those of the group. */
static bool over_shared_limit(const struct journal *j, uint64_t len)
{
    const struct journal_group *g = j->group;
    return j->options->total_bytes + len > j->options->config.total_limit + j->extra ||
           j->options->short_of_room ||
           j->options->total_events > events_within(j->options->config.total_limit) ||
           (g && g->limit && g->bytes + len > g->limit + j->extra);
}

bool journal_over_limit(const struct journal *j)
{
    return j->head_bytes + j->tail_bytes > j->options->config.limit_bytes + j->extra ||
           j->head.count + j->tail.count > events_within(j->options->config.limit_bytes) ||
           over_shared_limit(j, 0);
}

bool journal_blocked(const struct journal *j)
{
    return !list_empty(&j->blocked_node) || journal_stalled(j);
}

void journal_on_room(struct journal *j, void (*on_room)(void *data), void *data)
{
    j->on_room = on_room;
    j->room_data = data;
}

/* What is still to come is at most the runner's ring, so the limit is raised by that much and holds
 * again. */
void journal_release(struct journal *j)
{
    j->released = true;
    bool waits = journal_blocked(j);
    if (j->block) {
        j->block = false;
        j->extra = RELEASE_BYTES;
        list_remove(&j->blocked_node);
    }
    journal_settle(j);
    if (waits && j->on_room)
        j->on_room(j->room_data);
}

static void wake_blocked(struct journal_options *o)
{
    list_for_each_safe(j, &o->blocked, struct journal, blocked_node) {
        if (journal_over_limit(j))
            continue;
        list_remove(&j->blocked_node);
        if (j->on_room)
            j->on_room(j->room_data);
    }
}

void journal_look_for_room(struct journal_options *o)
{
    if (!o->short_of_room)
        return;
    claim_room(o);
    if (!o->short_of_room && o->blocked.next)
        wake_blocked(o);
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    list_remove(&j->blocked_node);
    list_remove(&j->stalled_node);
    for (size_t s = 0; s < 2; s++)
        strbuf_done(&j->pending[s]);
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

/* A write that fails half-way is done again at the same place. */
static int write_at(int fd, const char *data, size_t len, uint64_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, data + done, len - done, (off_t)(at + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return n == 0 ? -EIO : -errno;
    }
    return 0;
}

int journal_space_append(struct journal *j, const char *data, size_t len)
{
    if (j->fd < 0 && j->end_pos + len <= j->options->memory_bytes) {
        strbuf_append(&j->memory, data, len);
    } else {
        int r = j->fd < 0 ? journal_open_files(j) : 0;
        if (r < 0)
            return r;
        r = write_at(j->fd, data, len, j->end_pos);
        if (r < 0)
            return r;
    }
    j->end_pos += len;
    return 0;
}

int journal_write_records(struct journal *j, const struct record *recs, size_t n)
{
    const char *data = (const char *)recs;
    size_t len = n * sizeof(*recs);
    if (j->index_fd < 0)
        return 0;
    int r = write_at(j->index_fd, data, len, j->n_indexed * sizeof(*recs));
    if (r < 0)
        return r;
    j->n_indexed += n;
    return r;
}

int journal_pay(struct journal *j)
{
    int r = j->n_owed ? journal_write_records(j, j->owed, j->n_owed) : 0;
    if (r >= 0)
        j->n_owed = 0;
    return r;
}

/* Gives the blocks of what was dropped back to the file system, in large steps. A mark in the index
 * says so first: limits may be others when it is read back, and a hole reads as zeros. */
static void journal_punch_hole(struct journal *j, uint64_t up_to)
{
    struct record mark = {
        .type = JOURNAL_CUT, .pos = j->head.count, .offset = j->head.count + j->dropped_events};
    if (j->fd < 0 || j->restoring || up_to < j->punched_pos + PUNCH_BYTES)
        return;
    if (journal_write_records(j, &mark, 1) < 0)
        return;
    if (fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)j->punched_pos,
                  (off_t)(up_to - j->punched_pos)) == 0)
        j->punched_pos = up_to;
}

/* --- placing events */

void journal_drop_oldest(struct journal *j)
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
        j->dropped_end[output_index(old->stream)] = old->offset + old->len;
    journal_punch_hole(j, old->pos + old->len);
    j->tail.start++;
    j->tail.count--;
    j->compact_due = !j->restoring && j->n_indexed > COMPACT_LEAST &&
                     j->n_indexed > 2 * (j->head.count + j->tail.count);
}

static bool must_drop(const struct journal *j)
{
    if (j->head.count + j->dropped_events < j->least_first)
        return true;
    return !j->block && j->tail.count > j->options->config.min_events && journal_over_limit(j);
}

/* The first half of the limit is the head, which is never dropped; what comes behind is the tail,
 * and its oldest part goes first. So a reader who comes late sees how a command began and how it
 * ended. */
void journal_place(struct journal *j, const struct record *rec)
{
    if (rec->type == JOURNAL_OUTPUT)
        j->stream_end[output_index(rec->stream)] = rec->offset + rec->len;
    if (!j->cutting && ((j->least_first && j->head.count >= j->least_head) ||
                        j->head_bytes + rec->len > j->options->config.limit_bytes / 2 ||
                        j->head.count >= events_within(j->options->config.limit_bytes) / 2 ||
                        over_shared_limit(j, rec->len)))
        j->cutting = true;
    records_push(j->cutting ? &j->tail : &j->head, rec);
    *(j->cutting ? &j->tail_bytes : &j->head_bytes) += rec->len;
    count_bytes(j, rec->len);
    j->options->total_events++;
    while (j->tail.count && must_drop(j)) {
        /* The files tell a successor what the numbers of the rest are. */
        if (j->name && j->fd < 0 && !j->restoring)
            journal_open_files(j);
        journal_drop_oldest(j);
    }
    if (j->compact_due)
        journal_compact(j);
}
