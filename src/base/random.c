/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

/* Bytes fetched ahead, because a system call costs more than they do. In a page of its own that no
 * child of a fork gets to see: it begins with an empty one. */
struct pool {
    size_t left;
    unsigned char bytes[1024];
};

static void fetch_random(unsigned char *bytes, size_t len)
{
    if (getrandom(bytes, len, 0) != (ssize_t)len)
        abort();
}

static struct pool *pool_new(void)
{
    struct pool *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (madvise(p, sizeof(*p), MADV_WIPEONFORK) == 0)
        return p;
    munmap(p, sizeof(*p));
    return NULL;
}

static unsigned char take_byte(void)
{
    static _Thread_local struct pool *pool;
    static _Thread_local bool tried;
    unsigned char byte;
    if (!tried)
        pool = pool_new();
    tried = true;
    if (!pool) {
        fetch_random(&byte, 1);
        return byte;
    }
    if (!pool->left) {
        fetch_random(pool->bytes, sizeof(pool->bytes));
        pool->left = sizeof(pool->bytes);
    }
    byte = pool->bytes[--pool->left];
    pool->bytes[pool->left] = 0; /* what was given out must not be found in memory later */
    return byte;
}

void random_id(char *out, size_t len)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t done = 0; done < len;) {
        unsigned char byte = take_byte();
        /* 252 = 7 * 36: bytes above it would favour the first letters. */
        if (byte < 252)
            out[done++] = alphabet[byte % 36];
    }
    out[len] = 0;
}

uint32_t random_below(uint32_t n)
{
    uint32_t v = 0;
    return getrandom(&v, sizeof(v), 0) == sizeof(v) && n ? v % n : 0;
}
