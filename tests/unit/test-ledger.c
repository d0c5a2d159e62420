/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of disks that have no blocks yet, and what those learn of it who share their file
 * system. */
#include "warden/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/claims.h"
#include "proto/promised.h"
#include "tests/unit/tap.h"

#define MIB (1024ull * 1024)

static int sparse_file(uint64_t size)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    return fd < 0 || ftruncate(fd, (off_t)size) < 0 ? -1 : fd;
}

static void write_mib(int fd, off_t at)
{
    static char data[MIB];
    memset(data, 'x', sizeof(data));
    ok(pwrite(fd, data, sizeof(data), at) == (ssize_t)sizeof(data), "a sandbox writes");
}

static void test_counting(void)
{
    struct ledger l;
    struct ledger_entry one = {0}, two = {0};
    ok(ledger_open(&l, 10 * MIB) == 0 && promised_read(l.promised_fd) == 0, "nothing is promised");
    struct ledger_claim c = ledger_claim(&l, &one, 100 * MIB);
    ok(c.reserve_bytes == 10 * MIB && c.others_bytes == 0 && c.bytes == 100 * MIB,
       "the first claim");
    ok(promised_read(l.promised_fd) == 100 * MIB, "it is told while the image is being made");
    c = ledger_claim(&l, &two, 50 * MIB);
    ok(c.others_bytes == 100 * MIB && promised_read(l.promised_fd) == 150 * MIB, "a second one");
    ledger_release(&l, &two);
    ledger_release(&l, &two);
    ok(promised_read(l.promised_fd) == 100 * MIB, "given back, and only once");
    int image = sparse_file(100 * MIB);
    ledger_follow(&l, &one, image);
    ok(promised_read(l.promised_fd) == 100 * MIB, "an image without blocks");
    write_mib(image, (off_t)(7 * MIB));
    ok(promised_read(l.promised_fd) == 100 * MIB, "an old figure is too high");
    ok(ledger_refresh(&l) == 99 * MIB && promised_read(l.promised_fd) == 99 * MIB,
       "what was written is not missing any more");
    c = ledger_claim(&l, &two, 50 * MIB);
    ok(c.others_bytes == 99 * MIB, "nor for the next claim");
    ledger_release(&l, &one);
    ok(fcntl(image, F_GETFD) < 0 && promised_read(l.promised_fd) == 50 * MIB,
       "the image is closed");
    ledger_release(&l, &two);
    ledger_close(&l);
}

/* What others are about to write, in a directory whose file system has room for very much more than
 * these figures, or for nothing at all. */
static void test_claims(void)
{
    struct ledger l;
    struct ledger_entry disk = {0};
    struct claims_view view;
    ok(ledger_open(&l, 10 * MIB) == 0, "a ledger");
    _cleanup_close_ int dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct claimant image = {dir, l.promised_fd, l.claims_fd, CLAIMS_IMAGES + 3, 0};
    struct claimant output = {dir, l.promised_fd, l.claims_fd, CLAIMS_OUTPUT, 0};
    ok(claims_take(&image, 3 * MIB, NULL) == 0 && claims_take(&output, MIB, NULL) == 0 &&
           claims_read(l.claims_fd, _CLAIMS_SLOTS) == 4 * MIB,
       "two claims");
    ok(claims_read(l.claims_fd, CLAIMS_OUTPUT) == 3 * MIB, "a claimant's own does not count");
    ok(ledger_claim(&l, &disk, 7 * MIB).others_bytes == 4 * MIB, "a disk gets nothing of them");
    claims_set(l.claims_fd, CLAIMS_IMAGES + 3, 2 * MIB);
    output.reserve_bytes = UINT64_MAX - 2;
    ok(claims_take(&output, MIB, &view) == -ENOSPC && view.others_bytes == 9 * MIB &&
           claims_read(l.claims_fd, _CLAIMS_SLOTS) == 2 * MIB,
       "what does not fit is refused with its figures, and claims nothing");
    claims_set(l.claims_fd, CLAIMS_OUTPUT, UINT64_MAX);
    ok(claims_take(&image, MIB, NULL) == -ENOSPC, "a number that makes no sense is no room");
    ledger_release(&l, &disk);
    ok(ledger_claim(&l, &disk, 7 * MIB).others_bytes == UINT64_MAX, "for no disk either");
    claims_set(l.claims_fd, CLAIMS_OUTPUT, MIB);
    claims_set(l.claims_fd, _CLAIMS_SLOTS, MIB);
    claims_set(l.claims_fd, CLAIMS_IMAGES + 3, MIB);
    ledger_forget_claims(&l);
    ok(claims_read(l.claims_fd, _CLAIMS_SLOTS) == 0, "nothing is claimed after an end");
    ok(ftruncate(l.claims_fd, 0) < 0, "the table cannot be cut");
    ledger_release(&l, &disk);
    ledger_close(&l);
    image.claims_fd = image.promised_fd = -1;
    ok(claims_take(&image, MIB, NULL) == 0, "an older warden has no table");
}

static void test_readers(void)
{
    uint64_t *bytes, other = 7;
    _cleanup_close_ int fd = promised_open(&bytes);
    *bytes = 5;
    ok(promised_read(fd) == 5, "the number");
    ok(pwrite(fd, &other, sizeof(other), 0) < 0 && errno == EPERM, "it cannot be written to");
    ok(mmap(NULL, sizeof(other), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED,
       "nor mapped for that");
    ok(ftruncate(fd, 0) < 0 && promised_read(fd) == 5, "nor cut");
    ok(promised_read(-1) == 0, "an older warden has none");
}

int main(void)
{
    test_counting();
    test_readers();
    test_claims();
    return tap_done();
}
