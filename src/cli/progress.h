/* SPDX-License-Identifier: Apache-2.0 */
/* How far something is: a bar that is drawn over itself on a terminal, elsewhere one line per step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool quiet;    /* nothing at all */
    bool terminal; /* of stderr */
    char step[32];
    int64_t drawn_ms;
    bool drawn; /* a bar is on the line */
};

void progress_init(struct progress *p, bool quiet);
/* total 0 if it is not known. note may be "". */
void progress_show(struct progress *p, const char *step, uint64_t done, uint64_t total,
                   const char *note);
void progress_end(struct progress *p); /* takes the bar away */
