/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of the processor's time stamp counter, which QEMU gives an emulated machine as it is.
 *
 * That rate is not the processor's frequency, which "cpu MHz" of /proc/cpuinfo shows: on hosts that
 * save energy the latter is whatever the processor does at the moment. The kernel counts
 * CLOCK_MONOTONIC_RAW by the same counter with the rate that it has found itself, and no time
 * server adjusts it, so a few milliseconds of both give the kernel's rate; where another device is
 * the kernel's clock, they give what that device measures. */
#include "vmm/clock-rate.h"

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define MEASURE_NS 10000000
#define TRIES      16

struct clock_sample {
    uint64_t ticks;
    int64_t ns;
};

static uint64_t read_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

/* Both at one moment. This process can be interrupted between the two looks, so the counter is read
 * before and after the clock, and of several tries the one counts that took least. */
static struct clock_sample clock_sample_take(void)
{
    struct clock_sample best = {0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        struct timespec now;
        uint64_t before = read_ticks();
        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        uint64_t took = read_ticks() - before;
        if (took >= least)
            continue;
        least = took;
        best.ticks = before + took / 2;
        best.ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    return best;
}

unsigned long clock_rate_khz(void)
{
    const struct timespec pause = {.tv_nsec = MEASURE_NS};
    struct clock_sample first = clock_sample_take();
    nanosleep(&pause, NULL);
    struct clock_sample last = clock_sample_take();
    if (last.ticks <= first.ticks || last.ns <= first.ns)
        return 0;
    double ticks = (double)(last.ticks - first.ticks), ns = (double)(last.ns - first.ns);
    return (unsigned long)(ticks * 1e6 / ns + 0.5);
}
