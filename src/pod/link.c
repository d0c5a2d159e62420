/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. */
#include "pod/link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/channel.h"

#define DOOR_BACKLOG 16

/* Of a link that was started again, the old name is still there. */
static int link_listen(const char *path, int type, int backlog, mode_t mode)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sun.sun_path))
        return -ENAMETOOLONG;
    memcpy(sun.sun_path, path, strlen(path) + 1);
    _cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (unlink(path) < 0 && errno != ENOENT))
        return -errno;
    mode_t mask = umask(0777 & ~mode);
    int r = bind(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0 || listen(fd, backlog) < 0
                ? -errno
                : 0;
    umask(mask);
    return r < 0 ? r : fd_steal(&fd);
}

static int link_await_runner(int listener)
{
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return -errno;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
}

/* One that the runner does not take at once is closed: its other end hears of it and comes again,
 * and nothing is queued here. */
static void link_hand_over(int channel, int door)
{
    _cleanup_close_ int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        (void)fd_send_msg(channel, CHANNEL_CONNECTION, 1, &fd, 1);
}

static int link_pass_connections(int channel, int door)
{
    for (;;) {
        struct pollfd p[] = {{.fd = channel, .events = POLLIN}, {.fd = door, .events = POLLIN}};
        if (poll(p, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (p[0].revents) {
            char byte;
            ssize_t n = recv(channel, &byte, 1, MSG_DONTWAIT);
            if (n > 0)
                return -EPROTO;
            if (n == 0 || errno == ECONNRESET)
                return 0;
        }
        if (p[1].revents)
            link_hand_over(channel, door);
    }
}

int link_serve(const char *channel_path, const char *door_path, const char **ret_what)
{
    *ret_what = "listen for connections";
    _cleanup_close_ int door = link_listen(door_path, SOCK_STREAM, DOOR_BACKLOG, 0600);
    if (door < 0)
        return door;
    *ret_what = "listen for the runner";
    /* Every user of the other container may connect: only the runner exists there by now. */
    int listener = link_listen(channel_path, SOCK_SEQPACKET, 1, 0666);
    if (listener < 0)
        return listener;
    *ret_what = "wait for the runner";
    _cleanup_close_ int channel = link_await_runner(listener);
    unlink(channel_path);
    fd_close(&listener);
    if (channel < 0)
        return channel;
    *ret_what = "hand over connections";
    return link_pass_connections(channel, door);
}
