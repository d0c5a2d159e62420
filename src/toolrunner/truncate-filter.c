/* SPDX-License-Identifier: Apache-2.0 */
/* See truncate-filter.h. The program is a table: for each way of the processor to make system calls
 * a block of the same shape, with that way's numbers. Opening for writing is Landlock's to decide,
 * so O_TRUNC is refused only together with an access mode that is not writing: 0, or the 3 that
 * means neither. Calls of an architecture that has no block are left to the sandbox's own filter.
 */
#include "toolrunner/truncate-filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "base/alloc.h"

#define NR           offsetof(struct seccomp_data, nr)
#define ARCH         offsetof(struct seccomp_data, arch)
#define ARGUMENT(i)  offsetof(struct seccomp_data, args[i]) /* the lower half: little endian */
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define ALLOW        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define FAIL(error)  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
/* The next n statements only when equal. */
#define IF_EQUAL(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define NO_NUMBER          0xffffffffu
#define ACCESS_MODE        3 /* the kernel's; musl's O_ACCMODE has another bit */

/* Refuses when the flags have O_TRUNC and an access mode of 0 or 3, allows otherwise. */
#define JUDGE_FLAGS(offset)                                                                        \
    LOAD(offset), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TRUNC | ACCESS_MODE),                      \
        IF_EQUAL(O_TRUNC, 1), FAIL(EACCES), IF_EQUAL(O_TRUNC | ACCESS_MODE, 1), FAIL(EACCES),      \
        ALLOW
#define JUDGE_FLAGS_N 7

/* Refuses further filters, and allows all else that the two calls do. */
#define JUDGE_NESTING(nr_prctl, nr_seccomp)                                                        \
    IF_EQUAL(nr_seccomp, 4), LOAD(ARGUMENT(0)), IF_EQUAL(SECCOMP_SET_MODE_FILTER, 1),              \
        FAIL(EINVAL), ALLOW, IF_EQUAL(nr_prctl, 6), LOAD(ARGUMENT(0)),                             \
        IF_EQUAL(PR_SET_SECCOMP, 3), LOAD(ARGUMENT(1)), IF_EQUAL(SECCOMP_MODE_FILTER, 1),          \
        FAIL(EINVAL), ALLOW
#define JUDGE_NESTING_N 12

#define SEAL(arch, nr_prctl, nr_seccomp)                                                           \
    LOAD(ARCH), IF_EQUAL(arch, SEAL_N - 2), LOAD(NR), JUDGE_NESTING(nr_prctl, nr_seccomp), ALLOW
#define SEAL_N (4 + JUDGE_NESTING_N)

#define BLOCK(arch, nr_prctl, nr_seccomp, nr_truncate, nr_truncate64, nr_open, nr_openat,          \
              nr_openat2)                                                                          \
    LOAD(ARCH), IF_EQUAL(arch, BLOCK_N - 2), LOAD(NR), JUDGE_NESTING(nr_prctl, nr_seccomp),        \
        IF_EQUAL(nr_truncate, 1), FAIL(EACCES), IF_EQUAL(nr_truncate64, 1), FAIL(EACCES),          \
        IF_EQUAL(nr_openat2, 1), FAIL(ENOSYS), IF_EQUAL(nr_open, JUDGE_FLAGS_N),                   \
        JUDGE_FLAGS(ARGUMENT(1)), IF_EQUAL(nr_openat, JUDGE_FLAGS_N), JUDGE_FLAGS(ARGUMENT(2)),    \
        ALLOW
#define BLOCK_N (12 + JUDGE_NESTING_N + 2 * JUDGE_FLAGS_N)

static struct sock_filter narrowed[] = {
#if defined(__x86_64__)
    BLOCK(AUDIT_ARCH_X86_64, 157, 317, 76, NO_NUMBER, 2, 257, 437),
    BLOCK(AUDIT_ARCH_I386, 172, 354, 92, 193, 5, 295, 437),
#elif defined(__aarch64__)
    BLOCK(AUDIT_ARCH_AARCH64, 167, 277, 45, NO_NUMBER, NO_NUMBER, 56, 437),
    BLOCK(AUDIT_ARCH_ARM, 172, 383, 92, 193, 5, 322, 437),
#endif
    ALLOW,
};

static struct sock_filter sealed[] = {
#if defined(__x86_64__)
    SEAL(AUDIT_ARCH_X86_64, 157, 317),
    SEAL(AUDIT_ARCH_I386, 172, 354),
#elif defined(__aarch64__)
    SEAL(AUDIT_ARCH_AARCH64, 167, 277),
    SEAL(AUDIT_ARCH_ARM, 172, 383),
#endif
    ALLOW,
};

int truncate_filter_enter(bool narrow)
{
    struct sock_fprog filter = {.len = narrow ? ELEMENTS(narrowed) : ELEMENTS(sealed),
                                .filter = narrow ? narrowed : sealed};
    if (filter.len == 1)
        return -ENOSYS;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ? -errno : 0;
}
