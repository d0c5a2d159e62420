/* SPDX-License-Identifier: Apache-2.0 */
/* A set of places in a tree: a name in a directory, told apart by the directory's inode. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct place_set {
    uint64_t *slots; /* 0 is free */
    size_t count, size;
    uint64_t seed;
};

void place_set_done(struct place_set *s); /* a zeroed one is fine */
void place_set_add(struct place_set *s, ino_t dir, const char *name);
bool place_set_has(const struct place_set *s, ino_t dir, const char *name);
