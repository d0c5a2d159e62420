/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a journal: events one by one or several as one, and one stream as a whole. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "sandbox/journal-internal.h"

/* Bytes at a position: the journal's own while in memory, else read into scratch. */
static int journal_space_read(struct journal *j, uint64_t pos, size_t len, struct strbuf *scratch,
                              const char **ret)
{
    /* Readers are called while an append is still going on. What they are called for is in the
     * caller's buffer and need not be read back from the disk. */
    if (j->fresh && pos >= j->fresh_pos) {
        *ret = j->fresh + (pos - j->fresh_pos);
        return 0;
    }
    if (j->fd < 0 && !j->parked) {
        *ret = j->memory.data ? j->memory.data + pos : "";
        return 0;
    }
    strbuf_reset(scratch);
    int r = strbuf_reserve(scratch, len);
    if (r < 0)
        return r;
    _cleanup_close_ int opened = j->parked ? journal_open_parked(j) : -1;
    if (j->parked && opened < 0)
        return opened;
    int fd = j->parked ? opened : j->fd;
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, scratch->data + done, len - done, (off_t)(pos + done));
        if (n == 0)
            return -EIO;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            done += (size_t)n;
    }
    strbuf_commit(scratch, len);
    *ret = scratch->data;
    return 0;
}

/* --- reading */

static const struct record *find_record(const struct journal *j, uint64_t seq)
{
    /* Numbers run on through the gap: head, then what was dropped, then tail. */
    uint64_t i = seq - 1;
    if (i < j->head.count)
        return &j->head.items[i];
    i -= j->head.count + j->dropped_events;
    return &j->tail.items[j->tail.start + i];
}

static void fill_cut(const struct journal *j, struct journal_event *ret)
{
    uint64_t first_tail = j->head.count + j->dropped_events + 1;
    *ret = (struct journal_event){.seq = first_tail - 1,
                                  .type = JOURNAL_CUT,
                                  .time_ns = find_record(j, first_tail)->time_ns,
                                  .dropped_bytes = j->dropped_bytes,
                                  .dropped_events = j->dropped_events};
}

/* An event that a reader who asked for offsets has already, whole. */
static bool is_behind(const struct journal_reader *r, const struct record *rec)
{
    if (rec->type == JOURNAL_OUTPUT)
        return rec->offset + rec->len <= r->from[output_index(rec->stream)] &&
               r->from[output_index(rec->stream)];
    return rec->type == JOURNAL_START && (r->from[0] || r->from[1]);
}

/* Moves to the reader's next event. 1: to a record; 2: to the gap; 0: there is none yet. */
static int seek_event(const struct journal *j, struct journal_reader *r)
{
    uint64_t first_tail = j->head.count + j->dropped_events + 1;
    if (r->next_seq == 0)
        r->next_seq = 1;
    for (;; r->next_seq++) {
        if (r->next_seq > journal_last_seq(j))
            return 0;
        if (r->next_seq > j->head.count && r->next_seq < first_tail) {
            if (!j->tail.count)
                return 0; /* the gap ends where the next event is */
            if (j->dropped_end[0] > r->from[0] || j->dropped_end[1] > r->from[1])
                return 2;
            r->next_seq = first_tail;
        }
        if (!is_behind(r, find_record(j, r->next_seq)))
            return 1;
    }
}

/* How many bytes of events after the one at r->next_seq can come with it; r moves to the last. */
static size_t join_span(const struct journal *j, struct journal_reader *r, size_t room,
                        const struct record **ret_last)
{
    size_t more = 0;
    const struct record *rec = *ret_last;
    while (rec->type == JOURNAL_OUTPUT && r->next_seq < journal_last_seq(j) &&
           r->next_seq != j->head.count) {
        const struct record *next = find_record(j, r->next_seq + 1);
        if (next->type != JOURNAL_OUTPUT || next->stream != rec->stream ||
            next->pos != rec->pos + rec->len || more + next->len > room)
            break;
        more += next->len;
        rec = next;
        r->next_seq++;
    }
    *ret_last = rec;
    return more;
}

