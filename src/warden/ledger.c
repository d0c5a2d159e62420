/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "proto/claims.h"
#include "proto/promised.h"

#define MIB         (1024ull * 1024)
#define BLOCK_BYTES 512 /* of st_blocks */

int ledger_open(struct ledger *l, uint64_t reserve_bytes)
{
    *l = (struct ledger){.reserve_bytes = reserve_bytes, .claims_fd = -1};
    list_init(&l->counted);
    l->promised_fd = promised_open(&l->promised);
    if (l->promised_fd < 0)
        return l->promised_fd;
    l->claims_fd = claims_open();
    return l->claims_fd < 0 ? l->claims_fd : 0;
}

void ledger_close(struct ledger *l)
{
    if (l->promised)
        munmap(l->promised, sizeof(*l->promised));
    l->promised = NULL;
    fd_close(&l->promised_fd);
    fd_close(&l->claims_fd);
}

void ledger_forget_claims(struct ledger *l)
{
    for (unsigned i = 0; i < _CLAIMS_SLOTS; i++)
        claims_set(l->claims_fd, i, 0);
}

/* What an image could still grow by. One that cannot be looked at counts in full, which may refuse
 * too early and never too late. */
static uint64_t missing_bytes(const struct ledger_entry *e)
{
    struct stat st;
    if (e->image_fd < 0 || fstat(e->image_fd, &st) < 0)
        return e->bytes;
    uint64_t has = (uint64_t)st.st_blocks * BLOCK_BYTES;
    return has < e->bytes ? e->bytes - has : 0;
}

uint64_t ledger_refresh(struct ledger *l)
{
    uint64_t missing = 0;
    list_for_each(e, &l->counted, struct ledger_entry, node) {
        missing += missing_bytes(e);
    }
    if (l->promised)
        __atomic_store_n(l->promised, missing, __ATOMIC_RELAXED);
    return missing;
}

struct ledger_claim ledger_claim(struct ledger *l, struct ledger_entry *e, uint64_t bytes)
{
    struct ledger_claim c = {l->reserve_bytes, ledger_refresh(l), bytes};
    *e = (struct ledger_entry){.bytes = bytes, .image_fd = -1};
    list_append(&l->counted, &e->node);
    ledger_refresh(l);
    /* Told first, then looked: of this and a claim that is made meanwhile one sees the other. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__builtin_add_overflow(c.others_bytes, claims_read(l->claims_fd, _CLAIMS_SLOTS),
                               &c.others_bytes))
        c.others_bytes = UINT64_MAX;
    return c;
}

void ledger_follow(struct ledger *l, struct ledger_entry *e, int image_fd)
{
    fd_close(&e->image_fd);
    e->image_fd = image_fd;
    ledger_refresh(l);
}

void ledger_release(struct ledger *l, struct ledger_entry *e)
{
    if (!e->bytes)
        return;
    list_remove(&e->node);
    fd_close(&e->image_fd);
    e->bytes = 0;
    ledger_refresh(l);
}

/* As the control plane sees it, which is not root: blocks that are kept for root are not free. */
static int free_bytes(int fd, uint64_t *ret)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    *ret = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    return 0;
}

static int refuse_claim(const struct ledger_claim *c, uint64_t free, char *why, size_t size)
{
    snprintf(why, size,
             "disk of %llu MB: state_dir has %llu MB free, %llu promised, state_reserve_mb %llu",
             (unsigned long long)(c->bytes / MIB), (unsigned long long)(free / MIB),
             (unsigned long long)(c->others_bytes / MIB),
             (unsigned long long)(c->reserve_bytes / MIB));
    return -ENOSPC;
}

int ledger_check(const struct ledger_claim *c, int dir_fd, char *why, size_t size)
{
    uint64_t free = 0;
    int r = free_bytes(dir_fd, &free);
    if (r < 0)
        return r;
    uint64_t taken;
    if (__builtin_add_overflow(c->reserve_bytes, c->others_bytes, &taken) ||
        __builtin_add_overflow(taken, c->bytes, &taken) || taken > free)
        return refuse_claim(c, free, why, size);
    return 0;
}

int ledger_back(const struct ledger_claim *c, int image_fd, bool *ret_backed, char *why,
                size_t size)
{
    struct statfs fs;
    uint64_t free = 0;
    *ret_backed = false;
    if (fstatfs(image_fd, &fs) < 0)
        return -errno;
    if (fs.f_type == TMPFS_MAGIC) /* its blocks are memory */
        return 0;
    if (fallocate(image_fd, 0, 0, (off_t)c->bytes) < 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return 0;
        return errno == ENOSPC || errno == EDQUOT ? refuse_claim(c, 0, why, size) : -errno;
    }
    /* Another cell may have taken room since ledger_check(). */
    int r = free_bytes(image_fd, &free);
    if (r == 0 && free < c->reserve_bytes)
        return refuse_claim(c, free + c->bytes, why, size);
    *ret_backed = r == 0;
    return r;
}
