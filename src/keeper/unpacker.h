/* SPDX-License-Identifier: Apache-2.0 */
/* The unpacker: a child of a worker, and the only process that takes an archive's bytes apart.
 *
 * It has four descriptors besides standard input, output and error: what it reads, the one
 * directory that it writes to, a pipe to speak, and one to hear that there is room for what it
 * writes. What comes through the former may be the archive speaking, so it is records of one size,
 * and no record says anything that an image is then stored with: what an image is (digest,
 * configuration, counts) the worker finds out itself (unpack.c). */
#pragma once

#include "keeper/internal.h"

enum unpacker_record_type {
    UNPACKER_PROGRESS = 1,
    UNPACKER_RESULT, /* the last one */
    UNPACKER_CLAIM,  /* waits for a byte, which says that it may write done_bytes more */
};

struct unpacker_record {
    uint32_t type;
    uint32_t number;        /* progress: which step; result: an error code, or ERROR_NONE */
    uint32_t layer, layers; /* progress */
    uint32_t kind;          /* result: what the archive is, in the unpacker's eyes */
    uint32_t unused;
    uint64_t done_bytes, total_bytes, files; /* progress; claim: the first */
    uint64_t skipped;                        /* result: only ever shown */
    char message[512];                       /* result: why it failed */
};

struct unpacker_task {
    enum unpack_kind kind;
    bool take_apart; /* target gets what is in the archive; else it gets "rootfs" */
    int source, target;
    const char *ref;    /* which of several images; NULL: the only one */
    const char *digest; /* what the source has to be all along; NULL if it is not known */
};

/* Runs one and waits for its end; nothing of it is left after that. *ret is its result. */
int unpacker_run(struct worker *w, const struct unpacker_task *t, struct unpacker_record *ret,
                 struct error *err);
/* The part of it that reads the pipe: any number of other records and exactly one result before its
 * end. Claims are granted through grants, which does not block. An unpacker's failure is a failure
 * here. */
int unpacker_read(struct worker *w, int fd, int grants, struct unpacker_record *ret,
                  struct error *err);
