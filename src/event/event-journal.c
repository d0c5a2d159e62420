/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event-journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "store/store.h"

#define SEGMENT_MAGIC 0x31545645 /* "EVT1" */
#define SEGMENT_MAX   (64 * 1024 * 1024)
#define RETRY_MS      1000 /* after a batch that could not be written */
#define GATHER_MS     100  /* what comes often waits for company */
#define RING_LEAST    64   /* places; a power of two */
#define KEY_SIZE      17
#define EVENT_COST    32 /* of an event in memory, beside its bytes: its place, the allocator's */

/* A row of the store: events that were written together. */
struct segment {
    struct list node;
    uint64_t first, last;
};

struct event_journal {
    struct event_journal_options options;
    struct event **ring; /* number n is at n modulo n_ring */
    size_t n_ring;       /* places, a power of two */
    uint64_t first;      /* the oldest that is kept */
    uint64_t next;       /* of the next append */
    uint64_t sent;       /* handed to the store up to here, this one not included */
    uint64_t shown;      /* written up to here, this one not included */
    size_t bytes;
    size_t bytes_unsent; /* about: how large the next segment is */
    struct list segments, readers;
    struct map *found; /* number of the newest event of a type and an object, while at start */
    struct loop_timer retry, gather;
    bool due; /* the next batch takes them along */
    bool draining;
    bool stopped; /* the timers are gone */
    bool failing; /* nothing is handed to the store until the timer fires */
};

static struct event *event_at(const struct event_journal *j, uint64_t seq)
{
    return j->ring[seq & (j->n_ring - 1)];
}

static size_t event_size(const struct event *e)
{
    return sizeof(*e) + e->len;
}

/* --- what is kept */

static void grow_journal(struct event_journal *j)
{
    size_t n = j->n_ring * 2;
    struct event **ring = xcalloc(n, sizeof(*ring));
    for (uint64_t s = j->first; s < j->next; s++)
        ring[s & (n - 1)] = event_at(j, s);
    free(j->ring);
    j->ring = ring;
    j->n_ring = n;
}

static void segment_key(uint64_t first, char key[KEY_SIZE])
{
    snprintf(key, KEY_SIZE, "%016" PRIx64, first);
}

/* The last segment stays, because it has the number to go on from. */
static void drop_segments(struct event_journal *j)
{
    while (!list_empty(&j->segments)) {
        struct segment *s = container_of(j->segments.next, struct segment, node);
        char key[KEY_SIZE];
        if (s->last >= j->first || s->node.next == &j->segments)
            return;
        segment_key(s->first, key);
        store_delete(j->options.store, STORE_EVENT, key, NULL, NULL);
        list_remove(&s->node);
        free(s);
    }
}

/* Readers that have not seen it get a gap. Numbers that the store was not given yet go too,
 * so that a disk which is full for long does not fill the memory. */
static void drop_oldest(struct event_journal *j)
{
    j->bytes -= event_size(event_at(j, j->first)) + EVENT_COST;
    free(event_at(j, j->first));
    j->first++;
}

static void enter_event(struct event_journal *j, struct event *e)
{
    if (j->next - j->first == j->n_ring)
        grow_journal(j);
    j->ring[j->next++ & (j->n_ring - 1)] = e;
    j->bytes += event_size(e) + EVENT_COST;
    while (j->next - j->first > 1 && (j->next - j->first > j->options.config.max_events ||
                                      j->bytes > j->options.config.max_bytes))
        drop_oldest(j);
    if (j->shown < j->first)
        j->shown = j->first;
    if (j->sent < j->first)
        j->sent = j->first;
}

/* --- telling readers */

/* Each reader once, whatever they unsubscribe meanwhile: they pass through a list of their own. */
static void wake_readers(struct event_journal *j)
{
    struct list turn;
    list_init(&turn);
    while (!list_empty(&j->readers)) {
        struct list *node = j->readers.next;
        list_remove(node);
        list_append(&turn, node);
    }
    while (!list_empty(&turn)) {
        struct event_reader *r = container_of(turn.next, struct event_reader, node);
        list_remove(&r->node);
        list_append(&j->readers, &r->node);
        r->on_events(r);
    }
}

void event_journal_drain(struct event_journal *j)
{
    if (!j)
        return;
    j->draining = true;
    wake_readers(j);
}

bool event_journal_is_draining(const struct event_journal *j)
{
    return j->draining;
}

/* --- writing */

struct writing {
    struct event_journal *journal;
    uint64_t first, last;
};

/* Readers see an event only once it is on the disk: a number that was shown must mean the same
 * event after a restart. A batch that failed is sent again with the same numbers, as far as they
 * are still kept. */
static void on_written(void *data, const struct error *err)
{
    struct writing w = *(struct writing *)data;
    struct event_journal *j = w.journal;
    free(data);
    if (err) {
        j->sent = w.first > j->first ? w.first : j->first;
        j->failing = true;
        if (!j->stopped)
            loop_timer_start(&j->retry, RETRY_MS);
        return;
    }
    struct segment *s = new0(struct segment);
    *s = (struct segment){.first = w.first, .last = w.last};
    list_append(&j->segments, &s->node);
    if (j->shown <= w.last)
        j->shown = w.last + 1;
    drop_segments(j);
    fault_point("event.written");
    wake_readers(j);
    fault_point("event.shown");
}

