/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffer of a stream's unacknowledged bytes. */
#include "toolrunner/ring.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "proto/frame.h"

#define RING_LEAST  512
#define RING_GROWTH 4
#define RING_READ   16384 /* a smaller ring is filled through a buffer that all share */

_Static_assert((PROTO_WINDOW & (PROTO_WINDOW - 1)) == 0, "sizes are powers of two");
_Static_assert(PROTO_WINDOW >= 2 * RING_READ, "what a small ring reads always fits");

void ring_done(struct ring *r)
{
    free(r->data);
    r->data = NULL;
    r->size = 0;
    r->start = r->end;
}

size_t ring_free(const struct ring *r)
{
    return PROTO_WINDOW - ring_used(r);
}

/* The two stretches of memory that offsets from..from + len occupy. */
static int ring_stretches(const struct ring *r, uint64_t from, size_t len, struct iovec iov[2])
{
    size_t at = (size_t)(from & (r->size - 1));
    size_t first = len < r->size - at ? len : r->size - at;
    iov[0] = (struct iovec){r->data + at, first};
    iov[1] = (struct iovec){r->data, len - first};
    return len > first ? 2 : 1;
}

static void ring_grow(struct ring *r, size_t need)
{
    size_t size = r->size ? r->size : RING_LEAST;
    while (size < need)
        size *= RING_GROWTH;
    if (size > PROTO_WINDOW)
        size = PROTO_WINDOW;
    if (size == r->size)
        return;
    /* Offsets of the stream stay what they are. Only their places in memory change with the size,
     * which is why the bytes are put anew and not moved as a block. */
    struct ring bigger = {xrealloc(NULL, size), size, r->start, r->start};
    struct iovec iov[2];
    if (ring_used(r)) {
        int n = ring_stretches(r, r->start, ring_used(r), iov);
        for (int i = 0; i < n; i++)
            ring_put(&bigger, iov[i].iov_base, iov[i].iov_len);
    }
    free(r->data);
    *r = bigger;
}

/* Most commands print nothing or a line, and pages for each would cost more than the copying. */
static ssize_t ring_read_small(struct ring *r, int fd)
{
    static char scratch[RING_READ];
    ssize_t n;
    do
        n = read(fd, scratch, sizeof(scratch));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    ring_put(r, scratch, (size_t)n);
    return n;
}

ssize_t ring_read_fd(struct ring *r, int fd)
{
    if (!ring_free(r))
        return -ENOBUFS;
    if (r->size < RING_READ)
        return ring_read_small(r, fd);
    /* A ring grows only when it is full. A command that prints slowly and is read promptly stays
     * small. */
    if (ring_used(r) == r->size)
        ring_grow(r, r->size + 1);
    struct iovec iov[2];
    int n_iov = ring_stretches(r, r->end, r->size - ring_used(r), iov);
    ssize_t n;
    do
        n = readv(fd, iov, n_iov);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    r->end += (uint64_t)n;
    return n;
}

ssize_t ring_write_fd(struct ring *r, int fd)
{
    if (!ring_used(r))
        return 0;
    struct iovec iov[2];
    int n_iov = ring_stretches(r, r->start, ring_used(r), iov);
    ssize_t n;
    do
        n = writev(fd, iov, n_iov);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    ring_discard(r, r->start + (uint64_t)n);
    return n;
}

int ring_put(struct ring *r, const void *data, size_t len)
{
    if (!len)
        return 0;
    if (len > ring_free(r))
        return -ENOBUFS;
    if (ring_used(r) + len > r->size)
        ring_grow(r, ring_used(r) + len);
    struct iovec iov[2];
    ring_stretches(r, r->end, len, iov);
    memcpy(iov[0].iov_base, data, iov[0].iov_len);
    if (iov[1].iov_len)
        memcpy(iov[1].iov_base, (const char *)data + iov[0].iov_len, iov[1].iov_len);
    r->end += len;
    return 0;
}

size_t ring_peek(const struct ring *r, uint64_t offset, size_t max, const char **ret)
{
    size_t len = (size_t)(r->end - offset);
    if (!len)
        return 0;
    struct iovec iov[2];
    ring_stretches(r, offset, len < max ? len : max, iov);
    *ret = iov[0].iov_base;
    return iov[0].iov_len;
}

/* A busy stream empties its ring again and again: new pages each time would cost more than the
 * copying. */
void ring_discard(struct ring *r, uint64_t offset)
{
    bool little = offset - r->start < RING_READ;
    r->start = offset;
    if (r->start == r->end && r->size > RING_READ && little)
        ring_done(r);
}
