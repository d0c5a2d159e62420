/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cgroup handling that does not depend on the version; see cgroup.h. */
#include "warden/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "warden/sweep.h"

#define CGROUP_FILE_MAX (64 * 1024)
#define MOUNTINFO_MAX   (4 * 1024 * 1024)

/* The line that starts with "key ", behind it; NULL when there is none. */
static const char *find_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    while (text && !(strncmp(text, key, n) == 0 && text[n] == ' ')) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? text + n : NULL;
}

int cgroup_read_number(const struct cgroup *cg, int i, const char *file, const char *key,
                       uint64_t *ret)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CGROUP_FILE_MAX);
    char path[CGROUP_PATH_SIZE], *end;
    int r = fd_read_file_at(cg->root->fd[i], cgroup_path(cg, file, path), &text);
    if (r < 0)
        return r;
    const char *p = text.data && key ? find_key(text.data, key) : text.data;
    if (!p)
        return -ENOENT;
    errno = 0;
    uint64_t value = strtoull(p, &end, 10);
    if (errno || end == p)
        return -EINVAL;
    *ret = value;
    return 0;
}

/* Says to other wardens, also in other pid namespaces, that this instance lives (sweep.c): for as
 * long as a process has these descriptors open. The last such process is the janitor. */
static void lock_instance(const struct cgroup_root *root)
{
    for (int i = 0; i < _CGROUP_MAX; i++)
        if (root->fd[i] >= 0 && flock(root->fd[i], LOCK_SH | LOCK_NB) < 0)
            log_warn("the cgroup of this instance is not locked error=%s", strerror(errno));
}

void cgroup_root_open(struct cgroup_root *root, const char *prefix)
{
    static const struct cgroup_driver *const drivers[] = {&cgroup_v2, &cgroup_v1};
    *root = (struct cgroup_root){0};
    disks_open(&root->disks);
    sweep_instance_name(prefix, root->instance, sizeof(root->instance));
    for (int i = 0; i < _CGROUP_MAX; i++)
        root->fd[i] = root->parent_fd[i] = -1;
    for (size_t i = 0; i < ELEMENTS(drivers); i++) {
        int r = drivers[i]->open(root, prefix);
        if (r == 0) {
            root->driver = drivers[i];
            return lock_instance(root);
        }
        /* The driver may have found some controllers before it failed. What it found must not be
         * taken for a wall by the next driver. */
        memset(root->has, 0, sizeof(root->has));
        if (r != -ENOENT)
            log_debug("%s is not usable error=%s", mechanism_name(drivers[i]->mechanism),
                      strerror(-r));
    }
}

void cgroup_root_leave(const struct cgroup_root *root)
{
    if (root->driver && root->driver->leave)
        root->driver->leave(root);
}

void cgroup_root_close(struct cgroup_root *root)
{
    for (int i = 0; i < _CGROUP_MAX; i++) {
        fd_close(&root->fd[i]);
        fd_close(&root->parent_fd[i]);
    }
    disks_close(&root->disks);
    root->driver = NULL;
}

enum mechanism cgroup_root_enforces(const struct cgroup_root *root, enum wall wall)
{
    if (!root->driver)
        return MECHANISM_NONE;
    bool has = false;
    switch (wall) {
    case WALL_MEMORY:
        has = root->has[CGROUP_MEMORY];
        break;
    case WALL_CPU:
        has = root->has[CGROUP_CPU];
        break;
    case WALL_PROCESSES:
        has = root->has[CGROUP_PIDS];
        break;
    case WALL_IO: /* version 1 throttles direct I/O only */
        has = root->has[CGROUP_IO] && root->driver == &cgroup_v2 && root->disks.n > 0 &&
              !root->disks.others;
        break;
    default:
        break;
    }
    return has ? root->driver->mechanism : MECHANISM_NONE;
}

int cgroup_limit_disk(struct cgroup *cg, int fd, const struct limits *limits)
{
    dev_t disk;
    if (!cg->root || cgroup_root_enforces(cg->root, WALL_IO) == MECHANISM_NONE)
        return -EOPNOTSUPP;
    int r = disks_find(&cg->root->disks, fd, &disk);
    /* A file system without a block device (tmpfs, overlay on it) has nothing to throttle, and the
     * disks that are known already were limited when the group was made. */
    if (r < 0 || disk == 0 || disks_has(&cg->root->disks, disk))
        return r;
    return cg->root->driver->limit_disk(cg, disk, limits->io_bytes_per_s);
}

void cgroup_init(struct cgroup *cg, const struct cgroup_root *root, uint64_t serial, bool devices)
{
    *cg = (struct cgroup){0};
    if (!root->driver)
        return;
    cg->root = root;
    snprintf(cg->name, sizeof(cg->name), "s%llu", (unsigned long long)serial);
    for (int i = 0; i < _CGROUP_MAX; i++)
        /* In version 1 each controller is a hierarchy with a directory of its own; `in` says where
         * one exists and so has to be removed. */
        cg->in[i] = root->fd[i] >= 0 && (i != CGROUP_DEVICES || devices);
}

static bool joins_at_clone(const struct cgroup *cg)
{
    return cg->root && cg->root->driver == &cgroup_v2;
}

/* In version 2 a process is cloned into its group (CLONE_INTO_CGROUP), so that nothing it does
 * escapes the limits. In version 1 it enters by itself, with cgroup_join(). */
int cgroup_open_for_clone(const struct cgroup *cg, int *ret_fd)
{
    *ret_fd = -1;
    if (!joins_at_clone(cg))
        return 0;
    if (mkdirat(cg->root->fd[0], cg->name, 0755) < 0)
        return -errno;
    *ret_fd = openat(cg->root->fd[0], cg->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

int cgroup_join(const struct cgroup *cg)
{
    return joins_at_clone(cg) ? 0 : cgroup_enter(cg);
}

int cgroup_limit(struct cgroup *cg, enum wall wall, const struct limits *limits)
{
    if (!cg->root || cgroup_root_enforces(cg->root, wall) == MECHANISM_NONE)
        return -EOPNOTSUPP;
    return cg->root->driver->limit(cg, wall, limits);
}

uint64_t cgroup_oom_kills(const struct cgroup *cg)
{
    return cg->root ? cg->root->driver->oom_kills(cg) : 0;
}

void cgroup_read_stats(const struct cgroup *cg, struct plan_reply *ret)
{
    if (cg->root)
        cg->root->driver->read_stats(cg, ret);
}

int cgroup_freeze(struct cgroup *cg, bool on)
{
    if (!cg->root || !cg->root->has[CGROUP_FREEZER])
        return -EOPNOTSUPP;
    return cg->root->driver->freeze(cg, on);
}

/* A group that still has a dying process cannot be removed yet: what is left stays marked, and the
 * caller tries again. */
int cgroup_remove(struct cgroup *cg)
{
    int result = 0;
    for (int i = 0; i < _CGROUP_MAX; i++) {
        if (!cg->in[i])
            continue;
        if (unlinkat(cg->root->fd[i], cg->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            cg->in[i] = false;
        else
            result = -errno;
    }
    return result;
}
