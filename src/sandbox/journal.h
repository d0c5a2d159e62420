/* SPDX-License-Identifier: Apache-2.0 */
/* What an exec printed, in order: an append-only list of events with fixed sequence numbers.
 * Streams, logs and answers are readers of it.
 *
 * Invariants: sequence numbers start at 1 and never change; start is the first event and end the
 * last; an event's bytes never end inside a UTF-8 sequence that the next bytes complete. Over the
 * limit the middle goes: the head and the newest events are kept, and a reader that meets the gap
 * gets one JOURNAL_CUT event which says how much is missing. A journal that blocks instead says so
 * with one JOURNAL_BLOCKED event.
 *
 * Durability: a journal starts in memory. Before any reader but the final answer sees an event
 * (journal_subscribe), and before more than memory_bytes are kept, it moves to two files: NAME.dat
 * with the bytes and NAME.idx with one fixed record an event, each event's bytes written before its
 * record. What journal_durable_end() covers survives kill -9 with the same sequence numbers, times
 * and boundaries; only that may be acknowledged to the runner. A journal without a name keeps
 * nothing beyond its own life. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/output-stream.h"
#include "proto/claims.h"

struct strbuf;
struct journal;

#define JOURNAL_EVENT_MAX (64 * 1024) /* bytes of one event */

/* The numbers are in files: new ones go to the end. */
enum journal_type {
    JOURNAL_START,
    JOURNAL_OUTPUT,
    JOURNAL_CUT,
    JOURNAL_EXIT,
    JOURNAL_BLOCKED,
    _JOURNAL_TYPE_MAX,
};

struct journal_config {
    uint64_t limit_bytes; /* kept of one exec */
    size_t min_events;    /* newest events kept whatever the limit says */
    uint64_t total_limit; /* of all journals */
};

struct journal_options {
    struct journal_config config;
    int dir_fd;            /* where files are made */
    size_t memory_bytes;   /* kept in memory before a file is made */
    uint64_t total_bytes;  /* of all journals, which count it themselves */
    uint64_t total_events; /* likewise */
    struct claimant room;  /* of the file system that they are on */
    uint64_t claimed;      /* bytes that may still be written before more are claimed */
    bool short_of_room;    /* there were no more: as if total_limit was reached */
    struct list blocked;   /* journals that wait for room; only journals change the two lists */
    struct list stalled;   /* journals whose writes the disk refuses */
};

/* Journals that share a limit beside the one on all: those of a sandbox. Outlives them. */
struct journal_group {
    uint64_t limit; /* 0: none */
    uint64_t bytes; /* counted by the journals themselves */
};

struct journal_event {
    uint64_t seq;
    enum journal_type type;
    uint8_t stream;  /* enum output_stream; output only */
    int64_t time_ns; /* real time */
    uint64_t offset; /* of the first byte in its stream; output only */
    const char *data;
    size_t len;
    uint64_t dropped_bytes, dropped_events; /* cut only */
};

struct journal_reader {
    struct list node;
    uint64_t next_seq;
    uint64_t from[OUTPUT_STREAMS]; /* by stream: output before these offsets is left out, and start
                                      with it */
    void (*on_ready)(struct journal_reader *r); /* there is more, or the end came */
};

/* name: of its files, or NULL for a journal that need not survive. group may be NULL. block: at a
 * limit nothing is cut; the journal is blocked then, and its writer is to stop (what it has sent
 * already is still taken). */
struct journal *journal_new(struct journal_options *o, const char *name,
                            struct journal_group *group, bool block);
/* Removes its files too. There must be no readers left. */
void journal_free(struct journal *j);
/* The journal that an earlier process left under a name: from its files, else from a snapshot (may
 * be NULL), else empty. What a snapshot has of the end of its files is added. */
struct journal *journal_restore(struct journal_options *o, const char *name,
                                struct journal_group *group, bool block, const void *snapshot,
                                size_t len);
/* A journal that is still in memory, as bytes; of one with files, what the disk refused of its end.
 */
int journal_snapshot(const struct journal *j, struct strbuf *out);
/* How much of a stream would survive. Everything of a journal without a name counts. */
uint64_t journal_durable_end(const struct journal *j, uint8_t stream);
uint64_t journal_stream_end(const struct journal *j, uint8_t stream);
/* Removes files of journals that keep() does not know; for use at start. */
void journal_sweep(const struct journal_options *o, bool (*keep)(void *data, const char *name),
                   void *data);

void journal_start(struct journal *j);
void journal_append(struct journal *j, uint8_t stream, const char *data, size_t len);
void journal_end(struct journal *j);
/* The two halves of it: the last event is there for a successor, and then for readers. */
void journal_write_end(struct journal *j);
void journal_tell_end(struct journal *j);
/* So many bytes of a stream are lost: a part of the gap, like what is dropped over a limit. Nothing
 * is lost behind an end. */
void journal_lose(struct journal *j, uint8_t stream, uint64_t bytes);
/* After journal_restore(), where the exec's own end is not on record: an end in the journal is not
 * shown before journal_end(), which then adds none. */
void journal_hold_end(struct journal *j);
bool journal_ended(const struct journal *j);
/* After the end: it keeps no descriptor. journal_end() does this by itself. */
void journal_park(struct journal *j);
/* Its writer is to stop, because a limit is reached or the disk is full. */
bool journal_blocked(const struct journal *j);
bool journal_stalled(const struct journal *j); /* the latter */
/* Tries again to write what the disk has refused; to be called now and then. */
void journal_retry_all(struct journal_options *o);
/* Looks whether there is room (again), and wakes those who wait for it. */
void journal_look_for_room(struct journal_options *o);
/* The writer has ended and only what it wrote before is to come: nothing blocks any more. */
void journal_release(struct journal *j);
/* on_room comes when a blocked journal has room again: others gave some back. */
void journal_on_room(struct journal *j, void (*on_room)(void *data), void *data);
uint64_t journal_last_seq(const struct journal *j);

/* Reads the event at r->next_seq and moves on. 1: *ret is filled, its data lives in scratch or the
 * journal until the next call; 0: nothing there yet (or ended and all read); negative: lost. */
int journal_read(struct journal *j, struct journal_reader *r, struct journal_event *ret,
                 struct strbuf *scratch);
/* The same, but events of one stream that follow each other come as one, with the last one's number
 * and time, as long as they are within max bytes. */
int journal_read_span(struct journal *j, struct journal_reader *r, size_t max,
                      struct journal_event *ret, struct strbuf *scratch);
void journal_subscribe(struct journal *j, struct journal_reader *r);
void journal_unsubscribe(struct journal_reader *r);

/* One stream's bytes, at most max: when there are more, the first and last halves with *ret_omitted
 * bytes missing between them (at *ret_gap). */
int journal_collect(struct journal *j, uint8_t stream, size_t max, struct strbuf *out,
                    uint64_t *ret_omitted, size_t *ret_gap);
