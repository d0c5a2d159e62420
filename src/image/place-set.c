/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing over 64-bit hashes. The hash is seeded, so that an archive cannot choose names
 * that meet; should two meet by chance, a whiteout spares one file of its own image. */
#include "image/place-set.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"

#define FIRST_SIZE 1024

void place_set_done(struct place_set *s)
{
    free(s->slots);
    *s = (struct place_set){0};
}

static uint64_t mix_bits(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint64_t hash_place(const struct place_set *s, ino_t dir, const char *name)
{
    uint64_t h = mix_bits(s->seed ^ (uint64_t)dir);
    for (; *name; name++)
        h = mix_bits(h ^ (unsigned char)*name);
    return h ? h : 1;
}

/* The slot of the hash, or the free one where it belongs. */
static size_t slot_of(const struct place_set *s, uint64_t h)
{
    size_t i = h & (s->size - 1);
    while (s->slots[i] && s->slots[i] != h)
        i = (i + 1) & (s->size - 1);
    return i;
}

static void grow_set(struct place_set *s)
{
    struct place_set bigger = *s;
    bigger.size = s->size ? s->size * 2 : FIRST_SIZE;
    bigger.slots = xcalloc(bigger.size, sizeof(*bigger.slots));
    if (!s->seed && getrandom(&bigger.seed, sizeof(bigger.seed), 0) != sizeof(bigger.seed))
        abort();
    for (size_t i = 0; i < s->size; i++)
        if (s->slots[i])
            bigger.slots[slot_of(&bigger, s->slots[i])] = s->slots[i];
    free(s->slots);
    *s = bigger;
}

void place_set_add(struct place_set *s, ino_t dir, const char *name)
{
    if (s->count * 2 >= s->size)
        grow_set(s);
    uint64_t h = hash_place(s, dir, name);
    size_t i = slot_of(s, h);
    s->count += s->slots[i] == 0;
    s->slots[i] = h;
}

bool place_set_has(const struct place_set *s, ino_t dir, const char *name)
{
    return s->size && s->slots[slot_of(s, hash_place(s, dir, name))];
}
