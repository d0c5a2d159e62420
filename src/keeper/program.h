/* SPDX-License-Identifier: Apache-2.0 */
/* A program that a worker starts: unprivileged, watched, with an end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

struct error;
struct worker;

struct program {
    char *const *argv; /* argv[0] is looked for in the usual places */
    char *const *env;
    const char *dir;      /* where it starts and may write; its own */
    const char *readable; /* one more file that it may read; NULL if there is none */
    bool keeps_user;      /* it runs as the keeper's user, whose files it reads; else as `nobody` */
    uint64_t file_bytes;  /* the largest file that it may write; 0: as large as a layer */
    struct strbuf out;    /* what it printed, bounded by its max */
    struct strbuf err;    /* the end of what it complained about */
    /* Optional, about ten times a second: negative ends the program, with err set. */
    int (*on_tick)(void *data, struct error *err);
    void *data;
};

/* Its exit status; negative with err set when it could not be started or was ended. */
int program_run(struct worker *w, struct program *p, struct error *err);
