/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup version 2: one tree. The instance's directory goes below the warden's own group, because
 * that is where a delegation (systemd's Delegate=yes, a container) gives rights and where limits
 * set on us hold for our sandboxes too. A group with processes cannot hand controllers to children,
 * so when the only processes in ours are ourselves and our children they are first moved to a leaf
 * beside the instance, and at the end back. As root, where the own group cannot be used, the top of
 * the mount is tried. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "warden/cgroup.h"

#define CPU_PERIOD_US 100000
#define V2_TEXT_MAX   (256 * 1024)
#define V2_OURS_MAX   64 /* processes of ours that are moved to a leaf at start */

static const struct {
    const char *name;
    enum cgroup_controller controller;
} wanted[] = {
    {"memory", CGROUP_MEMORY},
    {"pids", CGROUP_PIDS},
    {"cpu", CGROUP_CPU},
    {"io", CGROUP_IO},
};

static int on_mount(const char *fstype, const char *mountpoint, const char *super, void *data)
{
    int *ret_fd = data;
    (void)super;
    if (strcmp(fstype, "cgroup2") == 0 && *ret_fd < 0)
        *ret_fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return 0;
}

/* "0::/path" of /proc/self/cgroup, without the leading slash; "." for the top. */
static int own_group(struct strbuf *ret)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(V2_TEXT_MAX);
    int r = fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", &text);
    if (r < 0)
        return r;
    char *save = NULL;
    for (char *l = strtok_r(text.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        if (strncmp(l, "0::/", 4) == 0)
            return strbuf_puts(ret, l[4] ? l + 4 : ".");
    return -ENOENT;
}

static bool list_has(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == 0))
            return true;
    return false;
}

/* Hands on each wanted controller that the group has, or takes them back; one that is refused is
 * just not used. */
static int switch_controllers(int group_fd, char sign)
{
    _cleanup_strbuf_ struct strbuf have = STRBUF_INIT(4096);
    int r = fd_read_file_at(group_fd, "cgroup.controllers", &have);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ELEMENTS(wanted); i++) {
        char text[32];
        if (!have.data || !list_has(have.data, wanted[i].name))
            continue;
        snprintf(text, sizeof(text), "%c%s", sign, wanted[i].name);
        fd_write_file_at(group_fd, "cgroup.subtree_control", text);
    }
    return 0;
}

static bool is_ours(pid_t pid)
{
    if (pid == getpid())
        return true;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(4096);
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return false;
    const char *end = strrchr(text.data, ')');
    int parent = 0;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 && parent == getpid();
}

static int read_pids(int group_fd, pid_t pids[V2_OURS_MAX], size_t *ret_n)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(V2_TEXT_MAX);
    int r = fd_read_file_at(group_fd, "cgroup.procs", &text);
    if (r < 0)
        return r;
    size_t n = 0;
    char *save = NULL;
    for (char *l = text.data ? strtok_r(text.data, "\n", &save) : NULL; l;
         l = strtok_r(NULL, "\n", &save)) {
        if (n == V2_OURS_MAX)
            return -EBUSY;
        pids[n++] = (pid_t)atoi(l);
    }
    *ret_n = n;
    return 0;
}

static int move_pids(int to_fd, const pid_t *pids, size_t n)
{
    int r = 0;
    for (size_t i = 0; i < n && (r == 0 || r == -ESRCH); i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", (int)pids[i]);
        r = fd_write_file_at(to_fd, "cgroup.procs", text);
    }
    return r == -ESRCH ? 0 : r;
}

/* Moves the processes of group_fd to a leaf, unless one of them is a stranger. Must come before any
 * controller is handed on: pids and cpu can be while there are processes, and then the group's
 * children are no domains that could have memory. */
