/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of changes: events in the order of their numbers, in memory and in the store.
 *
 *   event_append()  numbers it and puts it into memory; costs a copy
 *   a batch         of the store takes all that is new along, as one row (store_on_batch()), so
 * that an event which is appended before a row of the same turn is written with it. Starts and ends
 * of commands and new sandboxes wait 100 ms for company readers         are shown what is written,
 * and nothing else: no number is ever shown twice, however the control plane dies
 *
 * An event that was appended and not written when the control plane dies is lost with its number. A
 * change of something that outlives the control plane is then in a row and not in the journal:
 * the code that restores the object asks event_is_recorded() and appends it again.
 *
 * What is kept has a limit in events and in bytes; the oldest go, in memory and in the store alike.
 * A reader is a place in the journal and costs nothing else. One that is too slow, or comes back
 * too late, gets a gap and goes on with the oldest that is kept.
 *
 * A NULL journal takes nothing and keeps nothing (the line protocol has none). */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "event/event.h"

struct event_journal;
struct store;

struct event_journal_config {
    uint64_t max_events, max_bytes; /* that are kept */
};

struct event_journal_options {
    struct event_journal_config config;
    uv_loop_t *loop;
    struct store *store;
};

/* Reads what an earlier process left. */
struct event_journal *event_journal_open(const struct event_journal_options *o, struct error *err);
/* event_journal_stop() before the loop ends, event_journal_free() after that and after the end of
 * the store. NULL is fine. */
void event_journal_stop(struct event_journal *j);
void event_journal_free(struct event_journal *j);

/* All is copied. owner "": it has no owner. data is the text of a JSON object, or NULL. What is
 * longer than EVENT_ID_MAX or EVENT_DATA_MAX is cut off or left out. */
void event_append(struct event_journal *j, enum event_type type, const char *id, const char *owner,
                  const char *data);
/* --- what readers were shown already. For code that restores objects; quick until
 * event_journal_started().
 */
/* The newest event of one of these types about that object, written or not; NULL: none is kept.
 * Valid until the next append. */
const struct event *event_find_newest(const struct event_journal *j, uint64_t types,
                                      const char *id);
/* The same whatever the object. */
const struct event *event_find_latest(const struct event_journal *j, uint64_t types);
/* Whether events of that time are not kept any more, or were not kept yet. */
bool event_is_before(const struct event_journal *j, int64_t time_ns);
/* Whether a change of that object at that time is in the journal, or may have been. */
bool event_is_recorded(const struct event_journal *j, enum event_type type, const char *id,
                       int64_t time_ns);
void event_journal_started(struct event_journal *j);

uint64_t event_journal_first(const struct event_journal *j); /* number of the oldest that is kept */
uint64_t event_journal_last(
    const struct event_journal *j); /* of the newest that is shown; 0 if there is none */
size_t event_journal_bytes(const struct event_journal *j); /* of all that is kept */

/* Embedded in its owner. on_events comes when there is more to read; it may unsubscribe any. */
struct event_reader {
    struct list node;
    struct event_journal *journal;
    struct identity who;
    uint64_t types; /* a set */
    uint64_t next;  /* number of the next event that it looks at */
    void (*on_events)(struct event_reader *r);
};
/* who, types, next and on_events are the caller's to set. */
void event_subscribe(struct event_journal *j, struct event_reader *r);
void event_unsubscribe(struct event_reader *r); /* legal when not subscribed */

/* The daemon is about to end: readers that follow are to let go, so that the daemon's end does not
 * wait for them. */
void event_journal_drain(struct event_journal *j);
bool event_journal_is_draining(const struct event_journal *j);

enum event_got {
    EVENT_GOT_NONE, /* there is no more for now */
    EVENT_GOT_ONE,  /* *ret, valid until the loop turns */
    EVENT_GOT_GAP,  /* what r->next was is not kept, or not there yet; it is the oldest kept now */
};
/* The next event that the reader may see and asked for. */
enum event_got event_read(struct event_reader *r, const struct event **ret);
