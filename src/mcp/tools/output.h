/* SPDX-License-Identifier: Apache-2.0 */
/* What a command printed on one stream, from an offset. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct exec;

struct output_range {
    uint64_t offset;  /* of the first byte of text */
    uint64_t next;    /* where to read on */
    uint64_t total;   /* bytes printed so far */
    uint64_t skipped; /* bytes that are no longer kept before offset */
    bool at_end;      /* nothing more will come */
    struct strbuf text;
};

/* At most max bytes. Negative when the journal cannot be read; ret is to be done in any case. */
int output_read(struct exec *e, uint8_t stream, uint64_t offset, size_t max,
                struct output_range *ret);
void output_range_done(struct output_range *r);