static void on_batch(void *data)
{
    struct event_journal *j = data;
    if (j->failing || !j->due || j->sent == j->next)
        return;
    char key[KEY_SIZE];
    uint32_t magic = SEGMENT_MAGIC;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(SEGMENT_MAX);
    strbuf_reserve(&b, j->bytes_unsent + sizeof(magic));
    strbuf_append(&b, &magic, sizeof(magic));
    struct writing *w = new0(struct writing);
    *w = (struct writing){j, j->sent, j->sent};
    for (uint64_t s = j->sent; s < j->next; s++) {
        if (strbuf_append(&b, event_at(j, s), event_size(event_at(j, s))) < 0)
            break;
        w->last = s;
    }
    j->sent = w->last + 1;
    j->bytes_unsent = 0;
    j->due = j->stopped || j->sent < j->next;
    if (!j->stopped)
        loop_timer_stop(&j->gather);
    segment_key(w->first, key);
    store_put_soon(j->options.store, STORE_EVENT, key, b.data, b.len, on_written, w);
}

static void make_due(struct event_journal *j)
{
    j->due = true;
    store_want_batch(j->options.store);
}

static void on_retry(void *data)
{
    struct event_journal *j = data;
    j->failing = false;
    make_due(j);
}

static void on_gathered(void *data)
{
    make_due(data);
}

/* Commands come by the thousand, and each segment costs pages of the database. Anything else is
 * told at once, and with the row that says the same. */
static bool comes_often(enum event_type type)
{
    return type == EVENT_EXEC_STARTED || type == EVENT_EXEC_ENDED || type == EVENT_SANDBOX_CREATED;
}

void event_append(struct event_journal *j, enum event_type type, const char *id, const char *owner,
                  const char *data)
{
    if (!j)
        return;
    size_t id_len = strnlen(id, EVENT_ID_MAX), owner_len = strnlen(owner, IDENTITY_KEY_SIZE);
    size_t data_len = data ? strlen(data) : 0;
    if (data_len > EVENT_DATA_MAX)
        data_len = 0;
    size_t len = id_len + owner_len + data_len + 3;
    struct event *e = xcalloc(1, sizeof(*e) + len);
    e->seq = j->next;
    e->time_ns = clock_real_ns();
    e->type = (uint8_t)type;
    e->len = (uint32_t)len;
    e->owner = (uint16_t)(id_len + 1);
    e->data = (uint16_t)(e->owner + owner_len + 1);
    memcpy(e->text, id, id_len);
    memcpy(e->text + e->owner, owner, owner_len);
    if (data_len)
        memcpy(e->text + e->data, data, data_len);
    enter_event(j, e);
    j->bytes_unsent += event_size(e);
    if (!comes_often(type))
        make_due(j);
    else if (!j->due && !j->stopped && !loop_timer_active(&j->gather))
        loop_timer_start(&j->gather, GATHER_MS);
    fault_point("event.appended");
}

/* --- reading */

void event_subscribe(struct event_journal *j, struct event_reader *r)
{
    r->journal = j;
    list_append(&j->readers, &r->node);
}

void event_unsubscribe(struct event_reader *r)
{
    if (r->node.next)
        list_remove(&r->node);
}

/* A later version may have written types that this one does not know. */
static bool reader_wants(uint64_t types, const struct event *e)
{
    return e->type < _EVENT_TYPE_MAX && (types & event_type_bit((enum event_type)e->type));
}

/* Who may see an event is asked for each one, with the roles of the reader at its start: a key that
 * ends takes its readers with it. */
enum event_got event_read(struct event_reader *r, const struct event **ret)
{
    struct event_journal *j = r->journal;
    if (r->next < j->first || r->next > j->shown) {
        r->next = j->first;
        return EVENT_GOT_GAP;
    }
    while (r->next < j->shown) {
        const struct event *e = event_at(j, r->next++);
        enum event_type type = (enum event_type)e->type;
        if (reader_wants(r->types, e) && event_is_for(type, event_owner(e), &r->who)) {
            *ret = e;
            return EVENT_GOT_ONE;
        }
    }
    return EVENT_GOT_NONE;
}

/* --- what readers were shown already, for use at start */

#define FOUND_KEY_SIZE (EVENT_ID_MAX + 8)

static void found_key(unsigned type, const char *id, char key[FOUND_KEY_SIZE])
{
    snprintf(key, FOUND_KEY_SIZE, "%u %s", type, id);
}

static const struct event *event_find(const struct event_journal *j, enum event_type type,
                                      const char *id)
{
    char key[FOUND_KEY_SIZE];
    if (j && j->found) {
        found_key(type, id, key);
        uint64_t s = (uintptr_t)map_find(j->found, key);
        return s >= j->first ? event_at(j, s) : NULL;
    }
    for (uint64_t s = j ? j->next : 0; s && s > j->first; s--)
        if (event_at(j, s - 1)->type == type && strcmp(event_id(event_at(j, s - 1)), id) == 0)
            return event_at(j, s - 1);
    return NULL;
}

