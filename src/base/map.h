/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map from strings to pointers. Keys are copied; values are the caller's. Seeded with random
 * bytes, so that a caller who chooses ids cannot choose collisions. */
#pragma once

#include <stddef.h>

struct map;

struct map *map_new(void);
void map_free(struct map *m); /* values are not freed; NULL is fine */
void *map_find(const struct map *m, const char *key);
/* Replaces; returns the old value or NULL. value is not NULL. */
void *map_put(struct map *m, const char *key, void *value);
void *map_remove(struct map *m, const char *key); /* the removed value, or NULL */
size_t map_count(const struct map *m);
/* Any order. The map must not change while iterating: *cursor starts at 0, NULL ends. */
void *map_next(const struct map *m, size_t *cursor);
