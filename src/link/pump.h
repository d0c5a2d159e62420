/* SPDX-License-Identifier: Apache-2.0 */
/* One direction between two descriptors that do not block: a buffer that is filled from one and
 * emptied into the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PUMP_SIZE (64 * 1024)

struct pump {
    size_t start, len; /* what waits is data[start] and so on */
    uint8_t data[PUMP_SIZE];
};

static inline bool pump_has_room(const struct pump *p)
{
    return p->len < PUMP_SIZE;
}

static inline uint8_t *pump_bytes(struct pump *p)
{
    return p->data + p->start;
}

/* Reads as much as there is room for: bytes, 0 at the end, or -errno; -EAGAIN: not now. */
ssize_t pump_fill(struct pump *p, int fd);
/* Writes of the first n bytes as many as fd takes now: how many, or -errno. */
ssize_t pump_drain(struct pump *p, int fd, size_t n);
/* Forgets the first n bytes. */
void pump_skip(struct pump *p, size_t n);
/* Adds bytes; there must be room. */
void pump_put(struct pump *p, const void *data, size_t n);
