/* SPDX-License-Identifier: Apache-2.0 */
/* Connections from the inside to the outside, for runners that nothing outside can connect to:
 * under gVisor and kata a socket of the host can be reached from inside, and not the other way
 * round. */
#include "toolrunner/dial.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "toolrunner/conn.h"
#include "toolrunner/runner.h"

static int dial_unix(const char *path, int type)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sun.sun_path))
        return -ENAMETOOLONG;
    memcpy(sun.sun_path, path, strlen(path) + 1);
    _cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
        return -errno;
    return fd_steal(&fd);
}

static int dialer_connect(struct dialer *d)
{
    int fd = dial_unix(d->path, SOCK_STREAM);
    if (fd < 0)
        return fd;
    conn_adopt(d->runner, fd, NULL, 0);
    return 0;
}

int dial_channel(const char *path)
{
    /* Containers of a pod start in any order, so that the socket may not be there yet, or be there
     * without its listener. */
    for (int64_t end = clock_mono_ms() + DIAL_CHANNEL_MS;;) {
        int fd = dial_unix(path, SOCK_SEQPACKET);
        bool early = fd == -ENOENT || fd == -ECONNREFUSED;
        if (!early || clock_mono_ms() > end)
            return fd;
        usleep(DIAL_RETRY_MS * 1000);
    }
}

void dialer_again(struct dialer *d)
{
    if (dialer_connect(d) < 0)
        epoll_timer_set_us(&d->runner->loop, &d->retry, DIAL_RETRY_MS * 1000);
}

static void on_retry(struct epoll_timer *t)
{
    dialer_again(container_of(t, struct dialer, retry));
}

int dialer_init(struct dialer *d, struct runner *r, const char *path)
{
    *d = (struct dialer){.runner = r, .path = path};
    epoll_timer_init(&d->retry, on_retry);
    return path ? dialer_connect(d) : 0;
}
