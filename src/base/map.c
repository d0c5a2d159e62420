/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"

/* Open addressing with linear probing; a removed slot is closed by moving later entries back. */
struct slot {
    char *key;
    void *value;
    uint64_t hash;
};

struct map {
    struct slot *slots;
    size_t size; /* a power of two */
    size_t count;
    uint64_t seed;
};

/* FNV-1a with a seed of this map's own: keys come from callers, and without the seed they could be
 * chosen to fall on one slot. */
static uint64_t hash_key(const struct map *m, const char *key)
{
    uint64_t h = m->seed ^ 0xcbf29ce484222325ULL;
    for (; *key; key++) {
        h ^= (unsigned char)*key;
        h *= 0x100000001b3ULL;
        h ^= h >> 29;
    }
    return h ^ (h >> 32);
}

/* Early at boot there may be no random bytes yet. The address is a poor seed, and better than a
 * wait for them. */
struct map *map_new(void)
{
    struct map *m = new0(struct map);
    m->size = 16;
    m->slots = xcalloc(m->size, sizeof(*m->slots));
    if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) != sizeof(m->seed))
        m->seed = (uint64_t)(uintptr_t)m;
    return m;
}

void map_free(struct map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->size; i++)
        free(m->slots[i].key);
    free(m->slots);
    free(m);
}

static size_t find_slot(const struct map *m, const char *key, uint64_t hash)
{
    size_t i = hash & (m->size - 1);
    while (m->slots[i].key && (m->slots[i].hash != hash || strcmp(m->slots[i].key, key) != 0))
        i = (i + 1) & (m->size - 1);
    return i;
}

static void grow_map(struct map *m)
{
    struct slot *old = m->slots;
    size_t old_size = m->size;
    m->size *= 2;
    m->slots = xcalloc(m->size, sizeof(*m->slots));
    for (size_t i = 0; i < old_size; i++)
        if (old[i].key)
            m->slots[find_slot(m, old[i].key, old[i].hash)] = old[i];
    free(old);
}

void *map_find(const struct map *m, const char *key)
{
    return m->slots[find_slot(m, key, hash_key(m, key))].value;
}

void *map_put(struct map *m, const char *key, void *value)
{
    if ((m->count + 1) * 4 > m->size * 3)
        grow_map(m);
    uint64_t hash = hash_key(m, key);
    struct slot *s = &m->slots[find_slot(m, key, hash)];
    void *old = s->value;
    if (!s->key) {
        *s = (struct slot){.key = xstrdup(key), .hash = hash};
        m->count++;
    }
    s->value = value;
    return old;
}

/* Entries behind the gap move into it where they would otherwise not be found: a search stops at
 * the first empty slot. One stays if its home lies behind the gap. */
void *map_remove(struct map *m, const char *key)
{
    size_t i = find_slot(m, key, hash_key(m, key));
    if (!m->slots[i].key)
        return NULL;
    void *value = m->slots[i].value;
    free(m->slots[i].key);
    m->count--;
    for (size_t j = (i + 1) & (m->size - 1); m->slots[j].key; j = (j + 1) & (m->size - 1)) {
        size_t home = m->slots[j].hash & (m->size - 1);
        if (((j - home) & (m->size - 1)) >= ((j - i) & (m->size - 1))) {
            m->slots[i] = m->slots[j];
            i = j;
        }
    }
    m->slots[i] = (struct slot){0};
    return value;
}

size_t map_count(const struct map *m)
{
    return m->count;
}

void *map_next(const struct map *m, size_t *cursor)
{
    while (*cursor < m->size) {
        struct slot *s = &m->slots[(*cursor)++];
        if (s->key)
            return s->value;
    }
    return NULL;
}
