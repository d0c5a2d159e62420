/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed file as a bounded stream of its content, hashed on both sides.
 *
 * Exactly one layer of compression is taken off, the one that the first bytes name; what comes out
 * is counted against the limits before it is parsed. */
#pragma once

#include <sys/types.h>

#include "image/meter.h"

struct layer_stream;

enum stream_format {
    STREAM_PLAIN,
    STREAM_GZIP,
    STREAM_ZSTD,
    STREAM_XZ,
    _STREAM_FORMAT_MAX,
};

/* fd is borrowed, read from where it stands to its end (a pipe is fine). max_in and
 * max_out bound what is read and what comes out. The meter counts what is read. */
int layer_stream_open(int fd, uint64_t max_in, uint64_t max_out, struct meter *m,
                      struct layer_stream **ret, struct error *err);
void layer_stream_free(struct layer_stream *s); /* NULL is fine */
static inline void cleanup_layer_stream(struct layer_stream **s)
{
    layer_stream_free(*s);
}
#define _cleanup_layer_stream_ __attribute__((cleanup(cleanup_layer_stream)))

/* The next block, the stream's own until the next call. Returns its length, 0 at the end. */
ssize_t layer_stream_next(struct layer_stream *s, const void **ret, struct error *err);
/* While allowance is not 0, blocks past that many bytes are refused: what a parser may read at once
 * without telling anything. */
void layer_stream_allow(struct layer_stream *s, uint64_t bytes);
/* As for what comes out: whether so much content, holes of sparse files included, is too much for
 * what was read so far. */
int layer_stream_check_content(struct layer_stream *s, uint64_t bytes, struct error *err);
/* Reads to the end of the content and of the file; the two hashes, either may be NULL. */
int layer_stream_finish(struct layer_stream *s, char ret_in[IMAGE_DIGEST_SIZE],
                        char ret_out[IMAGE_DIGEST_SIZE], struct error *err);
