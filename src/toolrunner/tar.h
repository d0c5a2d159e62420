/* SPDX-License-Identifier: Apache-2.0 */
/* Reading tar archives: ustar, GNU long names, pax path, linkpath, size and mtime. Sparse files and
 * everything else are refused by name. Streams: the archive is never in memory.
 *
 * Invariants for the caller: an entry's path is relative, has no "." or ".." component and no
 * trailing slash; it is "" for the root itself. The same holds for a hard link's target. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TAR_BLOCK          512
#define TAR_PATH_MAX       4095
#define TAR_PAX_MAX        65536 /* bytes of one extended header */
#define TAR_ENTRIES_MAX    200000
#define TAR_ENTRY_SIZE_MAX (16ull << 30)
#define TAR_TOTAL_SIZE_MAX (64ull << 30)
#define TAR_HEADERS_MAX    16 /* extended headers before one entry */

enum tar_type { TAR_FILE, TAR_DIRECTORY, TAR_SYMLINK, TAR_HARDLINK };

struct tar_entry {
    enum tar_type type;
    mode_t mode; /* permission bits only: no setuid, setgid or sticky */
    uint64_t size;
    int64_t mtime;
    char path[TAR_PATH_MAX + 1];
    char link[TAR_PATH_MAX + 1];
};

struct tar {
    ssize_t (*read)(void *arg, void *data, size_t size); /* bytes, 0 at the end, or -errno */
    void *arg;
    uint64_t left;    /* of the current entry's data */
    unsigned padding; /* after it */
    uint64_t total;
    size_t n_entries;
    char why[TAR_PATH_MAX + 256]; /* after an error: which entry and what of it */
};

void tar_init(struct tar *t, ssize_t (*read)(void *arg, void *data, size_t size), void *arg);
/* The next entry (what is left of the current one is skipped): 1, 0 at the end, or -errno with why.
 */
int tar_next(struct tar *t, struct tar_entry *ret);
/* Data of the current entry: bytes, 0 at its end, or -errno with why. */
ssize_t tar_read(struct tar *t, void *data, size_t size);
