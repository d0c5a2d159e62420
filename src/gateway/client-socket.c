/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/client-socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"

static int has_value(int fd, int option, int want)
{
    int value = -1;
    socklen_t size = sizeof(value);
    if (getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0)
        return -errno;
    return value == want ? 0 : -EPROTOTYPE;
}

int client_socket_check(int fd)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    int r = has_value(fd, SO_DOMAIN, AF_INET);
    r = r < 0 ? r : has_value(fd, SO_TYPE, SOCK_STREAM);
    r = r < 0 ? r : has_value(fd, SO_PROTOCOL, IPPROTO_TCP);
    r = r < 0 ? r : has_value(fd, SO_ACCEPTCONN, 0);
    if (r == 0 && getpeername(fd, (struct sockaddr *)&peer, &size) < 0)
        r = -errno;
    return r;
}

bool client_socket_is_drained(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) < 0 || bytes == 0;
}

void client_socket_reset(int *fd)
{
    struct linger at_once = {.l_onoff = 1};
    if (*fd >= 0)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    fd_close(fd);
}

void client_socket_close(int *fd)
{
    struct linger off = {0};
    if (*fd >= 0)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
    fd_close(fd);
}
