/* SPDX-License-Identifier: Apache-2.0 */
/* The disks that files are on: limits of throughput are of whole disks. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define DISKS_MAX       8
#define DISKS_BLOCK_DIR "/sys/dev/block"

struct disks {
    dev_t disks[DISKS_MAX]; /* whole ones */
    unsigned n;
    bool others;  /* there are files on neither a disk nor a tmpfs, which no limit covers */
    int block_fd; /* DISKS_BLOCK_DIR, or -1 */
};

void disks_open(struct disks *d);
/* What was found stays. */
void disks_close(struct disks *d);
/* Adds the disk behind a descriptor's file system. */
void disks_add(struct disks *d, int fd);
/* That disk, or 0 for a tmpfs, which needs none. -EOPNOTSUPP for neither. */
int disks_find(const struct disks *d, int fd, dev_t *ret);
bool disks_has(const struct disks *d, dev_t disk);
