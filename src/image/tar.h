/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive's tar reader over a stream: one entry after the other, nothing but tar. */
#pragma once

#include "image/layer-stream.h"

struct archive_entry;
struct tar_source;

int tar_source_open(struct layer_stream *s, struct tar_source **ret, struct error *err);
void tar_source_free(struct tar_source *t); /* the stream is the caller's; NULL is fine */
static inline void cleanup_tar_source(struct tar_source **t)
{
    tar_source_free(*t);
}
#define _cleanup_tar_source_ __attribute__((cleanup(cleanup_tar_source)))

/* 1 and the next entry, 0 at the end. The entry's content that was not read is passed over. */
int tar_source_next(struct tar_source *t, struct archive_entry **ret, const char **ret_name,
                    struct error *err);
/* The next piece of content, with where in the file it belongs: 1, or 0 at the end. */
int tar_source_read(struct tar_source *t, const void **data, size_t *len, uint64_t *offset,
                    struct error *err);
