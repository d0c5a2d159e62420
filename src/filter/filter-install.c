/* SPDX-License-Identifier: Apache-2.0 */
/* The part of filter.h that a child needs. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter/filter.h"

int filter_install(const struct sock_fprog *p)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, p) < 0 ? -errno : 0;
}
