/* SPDX-License-Identifier: Apache-2.0 */
/* See link.h. */
#include "pod/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/helper.h"
#include "proto/channel.h"

#define DOOR_BACKLOG 16
#define TLS_PROGRAM  "mas-link-tls"

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

/* The program beside this one, in its directory. */
static int link_find_tls(char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size);
    if (n < 0)
        return -errno;
    while (n > 0 && ret[n - 1] != '/')
        n--;
    if ((size_t)n + sizeof(TLS_PROGRAM) > size)
        return -ENAMETOOLONG;
    memcpy(ret + n, TLS_PROGRAM, sizeof(TLS_PROGRAM));
    return 0;
}

/* The lifeline's end of ours, which is readable once that program has ended. */
static int link_start_tls(const struct link_options *o)
{
    char program[512];
    int pair[2], r = link_find_tls(program, sizeof(program));
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    _cleanup_close_ int ours = pair[0], its = pair[1];
    pid_t pid = helper_fork(&its, 1);
    if (pid != 0)
        return pid < 0 ? (int)pid : fd_steal(&ours);
    if (its == LINK_LIFELINE ? fd_set_cloexec(its, false) < 0 : dup2(its, LINK_LIFELINE) < 0)
        _exit(126);
    execl(program, TLS_PROGRAM, "--link", "--port", o->port, "--peer", o->peer, "--door",
          o->door_path, (char *)NULL);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

static int link_await_runner(int listener, int lifeline)
{
    for (;;) {
        struct pollfd p[] = {{.fd = listener, .events = POLLIN},
                             {.fd = lifeline, .events = POLLIN}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (p[1].revents)
            return -ECHILD;
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

static int link_pass_connections(int channel, int door, int lifeline)
{
    for (;;) {
        struct pollfd p[] = {{.fd = channel, .events = POLLIN},
                             {.fd = door, .events = POLLIN},
                             {.fd = lifeline, .events = POLLIN}};
        if (poll(p, 3, -1) < 0) {
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
        if (p[2].revents)
            return -ECHILD;
        if (p[1].revents)
            link_hand_over(channel, door);
    }
}

static int link_hand_events(int channel, const char *path)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = fd_send_msg(channel, CHANNEL_EVENTS, 1, &fd, 1);
    return n < 0 ? (int)n : 0;
}

int link_serve(const struct link_options *o, const char **ret_what)
{
    *ret_what = "listen for connections";
    _cleanup_close_ int door = link_listen(o->door_path, SOCK_STREAM, DOOR_BACKLOG, 0600);
    if (door < 0)
        return door;
    *ret_what = "start " TLS_PROGRAM;
    _cleanup_close_ int lifeline = o->port ? link_start_tls(o) : -1;
    if (o->port && lifeline < 0)
        return lifeline;
    *ret_what = "listen for the runner";
    /* Every user of the other container may connect: only the runner exists there by now. */
    int listener = link_listen(o->channel_path, SOCK_SEQPACKET, 1, 0666);
    if (listener < 0)
        return listener;
    *ret_what = "wait for the runner";
    _cleanup_close_ int channel = link_await_runner(listener, lifeline);
    /* One connection and no more: commands start after this, and must not find a second way in. */
    unlink(o->channel_path);
    fd_close(&listener);
    if (channel < 0)
        return channel;
    *ret_what = "hand over the directory of events";
    int r = o->events_path ? link_hand_events(channel, o->events_path) : 0;
    if (r < 0)
        return r;
    *ret_what = "hand over connections";
    return link_pass_connections(channel, door, lifeline);
}
