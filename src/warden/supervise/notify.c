/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/supervise/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/log.h"

int notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof(addr.sun_path))
        return -1;
    memcpy(addr.sun_path, path, strlen(path));
    if (*path == '@')
        addr.sun_path[0] = 0;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, len) < 0) {
        log_warn("NOTIFY_SOCKET cannot be reached: %s", strerror(errno));
        return -1;
    }
    return fd_steal(&fd);
}

void notify_send(int fd, const char *state)
{
    if (fd >= 0 && send(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_warn("the service manager cannot be informed of %s: %s", state, strerror(errno));
}
