/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of sparse files: disks and memory of virtual machines, where most was never written and
 * the copy must not write it either. It is a file of its own, so that the programs that run as root
 * and copy nothing do not contain it. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define COPY_PIECE_SIZE (256 * 1024)

static int copy_piece(int from, int to, off_t at, off_t end)
{
    _cleanup_free_ char *piece = xcalloc(1, COPY_PIECE_SIZE);
    while (at < end) {
        size_t want = end - at < COPY_PIECE_SIZE ? (size_t)(end - at) : COPY_PIECE_SIZE;
        ssize_t n = pread(from, piece, want, at);
        if (n < 0)
            return -errno;
        ssize_t written = n ? pwrite(to, piece, (size_t)n, at) : 0;
        if (written != n || n == 0)
            return written < 0 ? -errno : -EIO;
        at += n;
    }
    return 0;
}

int fd_copy_sparse(int from, int to)
{
    struct stat st;
    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -errno;
    for (off_t at = 0; at < st.st_size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : -errno;
        off_t hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0)
            return -errno;
        int r = copy_piece(from, to, data, hole);
        if (r < 0)
            return r;
        at = hole;
    }
    return 0;
}
