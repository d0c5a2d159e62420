/* SPDX-License-Identifier: Apache-2.0 */
/* What journal.c and journal-file.c share; for no one else. */
#pragma once

#include <assert.h>

#include "base/output-stream.h"
#include "base/strbuf.h"
#include "sandbox/journal.h"

/* One event; also the format of NAME.idx. */
struct record {
    uint64_t pos;    /* in the space */
    uint64_t offset; /* in the stream */
    int64_t time_ns;
    uint32_t len;
    uint8_t type;
    uint8_t stream;
    uint16_t reserved;
};
static_assert(sizeof(struct record) == 32, "records are written as they are");

/* A record that is no event: numbers of what an index that was written anew leaves out. */
#define RECORD_GAP 200
/* Its two halves, by the member `stream`: how many events and bytes, and where each stream goes on.
 */
enum gap_half { GAP_SIZE = 1, GAP_ENDS = 2 };

/* A gap's two records and an end. */
#define JOURNAL_OWED_MAX 3

struct records {
    struct record *items;
    size_t start, count, alloc; /* live ones are items[start .. start+count) */
};

struct journal {
    struct journal_options *options;
    struct journal_group *group; /* or NULL */
    bool block;                  /* at a limit, instead of cutting */
    bool said_blocked;
    uint64_t extra;           /* over the limits, for the last bytes of a writer that was blocked */
    struct list blocked_node; /* in options->blocked */
    void (*on_room)(void *data);
    void *room_data;
    struct records head, tail;
    bool cutting; /* the head is full: everything new goes to the tail */
    uint64_t head_bytes, tail_bytes;
    uint64_t dropped_events, dropped_bytes;
    uint64_t dropped_end[OUTPUT_STREAMS]; /* by stream: the end of what was dropped */
    bool restoring;
    uint64_t least_head, least_first; /* while restoring: what an earlier process had dropped */
    char *name;                       /* of its files; NULL: need not survive */
    struct strbuf memory;
    bool has_files;     /* or may have */
    bool parked;        /* ended; its files are opened when a reader comes */
    int fd;             /* of the bytes; -1 while in memory */
    int index_fd;       /* of the records; -1 while in memory, or without a name */
    uint64_t n_indexed; /* records in the index, marks included */
    bool compact_due;
    uint64_t end_pos;
    uint64_t punched_pos; /* where the next hole starts */
    uint64_t stream_end[OUTPUT_STREAMS];
    char carry[OUTPUT_STREAMS][4]; /* bytes of an unfinished UTF-8 sequence */
    size_t carry_len[OUTPUT_STREAMS];
    const char *fresh; /* the bytes from fresh_pos to the end, while readers are woken for them */
    uint64_t fresh_pos;
    bool ended;
    struct strbuf pending[OUTPUT_STREAMS]; /* what the disk has refused so far */
    uint64_t pending_lost;
    bool said_stalled;
    bool released; /* its writer has ended: nothing waits for the disk any more */
    bool gave_up;  /* something was lost, and is said to be */
    struct record owed[JOURNAL_OWED_MAX]; /* what the index must have before anything else */
    size_t n_owed;
    struct list stalled_node; /* in options->stalled */
    bool end_held;            /* the last record is an end that no reader may see yet */
    struct list readers;
};

#define JOURNAL_NAME_MAX 64

/* More than a writer may send before it is acknowledged: see PROTO_WINDOW. */
#define JOURNAL_PENDING_MAX (1024 * 1024)

/* journal.c. journal_place() puts a record where the limits say, without writing anything. */
void journal_place(struct journal *j, const struct record *rec);
void journal_drop_oldest(struct journal *j); /* of the tail */
bool journal_over_limit(const struct journal *j);
int journal_space_append(struct journal *j, const char *data, size_t len);
int journal_write_records(struct journal *j, const struct record *recs, size_t n);
int journal_pay(struct journal *j); /* what it owes its index */
/* journal-read.c. */
/* journal-file.c: moves what is in memory to files. 0, or -errno with the journal as it was. */
int journal_open_files(struct journal *j);
void journal_remove_files(struct journal *j);
/* The gap's numbers take two records: how much it is, and where the streams go on after it. */
void journal_gap_records(struct record gap[2], uint64_t events, uint64_t bytes,
                         const uint64_t end[OUTPUT_STREAMS]);
int journal_open_parked(const struct journal *j);
/* Writes the index anew, without the records of what was dropped, which would grow for ever. */
void journal_compact(struct journal *j);
/* journal-write.c: what the disk refuses of a writer that has ended is given up. */
void journal_settle(struct journal *j);
