/* SPDX-License-Identifier: Apache-2.0 */
#include "builder/rlimits.h"

#include <errno.h>

#include "base/alloc.h"
#include "builder/child.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)
#define ALL RLIM_INFINITY

#define FIXED(resource, soft, hard)                                                                \
    {                                                                                              \
        RLIMIT_##resource, "RLIMIT_" #resource, soft, hard, RLIMIT_FIXED                           \
    }
#define BY_PLAN(resource)                                                                          \
    {                                                                                              \
        RLIMIT_##resource, "RLIMIT_" #resource, ALL, ALL, RLIMIT_BY_PLAN                           \
    }

/* What a control group or a policy limits has none here. */
const struct rlimit_row rlimit_rows[] = {
    FIXED(CPU, ALL, ALL),
    FIXED(DATA, ALL, ALL),
    FIXED(STACK, 8 * MIB, ALL),
    /* 1 and not 0: only 1 keeps the kernel from starting a host program that takes core dumps. */
    FIXED(CORE, 1, 1),
    FIXED(RSS, ALL, ALL),
    FIXED(MEMLOCK, 8 * MIB, 8 * MIB),
    FIXED(AS, ALL, ALL),
    FIXED(LOCKS, ALL, ALL), /* commands are marked by it: toolrunner/descendants.h */
    FIXED(SIGPENDING, 16384, 16384),
    FIXED(MSGQUEUE, 800 * KIB, 800 * KIB),
    FIXED(NICE, 0, 0),
    FIXED(RTPRIO, 0, 0),
    FIXED(RTTIME, ALL, ALL),
    BY_PLAN(FSIZE),
    BY_PLAN(NPROC),
    BY_PLAN(NOFILE),
};
const size_t n_rlimit_rows = ELEMENTS(rlimit_rows);
_Static_assert(ELEMENTS(rlimit_rows) == RLIM_NLIMITS, "every limit has a row");
_Static_assert(ELEMENTS(rlimit_rows) == RLIMIT_ROWS_MAX, "and the table its size");

static rlim_t lower_limit(rlim_t a, rlim_t b)
{
    return a < b ? a : b;
}

/* Raising a hard limit needs a right over the host that we may not have. */
static int set_limit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit old, limit = {soft, hard};
    if (setrlimit(resource, &limit) == 0)
        return 0;
    if (errno != EPERM || getrlimit(resource, &old) < 0)
        return -errno;
    limit.rlim_max = lower_limit(hard, old.rlim_max);
    limit.rlim_cur = lower_limit(soft, limit.rlim_max);
    return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

int rlimits_lower(int resource, rlim_t value)
{
    return set_limit(resource, value, value);
}

void rlimits_settle(void)
{
    for (size_t i = 0; i < n_rlimit_rows; i++) {
        const struct rlimit_row *row = &rlimit_rows[i];
        struct rlimit old;
        if (row->resource == RLIMIT_CORE || row->resource == RLIMIT_NOFILE ||
            getrlimit(row->resource, &old) < 0)
            continue;
        set_limit(row->resource, lower_limit(old.rlim_cur, row->hard), row->hard);
    }
}

int rlimits_apply_fixed(void)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n_rlimit_rows; i++) {
        const struct rlimit_row *row = &rlimit_rows[i];
        r = set_limit(row->resource, row->soft, row->hard);
        if (row->by == RLIMIT_BY_PLAN && r == -EPERM) /* NOFILE has a ceiling of the host's */
            r = 0;
    }
    return r;
}

uint64_t rlimits_value(const struct rlimit_row *row, const struct child_order *o)
{
    switch (row->resource) {
    case RLIMIT_NOFILE:
        return o->open_files;
    case RLIMIT_NPROC:
        return o->process_rlimit;
    default:
        return 0;
    }
}

int rlimits_apply_order(const struct child_order *o)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n_rlimit_rows; i++) {
        uint64_t value = rlimits_value(&rlimit_rows[i], o);
        if (value)
            r = rlimits_lower(rlimit_rows[i].resource, value);
    }
    return r;
}
