/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a sandbox: one struct, which specs, plans, rules, reports, the configuration and
 * the store all have, and one table that says of each limit what it is called there, in which unit
 * it is written, and which wall enforces it. A new limit is a member and a row; what treats one
 * limit in its own way (a cgroup's file, an engine's field) names its member. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0: not limited. Part of struct plan, so its layout is what a living warden knows. */
struct limits {
    uint64_t memory_bytes; /* swap included */
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint64_t io_bytes_per_s;
    uint32_t cpu_millicores;
    uint32_t processes;
    uint32_t open_files; /* per process */
    uint32_t reserved;
};

enum limit_index {
    LIMIT_MEMORY,
    LIMIT_CPU,
    LIMIT_PROCESSES,
    LIMIT_DISK,
    LIMIT_IO,
    LIMIT_OPEN_FILES,
    LIMIT_DISK_INODES,
    _LIMIT_MAX,
};

struct limit {
    const char *name;   /* in requests and policies; NULL: the operator's alone */
    const char *member; /* of struct limits: in stored specs and in the warden's refusals */
    const char *report; /* beside "by" in the effective report of its wall; NULL: not there */
    int wall;           /* enum wall that enforces it, or -1 */
    size_t offset, size;
    double unit;     /* how much of the member 1 of the name is */
    bool whole;      /* there is no half of it */
    double min, max; /* that a request may ask for; 0: it cannot be asked for */
};

extern const struct limit limit_table[_LIMIT_MAX];
#define limit_for_each(row)                                                                        \
    for (const struct limit *row = limit_table; row < limit_table + _LIMIT_MAX; row++)

/* As the member has it. l is a struct limits, or what begins with one where the row says so. */
uint64_t limit_get(const struct limit *row, const void *l);
/* The largest that the member can hold where it cannot hold value. */
void limit_set(const struct limit *row, void *l, uint64_t value);
/* From the unit of the name to that of the member, downwards, and back. A value that is far too
 * large is INT64_MAX. */
uint64_t limit_from_unit(const struct limit *row, double value);
double limit_in_unit(const struct limit *row, uint64_t value);
/* The limit that this wall enforces; 0: none. */
uint64_t limits_of_wall(const struct limits *l, int wall);
void limits_drop_wall(struct limits *l, int wall);
