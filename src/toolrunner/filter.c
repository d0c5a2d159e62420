/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

int filter_apply(int fd)
{
    _cleanup_close_ int file = fd;
    size_t size = BPF_MAXINSNS * sizeof(struct sock_filter);
    _cleanup_free_ struct sock_filter *code = xcalloc(1, size + 1);
    ssize_t n = pread(file, code, size + 1, 0);
    if (n < 0)
        return -errno;
    if (n == 0 || (size_t)n > size || (size_t)n % sizeof(*code))
        return -EINVAL;
    struct sock_fprog program = {.len = (unsigned short)((size_t)n / sizeof(*code)),
                                 .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
