/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/local/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"

static int home_fd;

static int open_own(void)
{
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The host's network belongs to the host's root: an ordinary user's zygote could leave it and never
 * come back, so it has one of its own from the beginning. */
int network_init(void)
{
    home_fd = open_own();
    if (home_fd < 0)
        return home_fd;
    if (setns(home_fd, CLONE_NEWNET) == 0)
        return 0;
    fd_close(&home_fd);
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    home_fd = open_own();
    return home_fd < 0 ? home_fd : 0;
}

int network_enter(void)
{
    return unshare(CLONE_NEWNET) < 0 ? -errno : child_raise_loopback();
}

int network_leave(void)
{
    return setns(home_fd, CLONE_NEWNET) < 0 ? -errno : 0;
}
