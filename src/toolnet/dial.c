/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "gateway/gateway-proto.h"

static int connect_gateway(const char *path, struct error *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sa.sun_path))
        return error_set(err, ERROR_TOOL_FAILED, ENAMETOOLONG, "gateway socket");
    strcpy(sa.sun_path, path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return error_set(err, ERROR_TOOL_FAILED, errno, "no network in this sandbox");
    return fd_steal(&fd);
}

static int wait_readable(int fd, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - clock_mono_ms();
        if (left <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, (int)left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

/* Reads up to the newline and not a byte further: what follows belongs to the connection. */
static int read_line(int fd, int64_t deadline_ms, char line[GATEWAY_LINE_MAX])
{
    for (size_t len = 0; len < GATEWAY_LINE_MAX; len++) {
        int r = wait_readable(fd, deadline_ms);
        if (r < 0)
            return r;
        ssize_t n = read(fd, line + len, 1);
        if (n <= 0)
            return n < 0 ? -errno : -ECONNRESET;
        if (line[len] == '\n') {
            line[len] = 0;
            return 0;
        }
    }
    return -EPROTO;
}

/* "ERR code message" */
static int read_refusal(char *line, char detail[DIAL_DETAIL_SIZE], struct error *err)
{
    char *name = line + strlen("ERR ");
    char *message = strchr(name, ' ');
    if (message)
        *message++ = 0;
    snprintf(detail, DIAL_DETAIL_SIZE, "%.*s", DIAL_DETAIL_SIZE - 1, message ? message : name);
    switch (gateway_code_find(name)) {
    case GATEWAY_HOST_NOT_ALLOWED:
    case GATEWAY_ADDRESS_NOT_ALLOWED:
        return error_set(err, ERROR_DENIED, 0, "host not allowed");
    case GATEWAY_BAD_REQUEST:
        return error_set(err, ERROR_INVALID, 0, "invalid host or port in the URL");
    case GATEWAY_RESOLVE_FAILED:
        return error_set(err, ERROR_TOOL_FAILED, 0, "cannot resolve %s", detail);
    case GATEWAY_TIMEOUT:
        return error_set(err, ERROR_TOOL_FAILED, 0, "timed out: %s", detail);
    default:
        return error_set(err, ERROR_TOOL_FAILED, 0, "cannot connect to %s", detail);
    }
}

int dial_open(const char *socket_path, const char *host, uint16_t port, int64_t deadline_ms,
              char detail[DIAL_DETAIL_SIZE], struct error *err)
{
    char line[GATEWAY_LINE_MAX];
    _cleanup_close_ int fd = connect_gateway(socket_path, err);
    if (fd < 0)
        return fd;
    int n = snprintf(line, sizeof(line), "CONNECT %s %u\n", host, port);
    if (n < 0 || (size_t)n >= sizeof(line))
        return error_set(err, ERROR_INVALID, 0, "the URL's host name is too long");
    int r = send(fd, line, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -EPIPE;
    if (r == 0)
        r = read_line(fd, deadline_ms, line);
    if (r == -ETIMEDOUT)
        return error_set(err, ERROR_TOOL_FAILED, 0, "timed out while connecting to %s", host);
    if (r < 0)
        return error_set(err, ERROR_TOOL_FAILED, -r, "the network gateway does not answer");
    if (strncmp(line, "ERR ", 4) == 0)
        return read_refusal(line, detail, err);
    if (strncmp(line, "OK ", 3) != 0)
        return error_set(err, ERROR_TOOL_FAILED, EPROTO, "the network gateway");
    return fd_steal(&fd);
}
