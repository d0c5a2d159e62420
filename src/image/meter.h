/* SPDX-License-Identifier: Apache-2.0 */
/* Tells how far a long piece of work is, now and then, whether it shall go on, and what it is about
 * to write. */
#pragma once

#include "image/image.h"

#define METER_CLAIM_BYTES (16ull << 20) /* at least, at a time */

struct meter {
    const struct image_options *options;
    const struct image_info *info; /* whose files are reported */
    struct image_progress progress;
    int64_t told_ms;
    uint64_t claimed; /* bytes that may be written before more are claimed */
};

void meter_init(struct meter *m, const struct image_options *o, const struct image_info *info);
/* A new step or layer; total is 0 where it is not known. */
int meter_step(struct meter *m, const char *step, uint64_t total, struct error *err);
/* done more bytes. ECANCELED when the caller wants no more. */
int meter_add(struct meter *m, uint64_t bytes, struct error *err);
/* So many bytes are about to be written to the disk. */
int meter_claim(struct meter *m, uint64_t bytes, struct error *err);