const struct event *event_find_newest(const struct event_journal *j, uint64_t types, const char *id)
{
    const struct event *newest = NULL;
    for (unsigned t = 1; t < _EVENT_TYPE_MAX; t++) {
        const struct event *e = types & event_type_bit((enum event_type)t)
                                    ? event_find(j, (enum event_type)t, id)
                                    : NULL;
        if (e && (!newest || e->seq > newest->seq))
            newest = e;
    }
    return newest;
}

const struct event *event_find_latest(const struct event_journal *j, uint64_t types)
{
    for (uint64_t s = j ? j->next : 0; s && s > j->first; s--)
        if (reader_wants(types, event_at(j, s - 1)))
            return event_at(j, s - 1);
    return NULL;
}

bool event_is_before(const struct event_journal *j, int64_t time_ns)
{
    return !j || (j->first < j->next && time_ns < event_at(j, j->first)->time_ns);
}

bool event_is_recorded(const struct event_journal *j, enum event_type type, const char *id,
                       int64_t time_ns)
{
    return event_is_before(j, time_ns) || event_find(j, type, id);
}

void event_journal_started(struct event_journal *j)
{
    if (!j)
        return;
    map_free(j->found);
    j->found = NULL;
}

uint64_t event_journal_first(const struct event_journal *j)
{
    return j->first;
}

uint64_t event_journal_last(const struct event_journal *j)
{
    return j->shown - 1;
}

size_t event_journal_bytes(const struct event_journal *j)
{
    return j->bytes;
}

/* --- what was left */

/* The event at the start of data, or NULL: bytes of ours that are damaged must not be followed. */
static struct event *read_event(const char *data, size_t len)
{
    struct event h;
    if (len < sizeof(h))
        return NULL;
    memcpy(&h, data, sizeof(h));
    if (h.len < 3 || h.len > len - sizeof(h) || !(h.owner && h.owner < h.data && h.data < h.len))
        return NULL;
    struct event *e = xcalloc(1, sizeof(h) + h.len);
    memcpy(e, data, sizeof(h) + h.len);
    if (!e->text[e->owner - 1] && !e->text[e->data - 1] && !e->text[e->len - 1])
        return e;
    free(e);
    return NULL;
}

/* Rows come by their keys, which is by their numbers. After a hole what came before is not kept: it
 * is a gap for the reader that asks for it. */
static void load_segment(void *data, const char *key, const char *body, size_t len)
{
    struct event_journal *j = data;
    uint32_t magic = 0;
    struct segment *s = new0(struct segment);
    struct event *e;
    s->first = strtoull(key, NULL, 16);
    s->last = s->first - 1;
    if (len >= sizeof(magic))
        memcpy(&magic, body, sizeof(magic));
    for (size_t i = sizeof(magic); magic == SEGMENT_MAGIC && i < len; i += event_size(e)) {
        e = read_event(body + i, len - i);
        if (!e)
            break;
        while (e->seq != j->next && j->first < j->next)
            drop_oldest(j);
        if (j->first == j->next)
            j->first = j->next = e->seq;
        s->last = e->seq;
        enter_event(j, e);
    }
    if (s->last < s->first)
        log_error("a row of the journal of changes cannot be read key=%s", key);
    list_append(&j->segments, &s->node);
}

struct event_journal *event_journal_open(const struct event_journal_options *o, struct error *err)
{
    struct event_journal *j = new0(struct event_journal);
    j->options = *o;
    j->n_ring = RING_LEAST;
    j->ring = xcalloc(j->n_ring, sizeof(*j->ring));
    j->first = j->next = 1;
    list_init(&j->segments);
    list_init(&j->readers);
    if (store_load(o->store, STORE_EVENT, load_segment, j, err) < 0) {
        event_journal_free(j);
        return NULL;
    }
    loop_timer_init(&j->retry, o->loop, on_retry, j);
    loop_timer_init(&j->gather, o->loop, on_gathered, j);
    j->sent = j->shown = j->next;
    char key[FOUND_KEY_SIZE];
    j->found = map_new();
    for (uint64_t s = j->first; s < j->next; s++) {
        found_key(event_at(j, s)->type, event_id(event_at(j, s)), key);
        map_put(j->found, key, (void *)(uintptr_t)s);
    }
    drop_segments(j);
    store_on_batch(o->store, on_batch, j);
    return j;
}

void event_journal_stop(struct event_journal *j)
{
    if (!j)
        return;
    j->due = j->stopped = true; /* the end of the store writes what is left */
    loop_timer_close(&j->retry, NULL, NULL);
    loop_timer_close(&j->gather, NULL, NULL);
}

void event_journal_free(struct event_journal *j)
{
    if (!j)
        return;
    while (j->first < j->next)
        drop_oldest(j);
    while (!list_empty(&j->segments)) {
        struct segment *s = container_of(j->segments.next, struct segment, node);
        list_remove(&s->node);
        free(s);
    }
    map_free(j->found);
    free(j->ring);
    free(j);
}
