/* SPDX-License-Identifier: Apache-2.0 */
#include "builder/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"

void disks_open(struct disks *d)
{
    *d = (struct disks){.block_fd = open(DISKS_BLOCK_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC)};
}

void disks_close(struct disks *d)
{
    fd_close(&d->block_fd);
}

/* io.max wants the whole disk; /sys/dev/block/<partition>/.. is it. */
static dev_t whole_disk(const struct disks *d, dev_t dev)
{
    char path[64];
    snprintf(path, sizeof(path), "%u:%u/partition", major(dev), minor(dev));
    if (d->block_fd < 0 || faccessat(d->block_fd, path, F_OK, 0) < 0)
        return dev;
    snprintf(path, sizeof(path), "%u:%u/../dev", major(dev), minor(dev));
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64);
    unsigned ma, mi;
    if (fd_read_file_at(d->block_fd, path, &text) < 0 || sscanf(text.data, "%u:%u", &ma, &mi) != 2)
        return dev;
    return makedev(ma, mi);
}

int disks_find(const struct disks *d, int fd, dev_t *ret)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    if (major(st.st_dev) == 0 && fs.f_type != TMPFS_MAGIC)
        return -EOPNOTSUPP;
    *ret = major(st.st_dev) == 0 ? 0 : whole_disk(d, st.st_dev);
    return 0;
}

bool disks_has(const struct disks *d, dev_t disk)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->disks[i] == disk)
            return true;
    return false;
}

void disks_add(struct disks *d, int fd)
{
    dev_t disk;
    int r = disks_find(d, fd, &disk);
    if (r < 0 || d->n == DISKS_MAX)
        d->others = true;
    else if (disk && !disks_has(d, disk))
        d->disks[d->n++] = disk;
}
