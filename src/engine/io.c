/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of throughput. They are of disks, so it must be known which disks the sandbox's files are
 * on, and each must be in the container's io.max afterwards. Version 2 only: the first throttles
 * direct I/O alone, and the warden then never asks (warden/limits.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define UEVENT_MAX 4096

static void add_path(struct disks *disks, int dirfd, const char *path)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        disks->others = true;
    else
        disks_add(disks, fd);
}

static void open_disks(struct engine *e)
{
    disks_open(&e->disks);
    add_path(&e->disks, AT_FDCWD, e->order.dir);
}

static void close_disks(struct engine *e)
{
    if (e->disks.others)
        e->disks.n = 0;
    disks_close(&e->disks);
}

void io_find_common(struct engine *e)
{
    open_disks(e);
    add_path(&e->disks, AT_FDCWD, "/usr");
    close_disks(e);
}

void io_find(struct engine *e, int view_fd, const struct child_trees *t)
{
    open_disks(e);
    add_path(&e->disks, view_fd, "usr");
    if (t->disk >= 0)
        disks_add(&e->disks, t->disk);
    if (t->image >= 0)
        disks_add(&e->disks, t->image);
    for (uint32_t i = 0; i < e->order.child.n_mounts; i++)
        disks_add(&e->disks, t->mounts[i]);
    close_disks(e);
    if (e->disks.n || !e->order.child.limits.io_bytes_per_s)
        return;
    child_must(e->order.must[WALL_IO] ? -EOPNOTSUPP : 0,
               "io cannot be limited: not all of its files are on disks", WALL_IO);
    e->order.child.limits.io_bytes_per_s = 0;
}

json_t *io_by_number(const struct engine *e)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < e->disks.n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:I}", "major", (int)major(e->disks.disks[i]),
                                        "minor", (int)minor(e->disks.disks[i]), "rate",
                                        (json_int_t)e->order.child.limits.io_bytes_per_s));
    return list;
}

/* As the kernel names it, which is where devtmpfs has it. */
static bool device_path(dev_t disk, char *ret, size_t size)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(UEVENT_MAX);
    snprintf(path, sizeof(path), DISKS_BLOCK_DIR "/%u:%u/uevent", major(disk), minor(disk));
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return false;
    const char *name = strstr(text.data, "DEVNAME=");
    if (!name)
        return false;
    name += strlen("DEVNAME=");
    snprintf(ret, size, "/dev/%.*s", (int)strcspn(name, "\n"), name);
    return true;
}

json_t *io_by_path(const struct engine *e)
{
    json_t *list = json_array();
    char path[128];
    for (unsigned i = 0; i < e->disks.n; i++)
        if (device_path(e->disks.disks[i], path, sizeof(path)))
            json_array_append_new(list,
                                  json_pack("{s:s, s:I}", "Path", path, "Rate",
                                            (json_int_t)e->order.child.limits.io_bytes_per_s));
    return list;
}

static uint64_t rate_of(const char *line, size_t len, const char *key)
{
    const char *p = memmem(line, len, key, strlen(key));
    p = p ? p + strlen(key) : NULL;
    return p && *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : UINT64_MAX;
}

/* "8:0 rbps=1048576 wbps=max riops=max wiops=max" */
bool io_max_holds(const char *text, dev_t disk, uint64_t bytes_per_s)
{
    char name[32];
    int n = snprintf(name, sizeof(name), "%u:%u ", major(disk), minor(disk));
    for (const char *line = text; line && *line;) {
        size_t len = strcspn(line, "\n");
        if (strncmp(line, name, (size_t)n) == 0)
            return rate_of(line, len, " rbps=") <= bytes_per_s &&
                   rate_of(line, len, " wbps=") <= bytes_per_s;
        line += len + (line[len] == '\n');
    }
    return false;
}

bool io_holds(const struct engine *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(UEVENT_MAX * DISKS_MAX);
    if (!e->disks.n || group_read_file(e->mark.pid, "io.max", &text) < 0 || !text.data)
        return false;
    for (unsigned i = 0; i < e->disks.n; i++)
        if (!io_max_holds(text.data, e->disks.disks[i], e->order.child.limits.io_bytes_per_s))
            return false;
    return true;
}
