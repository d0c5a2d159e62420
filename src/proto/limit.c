/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/limit.h"

#include <assert.h>
#include <string.h>

#include "proto/plan.h"

#define MIB (1024.0 * 1024)
/* A decimal such as 1.001 has no exact binary form: what is this near below a whole number of the
 * member's unit means that number. */
#define NEARLY 1e-6

#define ROW(m)                                                                                     \
    .member = #m, .offset = offsetof(struct limits, m), .size = sizeof(((struct limits *)NULL)->m)

/* clang-format off */
const struct limit limit_table[] = {
    [LIMIT_MEMORY] =      {ROW(memory_bytes), .name = "memory_mb", .report = "limit_mb", .wall = WALL_MEMORY,
                           .unit = MIB, .min = 1, .max = 1 << 24},
    [LIMIT_CPU] =         {ROW(cpu_millicores), .name = "cpu_cores", .report = "limit_cores", .wall = WALL_CPU,
                           .unit = 1000, .min = 0.01, .max = 1024},
    [LIMIT_PROCESSES] =   {ROW(processes), .name = "max_processes", .report = "limit", .wall = WALL_PROCESSES,
                           .unit = 1, .whole = true, .min = 1, .max = 1 << 22},
    [LIMIT_DISK] =        {ROW(disk_bytes), .name = "disk_mb", .report = "limit_mb", .wall = WALL_DISK,
                           .unit = MIB, .min = 1, .max = 1 << 24},
    [LIMIT_IO] =          {ROW(io_bytes_per_s), .name = "io_mb_per_s", .report = "limit_mb_per_s", .wall = WALL_IO,
                           .unit = MIB, .min = 0.001, .max = 1 << 20},
    [LIMIT_OPEN_FILES] =  {ROW(open_files), .name = "open_files", .wall = -1, .unit = 1, .whole = true},
    [LIMIT_DISK_INODES] = {ROW(disk_inodes), .wall = WALL_DISK, .unit = 1, .whole = true},
};
/* clang-format on */
static_assert(sizeof(limit_table) / sizeof(limit_table[0]) == _LIMIT_MAX, "a row per limit");
static_assert(sizeof(struct limits) == 48 && offsetof(struct limits, io_bytes_per_s) == 24 &&
                  offsetof(struct limits, open_files) == 40,
              "the layout that plans have");

uint64_t limit_get(const struct limit *row, const void *l)
{
    const char *member = (const char *)l + row->offset;
    uint32_t small;
    uint64_t large;
    if (row->size == sizeof(small)) {
        memcpy(&small, member, sizeof(small));
        return small;
    }
    memcpy(&large, member, sizeof(large));
    return large;
}

void limit_set(const struct limit *row, void *l, uint64_t value)
{
    char *member = (char *)l + row->offset;
    uint32_t small = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
    if (row->size == sizeof(small))
        memcpy(member, &small, sizeof(small));
    else
        memcpy(member, &value, sizeof(value));
}

uint64_t limit_from_unit(const struct limit *row, double value)
{
    double raw = value * row->unit + NEARLY;
    return raw < (double)INT64_MAX ? (uint64_t)raw : INT64_MAX;
}

double limit_in_unit(const struct limit *row, uint64_t value)
{
    return (double)value / row->unit;
}

uint64_t limits_of_wall(const struct limits *l, int wall)
{
    limit_for_each(row) {
        if (row->wall == wall)
            return limit_get(row, l);
    }
    return 0;
}

void limits_drop_wall(struct limits *l, int wall)
{
    limit_for_each(row) {
        if (row->wall == wall)
            limit_set(row, l, 0);
    }
}
