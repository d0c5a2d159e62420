/* What an exec printed, in order: an append-only list of events with fixed sequence numbers.
 * Streams, logs and answers are readers of it.
 *
 * Invariants: sequence numbers start at 1 and never change; start is the first event and end the
 * last; an event's bytes never end inside a UTF-8 sequence that the next bytes complete. Small
 * journals stay in memory, larger ones go to an unlinked file. Over the limit the middle goes: the
 * head and the newest events are kept, and a reader that meets the gap gets one JOURNAL_CUT event
 * which says how much is missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct strbuf;
struct journal;

enum journal_type { JOURNAL_START, JOURNAL_OUTPUT, JOURNAL_CUT, JOURNAL_EXIT, _JOURNAL_TYPE_MAX };

struct journal_options {
    int dir_fd;           /* where files are made */
    size_t memory_bytes;  /* kept in memory before a file is made */
    uint64_t limit_bytes; /* kept of one exec */
    size_t min_events;    /* newest events kept whatever the limit says */
    uint64_t total_limit; /* of all journals */
    uint64_t total_bytes; /* counted by the journals themselves */
};

struct journal_event {
    uint64_t seq;
    enum journal_type type;
    uint8_t stream;  /* 1 stdout, 2 stderr; output only */
    int64_t time_ns; /* real time */
    uint64_t offset; /* of the first byte in its stream; output only */
    const char *data;
    size_t len;
    uint64_t dropped_bytes, dropped_events; /* cut only */
};

struct journal_reader {
    struct list node;
    uint64_t next_seq;
    void (*on_ready)(struct journal_reader *r); /* there is more, or the end came */
};

struct journal *journal_new(struct journal_options *o);
void journal_free(struct journal *j); /* there must be no readers left */

void journal_start(struct journal *j);
void journal_append(struct journal *j, uint8_t stream, const char *data, size_t len);
void journal_end(struct journal *j);
bool journal_ended(const struct journal *j);
uint64_t journal_last_seq(const struct journal *j);

/* Reads the event at r->next_seq and moves on. 1: *ret is filled, its data lives in scratch or the
 * journal until the next call; 0: nothing there yet (or ended and all read); negative: lost. */
int journal_read(struct journal *j, struct journal_reader *r, struct journal_event *ret,
                 struct strbuf *scratch);
void journal_subscribe(struct journal *j, struct journal_reader *r);
void journal_unsubscribe(struct journal_reader *r);

/* One stream's bytes, at most max: when there are more, the first and last halves with *ret_omitted
 * bytes missing between them (at *ret_gap). */
int journal_collect(struct journal *j, uint8_t stream, size_t max, struct strbuf *out,
                    uint64_t *ret_omitted, size_t *ret_gap);
