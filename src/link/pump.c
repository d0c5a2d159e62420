/* SPDX-License-Identifier: Apache-2.0 */
#include "link/pump.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static void make_room_at_end(struct pump *p)
{
    if (p->start) {
        memmove(p->data, p->data + p->start, p->len);
        p->start = 0;
    }
}

ssize_t pump_fill(struct pump *p, int fd)
{
    make_room_at_end(p);
    ssize_t n = read(fd, p->data + p->len, PUMP_SIZE - p->len);
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    p->len += (size_t)n;
    return n;
}

void pump_skip(struct pump *p, size_t n)
{
    assert(n <= p->len);
    p->len -= n;
    p->start = p->len ? p->start + n : 0;
}

ssize_t pump_drain(struct pump *p, int fd, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t w = write(fd, pump_bytes(p), n - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return errno == EAGAIN ? (ssize_t)done : -errno;
        pump_skip(p, (size_t)w);
        done += (size_t)w;
    }
    return (ssize_t)done;
}

void pump_put(struct pump *p, const void *data, size_t n)
{
    make_room_at_end(p);
    assert(n <= PUMP_SIZE - p->len);
    memcpy(p->data + p->len, data, n);
    p->len += n;
}
