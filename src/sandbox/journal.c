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
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "sandbox/journal-internal.h"

#define PUNCH_BYTES (1024 * 1024)

struct journal *journal_new(struct journal_options *o, const char *name)
{
    struct journal *j = new0(struct journal);
    j->options = o;
    j->name = name ? xstrdup(name) : NULL;
    j->fd = j->index_fd = -1;
    strbuf_init(&j->memory, o->memory_bytes + 1);
    list_init(&j->readers);
    return j;
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    j->options->total_bytes -= j->head_bytes + j->tail_bytes;
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

static int space_read(struct journal *j, uint64_t pos, size_t len, struct strbuf *scratch,
                      const char **ret)
{
    if (j->fd < 0) {
        *ret = j->memory.data ? j->memory.data + pos : "";
        return 0;
    }
    strbuf_reset(scratch);
    int r = strbuf_reserve(scratch, len);
    if (r < 0)
        return r;
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(j->fd, scratch->data + done, len - done, (off_t)(pos + done));
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

/* Gives the blocks of what was dropped back to the file system, in large steps. */
static void punch(struct journal *j, uint64_t up_to)
{
    if (j->fd < 0 || up_to < j->punched_pos + PUNCH_BYTES)
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
    j->options->total_bytes -= old->len;
    punch(j, old->pos + old->len);
    j->tail.start++;
    j->tail.count--;
}

static bool over_limit(const struct journal *j)
{
    return j->head_bytes + j->tail_bytes > j->options->limit_bytes ||
           j->options->total_bytes > j->options->total_limit;
}

void journal_place(struct journal *j, const struct record *rec)
{
    if (rec->type == JOURNAL_OUTPUT)
        j->stream_end[rec->stream - 1] = rec->offset + rec->len;
    if (!j->cutting && (j->head_bytes + rec->len > j->options->limit_bytes / 2 ||
                        j->options->total_bytes + rec->len > j->options->total_limit))
        j->cutting = true;
    records_push(j->cutting ? &j->tail : &j->head, rec);
    *(j->cutting ? &j->tail_bytes : &j->head_bytes) += rec->len;
    j->options->total_bytes += rec->len;
    while (j->tail.count > j->options->min_events && over_limit(j))
        drop_oldest_of_tail(j);
}

static int write_record(struct journal *j, const struct record *rec)
{
    if (j->index_fd < 0)
        return 0;
    return fd_write_all(j->index_fd, rec, sizeof(*rec));
}

/* Bytes first, then the record that makes them count. */
static void push(struct journal *j, enum journal_type type, uint8_t stream, const char *data,
                 size_t len)
{
    struct record rec = {.pos = j->end_pos,
                         .time_ns = clock_real_ns(),
                         .offset = type == JOURNAL_OUTPUT ? j->stream_end[stream - 1] : 0,
                         .len = (uint32_t)len,
                         .type = (uint8_t)type,
                         .stream = stream};
    int r = j->lost || !len ? 0 : space_append(j, data, len);
    if (r >= 0 && !j->lost)
        r = write_record(j, &rec);
    if (r < 0) {
        log_error("the journal cannot be written, output is lost: %s", strerror(-r));
        j->lost = true;
    }
    if (j->lost)
        rec.len = 0;
    journal_place(j, &rec);
    if (j->lost && type == JOURNAL_OUTPUT)
        j->stream_end[stream - 1] += len;
}

static void notify(struct journal *j)
{
    list_for_each_safe(r, &j->readers, struct journal_reader, node) r->on_ready(r);
}

void journal_start(struct journal *j)
{
    push(j, JOURNAL_START, 0, NULL, 0);
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
        push(j, JOURNAL_OUTPUT, stream, carry, *n);
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
            push(j, JOURNAL_OUTPUT, stream, data, len - hold);
    }
    notify(j);
}

void journal_end(struct journal *j)
{
    for (uint8_t s = 1; s <= 2; s++)
        if (j->carry_len[s - 1]) {
            push(j, JOURNAL_OUTPUT, s, j->carry[s - 1], j->carry_len[s - 1]);
            j->carry_len[s - 1] = 0;
        }
    push(j, JOURNAL_EXIT, 0, NULL, 0);
    j->ended = true;
    notify(j);
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
    return j->head.count + j->dropped_events + j->tail.count;
}

/* --- reading */

static const struct record *find_record(const struct journal *j, uint64_t seq)
{
    uint64_t i = seq - 1;
    if (i < j->head.count)
        return &j->head.items[i];
    i -= j->head.count + j->dropped_events;
    return &j->tail.items[j->tail.start + i];
}

int journal_read(struct journal *j, struct journal_reader *r, struct journal_event *ret,
                 struct strbuf *scratch)
{
    if (r->next_seq == 0)
        r->next_seq = 1;
    if (r->next_seq > journal_last_seq(j))
        return 0;
    uint64_t first_tail = j->head.count + j->dropped_events + 1;
    if (r->next_seq > j->head.count && r->next_seq < first_tail) {
        *ret = (struct journal_event){.seq = first_tail - 1,
                                      .type = JOURNAL_CUT,
                                      .time_ns = find_record(j, first_tail)->time_ns,
                                      .dropped_bytes = j->dropped_bytes,
                                      .dropped_events = j->dropped_events};
        r->next_seq = first_tail;
        return 1;
    }
    const struct record *rec = find_record(j, r->next_seq);
    *ret = (struct journal_event){.seq = r->next_seq,
                                  .type = rec->type,
                                  .stream = rec->stream,
                                  .time_ns = rec->time_ns,
                                  .offset = rec->offset,
                                  .len = rec->len};
    if (rec->len) {
        int err = space_read(j, rec->pos, rec->len, scratch, &ret->data);
        if (err < 0)
            return err;
    }
    r->next_seq++;
    return 1;
}

/* What a reader has seen must be the same after a restart. */
void journal_subscribe(struct journal *j, struct journal_reader *r)
{
    if (j->name && j->fd < 0 && !j->lost && journal_open_files(j) < 0)
        log_warn("the journal stays in memory: %s", strerror(errno));
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
    int r = space_read(c->journal, rec->pos, rec->len, &c->scratch, &data);
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
    c.total = j->stream_end[stream - 1];
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
