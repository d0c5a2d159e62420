/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/full-house.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/host-check.h"

#define MIB (1024 * 1024)

static int64_t host_files(void)
{
    return host_number("/proc/sys/fs/file-max", -1);
}

/* The lesser of the two limits. */
static int64_t host_processes(void)
{
    int64_t pids = host_number("/proc/sys/kernel/pid_max", -1);
    int64_t threads = host_number("/proc/sys/kernel/threads-max", -1);
    return threads >= 0 && threads < pids ? threads : pids;
}

/* The reserve is for the host's own /dev/pts. */
static int64_t host_terminals(void)
{
    int64_t max = host_number("/proc/sys/kernel/pty/max", -1);
    int64_t reserve = host_number("/proc/sys/kernel/pty/reserve", -1);
    return max < 0 || reserve < 0 ? max : max - reserve;
}

static int64_t host_inotify_instances(void)
{
    return host_number("/proc/sys/fs/inotify/max_user_instances", -1);
}

static int64_t host_inotify_watches(void)
{
    return host_number("/proc/sys/fs/inotify/max_user_watches", -1);
}

static int64_t host_memory_mb(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / MIB;
}

/* What a sandbox may take is one member of capacity.each, or the product of two. */
static const struct pool {
    const char *name, *member, *times;
    const char *host_name;
    int64_t (*host)(void);
    const char *advice;
} pools[] = {
    {"memory (MiB)", "memory_mb", NULL, "all of its memory", host_memory_mb,
     "lower max_sandboxes or default_memory_mb: over it, the host's OOM killer decides"},
    {"processes", "processes", NULL, "kernel.pid_max, kernel.threads-max", host_processes,
     "raise both, or lower max_sandboxes or default_max_processes"},
    {"open files", "open_files", "processes", "fs.file-max", host_files,
     "raise it, or lower max_sandboxes, default_max_processes or default_open_files"},
    {"terminals", "terminals", NULL, "kernel.pty.max without the reserve", host_terminals,
     "raise it, or lower max_sandboxes"},
    {"inotify", "inotify_instances", NULL, "fs.inotify.max_user_instances", host_inotify_instances,
     "raise it (all sandboxes count for the daemon's user), or lower inotify_instances"},
    {"inotify watches", "inotify_watches", NULL, "fs.inotify.max_user_watches",
     host_inotify_watches, "raise it, or lower inotify_watches"},
};

/* -1 where it is not limited, or the daemon does not say. */
static int64_t limit_each(const json_t *capacity, const char *member)
{
    const json_t *n = json_object_get(json_object_get(capacity, "each"), member);
    return json_is_integer(n) ? json_integer_value(n) : -1;
}

static bool fill_row(const struct pool *p, const json_t *capacity, struct full_house_row *row)
{
    int64_t sandboxes = json_integer_value(json_object_get(capacity, "sandboxes"));
    int64_t one = limit_each(capacity, p->member),
            times = p->times ? limit_each(capacity, p->times) : 1;
    int64_t host = p->host();
    if (sandboxes < 1 || one < 0 || times < 0 || host < 0)
        return false;
    double all = (double)sandboxes * (double)one * (double)times;
    double enough = one > 0 && times > 0 ? (double)host / ((double)one * (double)times) : 0;
    row->name = p->name;
    row->advice = p->advice;
    row->fits = all <= (double)host;
    int n = snprintf(row->detail, sizeof(row->detail),
                     "%.0f for all, %lld each; the host has %lld (%s)", all,
                     (long long)(one * times), (long long)host, p->host_name);
    if (!row->fits && n > 0 && (size_t)n < sizeof(row->detail))
        snprintf(row->detail + n, sizeof(row->detail) - (size_t)n, ": enough for %lld",
                 (long long)enough);
    return true;
}

void full_house_compare(const json_t *capacity, void (*on_row)(const struct full_house_row *row))
{
    for (size_t i = 0; i < ELEMENTS(pools); i++) {
        struct full_house_row row;
        if (fill_row(&pools[i], capacity, &row))
            on_row(&row);
    }
}
