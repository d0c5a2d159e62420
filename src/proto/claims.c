/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/promised.h"

int claims_open(void)
{
    _cleanup_close_ int fd = memfd_create("mas-claims", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, _CLAIMS_SLOTS * sizeof(uint64_t)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* Numbers of others may be nonsense, and their sum too large for its type. */
static uint64_t add_up(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

uint64_t claims_read(int claims_fd, unsigned but_slot)
{
    uint64_t slots[_CLAIMS_SLOTS], sum = 0;
    if (claims_fd < 0 || pread(claims_fd, slots, sizeof(slots), 0) != (ssize_t)sizeof(slots))
        return 0;
    for (unsigned i = 0; i < _CLAIMS_SLOTS; i++)
        sum = i == but_slot ? sum : add_up(sum, slots[i]);
    return sum;
}

void claims_set(int claims_fd, unsigned slot, uint64_t bytes)
{
    off_t at = (off_t)(slot * sizeof(bytes));
    if (claims_fd >= 0 && slot < _CLAIMS_SLOTS)
        (void)!pwrite(claims_fd, &bytes, sizeof(bytes), at);
}

int claims_take(const struct claimant *c, uint64_t bytes, struct claims_view *ret)
{
    struct statfs fs;
    struct claims_view view;
    const uint64_t alone = add_up(c->reserve_bytes, bytes);
    bool fits =
        fstatfs(c->dir_fd, &fs) < 0 || alone <= (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    claims_set(c->claims_fd, c->slot, fits ? bytes : 0);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* others see it before their numbers are read */
    view.others_bytes = add_up(promised_read(c->promised_fd), claims_read(c->claims_fd, c->slot));
    if (fstatfs(c->dir_fd, &fs) < 0)
        return 0;
    view.free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (fits && add_up(view.others_bytes, alone) <= view.free_bytes)
        return 0;
    claims_set(c->claims_fd, c->slot, 0);
    if (ret)
        *ret = view;
    return -ENOSPC;
}
