/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of one stream that the peer still has to take, addressed by their offset in the stream.
 *
 * Invariants: start <= end, end - start <= size <= PROTO_WINDOW; size is 0 or a power of two.
 * Memory grows with need and is given back when the ring is empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ring {
    char *data;
    size_t size;
    uint64_t start, end;
};

void ring_done(struct ring *r);
static inline size_t ring_used(const struct ring *r)
{
    return (size_t)(r->end - r->start);
}
size_t ring_free(const struct ring *r);
/* One read() into it. Bytes, 0 at the end of the file, -ENOBUFS when full, or -errno. */
ssize_t ring_read_fd(struct ring *r, int fd);
/* One write() of what it holds, which is then dropped. Bytes or -errno. */
ssize_t ring_write_fd(struct ring *r, int fd);
/* -ENOBUFS when it does not fit whole. */
int ring_put(struct ring *r, const void *data, size_t len);
/* The contiguous bytes at offset, at most max; offset is in start..end. */
size_t ring_peek(const struct ring *r, uint64_t offset, size_t max, const char **ret);
/* Drops everything before offset, which is in start..end. */
void ring_discard(struct ring *r, uint64_t offset);
