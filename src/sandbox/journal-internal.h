/* What journal.c and journal-file.c share; for no one else. */
#pragma once

#include <assert.h>

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
    uint64_t dropped_end[2]; /* by stream: the end of what was dropped */
    bool restoring;
    uint64_t least_head, least_first; /* while restoring: what an earlier process had dropped */
    char *name;                       /* of its files; NULL: need not survive */
    struct strbuf memory;
    bool has_files; /* or may have */
    int fd;         /* of the bytes; -1 while in memory */
    int index_fd;   /* of the records; -1 while in memory, or without a name */
    uint64_t end_pos;
    uint64_t punched_pos; /* where the next hole starts */
    uint64_t stream_end[2];
    char carry[2][4]; /* bytes of an unfinished UTF-8 sequence */
    size_t carry_len[2];
    const char *fresh; /* the bytes from fresh_pos to the end, while readers are told of them */
    uint64_t fresh_pos;
    bool ended, lost;
    bool end_held; /* the last record is an end that nobody may see yet */
    struct list readers;
};

#define JOURNAL_NAME_MAX 64

/* journal.c: puts a record where the limits say, without writing anything. */
void journal_place(struct journal *j, const struct record *rec);
/* Bytes at a position: the journal's own while in memory, else read into scratch. */
int journal_space_read(struct journal *j, uint64_t pos, size_t len, struct strbuf *scratch,
                       const char **ret);
/* journal-file.c: moves what is in memory to files. 0, or -errno with the journal as it was. */
int journal_open_files(struct journal *j);
void journal_remove_files(struct journal *j);
