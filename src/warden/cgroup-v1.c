/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup version 1: one hierarchy a controller (or a few controllers sharing one). Groups are made
 * at the root of each mount, which in a container is the container's own group. Memory is limited
 * with swap where the kernel accounts it. Block I/O limits of this version do not reach buffered
 * writes, so io is never claimed here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "warden/cgroup.h"

#define CPU_PERIOD_US          100000
#define SOCKETS_PART_OF_MEMORY 4

static const char *const controller_names[] = {
    [CGROUP_MEMORY] = "memory",   [CGROUP_PIDS] = "pids",       [CGROUP_CPU] = "cpu",
    [CGROUP_FREEZER] = "freezer", [CGROUP_CPUACCT] = "cpuacct", [CGROUP_IO] = NULL,
    [CGROUP_DEVICES] = "devices",
};
_Static_assert(ELEMENTS(controller_names) == _CGROUP_MAX, "a name for every controller");

static bool has_option(const char *options, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = options; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
            return true;
    return false;
}

static int open_instance(struct cgroup_root *root, enum cgroup_controller c, const char *mountpoint)
{
    _cleanup_close_ int parent = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return -errno;
    if (mkdirat(parent, root->instance, 0755) < 0 && errno != EEXIST)
        return -errno;
    root->fd[c] = openat(parent, root->instance, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root->fd[c] < 0)
        return -errno;
    root->parent_fd[c] = fd_steal(&parent);
    root->has[c] = true;
    return 0;
}

/* Two controllers may share a mount ("cpu,cpuacct"); the second then uses the first's directory. */
static int on_mount(const char *fstype, const char *mountpoint, const char *super, void *data)
{
    struct cgroup_root *root = data;
    int opened = -1;
    if (strcmp(fstype, "cgroup") != 0)
        return 0;
    for (int c = 0; c < _CGROUP_MAX; c++) {
        if (!controller_names[c] || root->has[c] || !has_option(super, controller_names[c]))
            continue;
        if (opened < 0) {
            if (open_instance(root, c, mountpoint) == 0)
                opened = c;
            continue;
        }
        root->has[c] = true;
        root->shares[c] = (enum cgroup_controller)opened;
    }
    return 0;
}

static int v1_open(struct cgroup_root *root, const char *prefix)
{
    (void)prefix;
    int r = cgroup_each_mount(on_mount, root);
    if (r < 0)
        return r;
    for (int c = 0; c < _CGROUP_MAX; c++)
        if (root->fd[c] >= 0)
            return 0;
    return -ENOENT;
}

/* The slot of a controller, which may share another's mount. */
static int slot_of(const struct cgroup *cg, enum cgroup_controller c)
{
    return cg->root->fd[c] >= 0 ? (int)c : (int)cg->root->shares[c];
}

static int put_number(const struct cgroup *cg, enum cgroup_controller c, const char *file,
                      uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return cgroup_write(cg, slot_of(cg, c), file, text);
}

/* Buffers of TCP and UDP sockets are not in this version's memory limit. They have one of their
 * own, which is off until it is set. */
static int limit_sockets(struct cgroup *cg, uint64_t bytes)
{
    int r = put_number(cg, CGROUP_MEMORY, "memory.kmem.tcp.limit_in_bytes", bytes);
    return r == -ENOENT ? 0 : r; /* a kernel that accounts them elsewhere or not at all */
}

static int limit_memory(struct cgroup *cg, uint64_t bytes)
{
    int r = put_number(cg, CGROUP_MEMORY, "memory.limit_in_bytes", bytes);
    if (r == -EINVAL) { /* one that is raised must not be over the one with swap */
        put_number(cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", bytes);
        r = put_number(cg, CGROUP_MEMORY, "memory.limit_in_bytes", bytes);
    }
    if (r < 0)
        return r;
    r = limit_sockets(cg, bytes / SOCKETS_PART_OF_MEMORY);
    if (r < 0)
        return r;
    r = put_number(cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", bytes);
    if (r != -ENOENT)
        return r;
    /* No swap accounting: the limit holds only if nothing of this group is ever swapped. */
    return put_number(cg, CGROUP_MEMORY, "memory.swappiness", 0);
}

static int limit_cpu(struct cgroup *cg, uint32_t millicores)
{
    uint64_t quota = (uint64_t)millicores * CPU_PERIOD_US / 1000;
    if (quota < 1000) /* the kernel's minimum */
        quota = 1000;
    int r = put_number(cg, CGROUP_CPU, "cpu.cfs_period_us", CPU_PERIOD_US);
    if (r < 0)
        return r;
    return put_number(cg, CGROUP_CPU, "cpu.cfs_quota_us", quota);
}

static int v1_limit(struct cgroup *cg, enum wall wall, const struct limits *limits)
{
    switch (wall) {
    case WALL_MEMORY:
        return limit_memory(cg, limits->memory_bytes);
    case WALL_CPU:
        return limit_cpu(cg, limits->cpu_millicores);
    case WALL_PROCESSES:
        return put_number(cg, CGROUP_PIDS, "pids.max", limits->processes);
    default:
        return -EOPNOTSUPP;
    }
}

static uint64_t get_number(const struct cgroup *cg, enum cgroup_controller c, const char *file,
                           const char *key)
{
    uint64_t value = 0;
    if (cg->root->has[c])
        cgroup_read_number(cg, slot_of(cg, c), file, key, &value);
    return value;
}

static uint64_t v1_oom_kills(const struct cgroup *cg)
{
    return get_number(cg, CGROUP_MEMORY, "memory.oom_control", "oom_kill");
}

static void v1_read_stats(const struct cgroup *cg, struct plan_reply *ret)
{
    ret->memory_bytes = get_number(cg, CGROUP_MEMORY, "memory.usage_in_bytes", NULL);
    ret->memory_peak_bytes = get_number(cg, CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL);
    ret->oom_kills = v1_oom_kills(cg);
    ret->cpu_us = get_number(cg, CGROUP_CPUACCT, "cpuacct.usage", NULL) / 1000;
    ret->processes = get_number(cg, CGROUP_PIDS, "pids.current", NULL);
}

static int v1_freeze(struct cgroup *cg, bool on)
{
    return cgroup_write(cg, slot_of(cg, CGROUP_FREEZER), "freezer.state", on ? "FROZEN" : "THAWED");
}

const struct cgroup_driver cgroup_v1 = {
    .mechanism = MECHANISM_CGROUP_V1,
    .open = v1_open,
    .limit = v1_limit,
    .read_stats = v1_read_stats,
    .oom_kills = v1_oom_kills,
    .freeze = v1_freeze,
};