static int move_ours(int group_fd, const char *leaf)
{
    pid_t pids[V2_OURS_MAX];
    size_t n;
    int r = read_pids(group_fd, pids, &n);
    if (r < 0 || n == 0)
        return r;
    for (size_t i = 0; i < n; i++)
        if (!is_ours(pids[i]))
            return -EBUSY;
    if (mkdirat(group_fd, leaf, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int leaf_fd = openat(group_fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return leaf_fd < 0 ? -errno : move_pids(leaf_fd, pids, n);
}

static void name_leaf(char leaf[CGROUP_NAME_SIZE], const struct cgroup_root *root)
{
    snprintf(leaf, CGROUP_NAME_SIZE, "%.48s-self", root->instance);
}

/* Makes the group as it was found, so that the next daemon can be started in it. Fails harmlessly
 * while another instance has groups below it. */
static void move_back(int group_fd, const struct cgroup_root *root)
{
    char leaf[CGROUP_NAME_SIZE];
    pid_t pids[V2_OURS_MAX];
    size_t n = 0;
    name_leaf(leaf, root);
    _cleanup_close_ int leaf_fd = openat(group_fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (leaf_fd < 0)
        return;
    switch_controllers(group_fd, '-');
    if (read_pids(leaf_fd, pids, &n) == 0)
        move_pids(group_fd, pids, n);
    unlinkat(group_fd, leaf, AT_REMOVEDIR);
}

/* Only the top of the tree may have processes and hand on controllers; it has no type. */
static bool is_top(int group_fd)
{
    return faccessat(group_fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

/* Makes the instance's directory; -ENOENT when no controller arrives in it. */
static int make_instance(struct cgroup_root *root, int group_fd)
{
    if (mkdirat(group_fd, root->instance, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int fd = openat(group_fd, root->instance, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    switch_controllers(fd, '+');
    _cleanup_strbuf_ struct strbuf have = STRBUF_INIT(4096);
    int r = fd_read_file_at(fd, "cgroup.subtree_control", &have);
    bool any = false;
    for (size_t i = 0; r == 0 && i < ELEMENTS(wanted); i++) {
        bool has = have.data && list_has(have.data, wanted[i].name);
        root->has[wanted[i].controller] = has;
        any = any || (has && wanted[i].controller != CGROUP_IO);
    }
    if (!any) {
        unlinkat(group_fd, root->instance, AT_REMOVEDIR);
        return -ENOENT;
    }
    root->fd[0] = fd_steal(&fd);
    return 0;
}

static int use_group(struct cgroup_root *root, int group_fd)
{
    char leaf[CGROUP_NAME_SIZE];
    name_leaf(leaf, root);
    int r = is_top(group_fd) ? 0 : move_ours(group_fd, leaf);
    if (r == 0) {
        switch_controllers(group_fd, '+');
        r = make_instance(root, group_fd);
    }
    if (r < 0) {
        move_back(group_fd, root);
        return r;
    }
    root->has[CGROUP_CPUACCT] = root->has[CGROUP_FREEZER] = true;
    root->parent_fd[0] = fcntl(group_fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

static int v2_open(struct cgroup_root *root, const char *prefix)
{
    _cleanup_close_ int top = -1;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(4096);
    (void)prefix;
    int r = cgroup_each_mount(on_mount, &top);
    if (r < 0)
        return r;
    if (top < 0)
        return -ENOENT;
    r = own_group(&path);
    if (r < 0)
        return r;
    _cleanup_close_ int own = openat(top, path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = own < 0 ? -errno : use_group(root, own);
    return r == 0 || geteuid() != 0 ? r : use_group(root, top);
}

static void v2_leave(const struct cgroup_root *root)
{
    move_back(root->parent_fd[0], root);
}

static int put_value(const struct cgroup *cg, const char *file, const char *text)
{
    return cgroup_write(cg, 0, file, text);
}

static int v2_limit_disk(struct cgroup *cg, dev_t disk, uint64_t bytes_per_s)
{
    char text[128];
    snprintf(text, sizeof(text), "%u:%u rbps=%llu wbps=%llu", major(disk), minor(disk),
             (unsigned long long)bytes_per_s, (unsigned long long)bytes_per_s);
    return put_value(cg, "io.max", text);
}

static int limit_io(struct cgroup *cg, uint64_t bytes_per_s)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < cg->root->disks.n; i++)
        r = v2_limit_disk(cg, cg->root->disks.disks[i], bytes_per_s);
    return r;
}

static int limit_memory(struct cgroup *cg, uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    int r = put_value(cg, "memory.max", text);
    if (r < 0)
        return r;
    r = put_value(cg, "memory.swap.max", "0");
    if (r == -ENOENT) /* a kernel without swap */
        r = 0;
    /* One killed process of a sandbox is reported; the others and the runner go on. */
    put_value(cg, "memory.oom.group", "0");
    return r;
}

static int v2_limit(struct cgroup *cg, enum wall wall, const struct limits *limits)
{
    char text[64];
    switch (wall) {
    case WALL_MEMORY:
        return limit_memory(cg, limits->memory_bytes);
    case WALL_CPU: {
        uint64_t quota = (uint64_t)limits->cpu_millicores * CPU_PERIOD_US / 1000;
        snprintf(text, sizeof(text), "%llu %d", (unsigned long long)(quota < 1000 ? 1000 : quota),
                 CPU_PERIOD_US);
        return put_value(cg, "cpu.max", text);
    }
    case WALL_PROCESSES:
        snprintf(text, sizeof(text), "%u", limits->processes);
        return put_value(cg, "pids.max", text);
    case WALL_IO:
        return limit_io(cg, limits->io_bytes_per_s);
    default:
        return -EOPNOTSUPP;
    }
}

static uint64_t v2_oom_kills(const struct cgroup *cg)
{
    uint64_t n = 0;
    cgroup_read_number(cg, 0, "memory.events", "oom_kill", &n);
    return n;
}

static void v2_read_stats(const struct cgroup *cg, struct plan_reply *ret)
{
    cgroup_read_number(cg, 0, "memory.current", NULL, &ret->memory_bytes);
    cgroup_read_number(cg, 0, "memory.peak", NULL, &ret->memory_peak_bytes);
    ret->oom_kills = v2_oom_kills(cg);
    cgroup_read_number(cg, 0, "cpu.stat", "usage_usec", &ret->cpu_us);
    cgroup_read_number(cg, 0, "pids.current", NULL, &ret->processes);
}

static int v2_freeze(struct cgroup *cg, bool on)
{
    return put_value(cg, "cgroup.freeze", on ? "1" : "0");
}

const struct cgroup_driver cgroup_v2 = {
    .mechanism = MECHANISM_CGROUP_V2,
    .open = v2_open,
    .leave = v2_leave,
    .limit = v2_limit,
    .limit_disk = v2_limit_disk,
    .read_stats = v2_read_stats,
    .oom_kills = v2_oom_kills,
    .freeze = v2_freeze,
};
