/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/bridge.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"

#define NAME_RANDOM 20

static int listen_abstract(struct bridge *b)
{
    char id[NAME_RANDOM + 1];
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    random_id(id, NAME_RANDOM);
    snprintf(b->name, sizeof(b->name), "mas-tool-net-%s", id);
    memcpy(sa.sun_path + 1, b->name, strlen(b->name));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(b->name));
    b->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->listen_fd < 0 || bind(b->listen_fd, (struct sockaddr *)&sa, size) < 0 ||
        listen(b->listen_fd, 1) < 0)
        return -errno;
    return 0;
}

int bridge_open(struct bridge *b, int stream_fd)
{
    *b = (struct bridge){.listen_fd = -1, .local_fd = -1, .stream_fd = stream_fd};
    relay_init(&b->up);
    relay_init(&b->down);
    int r = fd_set_nonblock(stream_fd, true);
    if (r >= 0)
        r = listen_abstract(b);
    if (r < 0)
        bridge_done(b);
    return r;
}

void bridge_done(struct bridge *b)
{
    fd_close(&b->listen_fd);
    fd_close(&b->local_fd);
    fd_close(&b->stream_fd);
    relay_done(&b->up);
    relay_done(&b->down);
}

/* An abstract name is open to every process of the network namespace: only our own is let in. */
static void accept_self(struct bridge *b)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    int fd = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid != getpid()) {
        close(fd);
        return;
    }
    b->local_fd = fd;
    fd_close(&b->listen_fd);
}

void bridge_pump(struct bridge *b)
{
    if (b->local_fd < 0 && b->listen_fd >= 0)
        accept_self(b);
    if (b->local_fd < 0)
        return;
    relay_pump(&b->up, b->local_fd, b->stream_fd);
    relay_pump(&b->down, b->stream_fd, b->local_fd);
}

static short poll_events(bool in, bool out)
{
    return (short)((in ? CURL_WAIT_POLLIN : 0) | (out ? CURL_WAIT_POLLOUT : 0));
}

unsigned bridge_wait_fds(const struct bridge *b, struct curl_waitfd fds[BRIDGE_POLL_FDS])
{
    unsigned n = 0;
    if (b->local_fd < 0) {
        fds[n++] = (struct curl_waitfd){.fd = b->listen_fd, .events = CURL_WAIT_POLLIN};
        return n;
    }
    short local = poll_events(relay_wants_read(&b->up), relay_wants_write(&b->down));
    short stream = poll_events(relay_wants_read(&b->down), relay_wants_write(&b->up));
    /* A descriptor without events would still report a hang-up, again and again. */
    if (local)
        fds[n++] = (struct curl_waitfd){.fd = b->local_fd, .events = local};
    if (stream)
        fds[n++] = (struct curl_waitfd){.fd = b->stream_fd, .events = stream};
    return n;
}
