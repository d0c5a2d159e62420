/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of the counter that machines have for their clock is the one that the kernel counts by,
 * whatever frequency /proc/cpuinfo shows for the moment. */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "vmm/clock-rate.h"

/* A tenth of a percent: many times what a busy host makes of the measurement, and far less than
 * processors change their frequency by. */
static bool are_close(double a, double b)
{
    return fabs(a - b) < b / 1000;
}

/* By which the kernel makes nanoseconds of the counter, as it shows them to profilers. 0: it does
 * not show them to us. */
static double kernel_khz(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY};
    double khz = 0;
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return 0;
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    const struct perf_event_mmap_page *page = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) {
        if (page->cap_user_time && page->time_mult)
            khz = ldexp(1e6, page->time_shift) / page->time_mult;
        munmap((void *)page, size);
    }
    close(fd);
    return khz;
}

/* Where this process may: another file in the place of /proc/cpuinfo, in a namespace of its own. */
static bool hide_cpuinfo(void)
{
    char path[] = "/tmp/test-clock-rate.XXXXXX";
    static const char text[] = "processor\t: 0\ncpu MHz\t\t: 800.000\n";
    int fd = mkostemp(path, O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
                unshare(CLONE_NEWNS) == 0 &&
                mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount(path, "/proc/cpuinfo", NULL, MS_BIND, NULL) == 0;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return good;
}

int main(void)
{
    unsigned long khz = clock_rate_khz();
    double kernel = kernel_khz();
    ok(khz > 0, "the counter has a rate: %lu kHz", khz);
    if (kernel > 0)
        ok(are_close((double)khz, kernel), "it is the kernel's: %lu and %.0f kHz", khz, kernel);
    else
        ok(true, "it is the kernel's # SKIP the kernel shows its own rate to no profiler here");
    if (hide_cpuinfo())
        ok(are_close((double)clock_rate_khz(), (double)khz),
           "it does not change with the frequency that /proc/cpuinfo shows");
    else
        ok(true, "it does not change with the frequency # SKIP needs the right to mount");
    return tap_done();
}
