/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/dial.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "toolrunner/conn.h"
#include "toolrunner/runner.h"

static int dialer_connect(struct dialer *d)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (strlen(d->path) >= sizeof(sun.sun_path))
        return -ENAMETOOLONG;
    memcpy(sun.sun_path, d->path, strlen(d->path) + 1);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
        return -errno;
    conn_adopt(d->runner, fd_steal(&fd), NULL, 0);
    return 0;
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
