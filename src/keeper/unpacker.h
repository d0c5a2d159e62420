/* SPDX-License-Identifier: Apache-2.0 */
/* The unpacker: a child of a worker, and the only process that takes an archive's bytes apart.
 *
 * It has three descriptors besides standard input, output and error: what it reads, the one
 * directory that it writes to, and a pipe. What comes through the pipe may be the archive speaking,
 * so it is records of one size, and no record says anything that an image is then stored with: what
 * an image is (digest, configuration, counts) the worker finds out itself (unpack.c). */
#pragma once

#include "keeper/internal.h"

enum unpacker_record_type {
    UNPACKER_PROGRESS = 1,
    UNPACKER_RESULT, /* the last one */
};

struct unpacker_record {
    uint32_t type;
    uint32_t number;        /* progress: which step; result: an error code, or ERROR_NONE */
    uint32_t layer, layers; /* progress */
    uint32_t kind;          /* result: what the archive is, in the unpacker's eyes */
    uint32_t unused;
    uint64_t done_bytes, total_bytes, files; /* progress */
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
/* The part of it that reads the pipe: any number of progress records and exactly one result before
 * its end. An unpacker's failure is a failure here. */
int unpacker_read(struct worker *w, int fd, struct unpacker_record *ret, struct error *err);
