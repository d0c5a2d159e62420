/* SPDX-License-Identifier: Apache-2.0 */
/* Decoder of the chunked transfer coding (RFC 9112 section 7.1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Size lines, extensions and trailers a body may spend beyond what its chunks need. */
#define CHUNK_OVERHEAD_MAX  16384
#define CHUNK_OVERHEAD_FREE 16 /* a chunk's size line and line ends */

/* Zero is the start of a body. */
struct chunk_decoder {
    unsigned state;
    unsigned digits;
    uint64_t left; /* of the chunk's data */
    bool last;     /* in or after the last chunk's line */
    bool done;
    size_t overhead;
};

/* Consumes bytes up to and including the next piece of data. Returns how many were consumed, with
 * the piece in *ret_piece and *ret_len (0 when there is none yet), or -EBADMSG. Sets done at the
 * end of the trailers, beyond which nothing is consumed. */
ssize_t chunk_decode(struct chunk_decoder *d, const char *data, size_t len, const char **ret_piece,
                     size_t *ret_len);
