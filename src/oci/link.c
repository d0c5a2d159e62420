/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a runner that cannot be passed descriptors: it dials a socket in a directory that is
 * bound into its container, and the launcher passes what it accepts to the warden. The directory is
 * the runner's alone: a tool cannot enter it. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "oci/launcher.h"

#define LINK_BACKLOG 4

int oci_link_listen(uint32_t runner_id)
{
    static const struct sockaddr_un sun = {.sun_family = AF_UNIX,
                                           .sun_path = OCI_LINK "/" OCI_LINK_NAME};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || mkdir(OCI_LINK, 0700) < 0 ||
        bind(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        chown(sun.sun_path, runner_id, runner_id) < 0 ||
        chown(OCI_LINK, runner_id, runner_id) < 0 || listen(fd, LINK_BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

int oci_link_pass(int listen_fd, int pidfd, int channel_fd)
{
    struct pollfd p[] = {{.fd = listen_fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    while (poll(p, 2, -1) < 0)
        if (errno != EINTR)
            return -errno;
    if (p[1].revents)
        return -ECHILD;
    _cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = fd_send_msg(channel_fd, "c", 1, &fd, 1);
    return n < 0 ? (int)n : 0;
}
