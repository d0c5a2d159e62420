/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the runner, by standard input and output. Each way has one buffer: what the
 * other side does not take is not read. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/fd.h"
#include "pod/link.h"

#define WAY_SIZE (64 << 10)

struct way {
    int from, to;
    size_t begin, end;
    char bytes[WAY_SIZE];
};

/* Bytes moved, 0 at the end, or -errno with -EAGAIN for nothing to do. */
static ssize_t way_fill(struct way *w)
{
    ssize_t n = read(w->from, w->bytes, sizeof(w->bytes));
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    w->begin = 0;
    w->end = (size_t)n;
    return n;
}

static ssize_t way_drain(struct way *w)
{
    ssize_t n = write(w->to, w->bytes + w->begin, w->end - w->begin);
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    w->begin += (size_t)n;
    return n;
}

/* False once it has ended. A closed reader is an end like any other. */
static bool way_move(struct way *w, int *ret_error)
{
    bool full = w->begin < w->end;
    ssize_t n = full ? way_drain(w) : way_fill(w);
    if (n > 0 || n == -EAGAIN)
        return true;
    *ret_error = n == -EPIPE || n == -ECONNRESET ? 0 : (int)n;
    return false;
}

int link_attach(const char *door_path, const char **ret_what)
{
    static struct way in, out;
    *ret_what = "connect to the link";
    _cleanup_close_ int fd = link_connect_door(door_path);
    if (fd < 0)
        return fd;
    in = (struct way){.from = STDIN_FILENO, .to = fd};
    out = (struct way){.from = fd, .to = STDOUT_FILENO};
    struct way *ways[] = {&in, &out};
    *ret_what = "copy";
    if (fd_set_nonblock(STDIN_FILENO, true) < 0 || fd_set_nonblock(STDOUT_FILENO, true) < 0 ||
        fd_set_nonblock(fd, true) < 0)
        return -errno;
    for (int error = 0;;) {
        struct pollfd p[2];
        for (size_t i = 0; i < 2; i++) {
            bool full = ways[i]->begin < ways[i]->end;
            p[i] = (struct pollfd){.fd = full ? ways[i]->to : ways[i]->from,
                                   .events = full ? POLLOUT : POLLIN};
        }
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return -errno;
        for (size_t i = 0; i < 2; i++)
            if (p[i].revents && !way_move(ways[i], &error))
                return error;
    }
}
