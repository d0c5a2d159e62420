/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of a container: what is really written there, and what it uses. Read by ourselves,
 * because an engine's own numbers say what was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "builder/cgroup-mounts.h"

#define GROUP_TEXT_MAX  (64 * 1024)
#define GROUP_PATH_SIZE 1024

struct lookup {
    const char *controller; /* NULL means version 2 */
    const char *path;       /* of the group below its hierarchy */
    char found[GROUP_PATH_SIZE];
};

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

static int on_mount(const char *fstype, const char *mountpoint, const char *super, void *data)
{
    struct lookup *l = data;
    bool v2 = strcmp(fstype, "cgroup2") == 0;
    if (l->found[0] || v2 != !l->controller || (l->controller && !has_word(super, l->controller)))
        return 0;
    snprintf(l->found, sizeof(l->found), "%s%s", mountpoint, l->path);
    return 0;
}

/* "4:memory:/path" or "0::/path" */
static bool find_group(pid_t pid, const char *controller, char ret[GROUP_PATH_SIZE])
{
    char file[64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROUP_TEXT_MAX);
    snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
    if (fd_read_file_at(AT_FDCWD, file, &text) < 0 || !text.data)
        return false;
    char *save = NULL;
    for (char *l = strtok_r(text.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(l, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *names++ = *path++ = 0;
        if (controller ? !has_word(names, controller) : names[0] != 0)
            continue;
        struct lookup lookup = {.controller = controller, .path = path};
        cgroup_each_mount(on_mount, &lookup);
        snprintf(ret, GROUP_PATH_SIZE, "%s", lookup.found);
        return ret[0] && strcmp(path, "/") != 0;
    }
    return false;
}

/* A number; UINT64_MAX for "max", -1 and what is not there. key: on a line of its own. */
static uint64_t read_number(const char *group, const char *file, const char *key)
{
    char path[GROUP_PATH_SIZE + 64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROUP_TEXT_MAX);
    snprintf(path, sizeof(path), "%s/%s", group, file);
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return UINT64_MAX;
    const char *p = text.data;
    for (size_t n = key ? strlen(key) : 0; key && p && (strncmp(p, key, n) != 0 || p[n] != ' ');)
        p = (p = strchr(p, '\n')) ? p + 1 : NULL;
    if (!p)
        return UINT64_MAX;
    p += key ? strlen(key) + 1 : 0;
    return *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : UINT64_MAX;
}

static uint64_t usage_or_zero(uint64_t n)
{
    return n == UINT64_MAX ? 0 : n;
}

static uint64_t quota_to_millicores(uint64_t quota_us, uint64_t period_us)
{
    return quota_us == UINT64_MAX || period_us == UINT64_MAX || !period_us
               ? UINT64_MAX
               : quota_us * 1000 / period_us;
}

static void read_v1(pid_t pid, struct group_numbers *ret)
{
    char g[GROUP_PATH_SIZE];
    if (find_group(pid, "memory", g)) {
        ret->by = MECHANISM_CGROUP_V1;
        ret->memory_limit = read_number(g, "memory.limit_in_bytes", NULL);
        ret->swap_limit = read_number(g, "memory.memsw.limit_in_bytes", NULL);
        ret->memory = usage_or_zero(read_number(g, "memory.usage_in_bytes", NULL));
        ret->memory_peak = usage_or_zero(read_number(g, "memory.max_usage_in_bytes", NULL));
        ret->oom_kills = usage_or_zero(read_number(g, "memory.oom_control", "oom_kill"));
    }
    if (find_group(pid, "cpu", g))
        ret->cpu_millicores = quota_to_millicores(read_number(g, "cpu.cfs_quota_us", NULL),
                                                  read_number(g, "cpu.cfs_period_us", NULL));
    if (find_group(pid, "cpuacct", g))
        ret->cpu_us = usage_or_zero(read_number(g, "cpuacct.usage", NULL)) / 1000;
    if (find_group(pid, "pids", g)) {
        ret->by = MECHANISM_CGROUP_V1;
        ret->pids_limit = read_number(g, "pids.max", NULL);
        ret->pids = usage_or_zero(read_number(g, "pids.current", NULL));
    }
}

static uint64_t cpu_max(const char *group)
{
    char path[GROUP_PATH_SIZE + 64];
    unsigned long long quota, period;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROUP_TEXT_MAX);
    snprintf(path, sizeof(path), "%s/cpu.max", group);
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data ||
        sscanf(text.data, "%llu %llu", &quota, &period) != 2)
        return UINT64_MAX;
    return quota_to_millicores(quota, period);
}

static void read_v2(const char *g, struct group_numbers *ret)
{
    uint64_t swap = read_number(g, "memory.swap.max", NULL);
    ret->by = MECHANISM_CGROUP_V2;
    ret->memory_limit = read_number(g, "memory.max", NULL);
    ret->swap_limit =
        swap == UINT64_MAX || ret->memory_limit == UINT64_MAX ? swap : ret->memory_limit + swap;
    ret->memory = usage_or_zero(read_number(g, "memory.current", NULL));
    ret->memory_peak = usage_or_zero(read_number(g, "memory.peak", NULL));
    ret->oom_kills = usage_or_zero(read_number(g, "memory.events", "oom_kill"));
    ret->cpu_millicores = cpu_max(g);
    ret->cpu_us = usage_or_zero(read_number(g, "cpu.stat", "usage_usec"));
    ret->pids_limit = read_number(g, "pids.max", NULL);
    ret->pids = usage_or_zero(read_number(g, "pids.current", NULL));
}

void group_read(pid_t pid, struct group_numbers *ret)
{
    char g[GROUP_PATH_SIZE];
    *ret = (struct group_numbers){.memory_limit = UINT64_MAX,
                                  .swap_limit = UINT64_MAX,
                                  .pids_limit = UINT64_MAX,
                                  .cpu_millicores = UINT64_MAX};
    read_v1(pid, ret);
    if (ret->by == MECHANISM_NONE && find_group(pid, NULL, g))
        read_v2(g, ret);
}

int group_read_file(pid_t pid, const char *file, struct strbuf *ret)
{
    char g[GROUP_PATH_SIZE], path[GROUP_PATH_SIZE + 64];
    if (!find_group(pid, NULL, g))
        return -ENOENT;
    snprintf(path, sizeof(path), "%s/%s", g, file);
    return fd_read_file_at(AT_FDCWD, path, ret);
}

int group_limit_sockets(pid_t pid, uint64_t bytes)
{
    char g[GROUP_PATH_SIZE], path[GROUP_PATH_SIZE + 64], text[32];
    if (!find_group(pid, "memory", g))
        return 0;
    snprintf(path, sizeof(path), "%s/memory.kmem.tcp.limit_in_bytes", g);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    int r = fd_write_file_at(AT_FDCWD, path, text);
    return r == -ENOENT ? 0 : r;
}

void group_thaw(pid_t pid)
{
    char g[GROUP_PATH_SIZE], path[GROUP_PATH_SIZE + 64];
    if (find_group(pid, "freezer", g)) {
        snprintf(path, sizeof(path), "%s/freezer.state", g);
        fd_write_file_at(AT_FDCWD, path, "THAWED");
    } else if (find_group(pid, NULL, g)) {
        snprintf(path, sizeof(path), "%s/cgroup.freeze", g);
        fd_write_file_at(AT_FDCWD, path, "0");
    }
}
