/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/own-filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/landlock.h"

int own_filter_apply(int landlock_abi)
{
    const struct sock_fprog *program =
        landlock_needs_filter(landlock_abi) ? &own_filter_nesting : &own_filter_whole;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) < 0 ? -errno : 0;
}