int journal_read_span(struct journal *j, struct journal_reader *r, size_t max,
                      struct journal_event *ret, struct strbuf *scratch)
{
    int found = seek_event(j, r);
    if (found == 0)
        return 0;
    if (found == 2) {
        fill_cut(j, ret);
        r->next_seq = ret->seq + 1;
        return 1;
    }
    const struct record *rec = find_record(j, r->next_seq), *last = rec;
    size_t skip = 0, len = rec->len;
    if (rec->type == JOURNAL_OUTPUT && r->from[output_index(rec->stream)] > rec->offset)
        skip = r->from[output_index(rec->stream)] - rec->offset;
    if (max > len)
        len += join_span(j, r, max - len, &last);
    *ret = (struct journal_event){.seq = r->next_seq,
                                  .type = rec->type,
                                  .stream = rec->stream,
                                  .time_ns = last->time_ns,
                                  .offset = rec->offset + skip,
                                  .len = len - skip};
    if (ret->len) {
        int err = journal_space_read(j, rec->pos + skip, ret->len, scratch, &ret->data);
        if (err < 0)
            return err;
    }
    r->next_seq++;
    return 1;
}

int journal_read(struct journal *j, struct journal_reader *r, struct journal_event *ret,
                 struct strbuf *scratch)
{
    return journal_read_span(j, r, 0, ret, scratch);
}

/* What a reader has seen must be the same after a restart. */
void journal_subscribe(struct journal *j, struct journal_reader *r)
{
    if (j->name && j->fd < 0 && !j->parked && journal_open_files(j) < 0)
        log_warn("the journal stays in memory: %s", strerror(errno));
    journal_park(j);
    list_append(&j->readers, &r->node);
}

void journal_unsubscribe(struct journal_reader *r)
{
    if (r->node.next)
        list_remove(&r->node);
}

/* --- one stream as a whole */

struct collector {
    struct journal *journal;
    uint8_t stream;
    struct strbuf scratch;
    struct strbuf *out;
    uint64_t total, head, tail_from; /* in bytes of the stream */
};

/* Appends the part of a record's bytes that lies in the head or the tail. */
static int collect_record(struct collector *c, const struct record *rec)
{
    const char *data;
    if (rec->stream != c->stream || rec->type != JOURNAL_OUTPUT || rec->len == 0)
        return 0;
    uint64_t from = rec->offset, to = rec->offset + rec->len;
    if (from >= c->head && to <= c->tail_from)
        return 0;
    int r = journal_space_read(c->journal, rec->pos, rec->len, &c->scratch, &data);
    if (r < 0)
        return r;
    if (from < c->head) {
        uint64_t end = to < c->head ? to : c->head;
        r = strbuf_append(c->out, data, end - from);
    }
    uint64_t start = from > c->tail_from ? from : c->tail_from;
    if (start < c->head)
        start = c->head;
    if (r >= 0 && start < to)
        r = strbuf_append(c->out, data + (start - from), to - start);
    return r;
}

int journal_collect(struct journal *j, uint8_t stream, size_t max, struct strbuf *out,
                    uint64_t *ret_omitted, size_t *ret_gap)
{
    struct collector c = {.journal = j, .stream = stream, .out = out};
    strbuf_init(&c.scratch, UINT32_MAX);
    c.total = j->stream_end[output_index(stream)];
    /* Half of what may be shown is the beginning of the stream, half its end: a failed build shows
     * its command line and its error, and not the middle of its log. */
    c.head = c.total <= max ? c.total : max - max / 2;
    c.tail_from = c.total <= max ? c.total : c.total - max / 2;
    size_t before = out->len;
    int r = 0;
    for (size_t i = 0; r >= 0 && i < j->head.count; i++)
        r = collect_record(&c, &j->head.items[j->head.start + i]);
    size_t after_head = out->len;
    for (size_t i = 0; r >= 0 && i < j->tail.count; i++)
        r = collect_record(&c, &j->tail.items[j->tail.start + i]);
    strbuf_done(&c.scratch);
    *ret_omitted = c.total - (out->len - before);
    *ret_gap = *ret_omitted == 0              ? out->len - before
               : after_head - before < c.head ? after_head - before
                                              : (size_t)c.head;
    return r;
}
