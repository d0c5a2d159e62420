/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"

void helper_tie(pid_t parent)
{
    /* A parent that ended before the first call is not seen by it, but by the second one. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(125);
}

pid_t helper_fork(const int *keep, size_t n_keep)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        helper_tie(parent);
        fd_keep_only(keep, n_keep);
    }
    return pid;
}
