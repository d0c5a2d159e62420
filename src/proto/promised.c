/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/promised.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

int promised_open(uint64_t **ret)
{
    _cleanup_close_ int fd = memfd_create("mas-promised", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, sizeof(**ret)) < 0)
        return -errno;
    uint64_t *bytes = mmap(NULL, sizeof(*bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    /* What is mapped already stays writable. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
        0) {
        int r = -errno;
        munmap(bytes, sizeof(*bytes));
        return r;
    }
    *ret = bytes;
    return fd_steal(&fd);
}

uint64_t promised_read(int fd)
{
    uint64_t bytes = 0;
    return fd >= 0 && pread(fd, &bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ? bytes : 0;
}
