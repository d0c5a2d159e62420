/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, the handshake, a line out, a line in; each wait ends at the deadline. */
#include "toolrunner-client/client.h"

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
#include "base/strbuf.h"

#define HANDSHAKE_MAX 64
#define READ_SIZE     65536
#define RETRY_MS      50 /* while the socket's queue is full */

static int client_wait(struct client *c, short events, const char *what, struct error *err)
{
    for (;;) {
        int64_t left = c->deadline_ms - clock_mono_ms();
        if (left <= 0)
            return error_set(err, ERROR_TIMEOUT, ETIMEDOUT, "%s", what);
        struct pollfd p = {c->fd, events, 0};
        int n = poll(&p, 1, left > 1000000 ? 1000000 : (int)left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return error_set(err, ERROR_INTERNAL, errno, "poll");
    }
}

static int client_send(struct client *c, const char *data, size_t len, struct error *err)
{
    while (len) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return error_set(err, ERROR_UNAVAILABLE, errno, "send to the guest");
        int r = client_wait(c, POLLOUT, "send to the guest", err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* One recv; 0 at the end. */
static ssize_t client_recv(struct client *c, void *data, size_t size, const char *what,
                           struct error *err)
{
    for (;;) {
        ssize_t n = recv(c->fd, data, size, MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR)
            return error_set(err, ERROR_UNAVAILABLE, errno, "%s", what);
        int r = client_wait(c, POLLIN, what, err);
        if (r < 0)
            return r;
    }
}

/* Byte by byte, because what follows the line belongs to the guest. */
static int client_handshake(struct client *c, uint32_t port, struct error *err)
{
    char line[HANDSHAKE_MAX];
    size_t len = 0;
    int n = snprintf(line, sizeof(line), "CONNECT %u\n", port);
    int r = client_send(c, line, (size_t)n, err);
    if (r < 0)
        return r;
    for (;;) {
        ssize_t got = client_recv(c, line + len, 1, "wait for the hypervisor's OK", err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return error_set(err, ERROR_UNAVAILABLE, 0,
                             "the hypervisor closed the connection: nothing listens on port %u of "
                             "the guest",
                             port);
        if (line[len] == '\n')
            break;
        if (++len == sizeof(line))
            return error_set(err, ERROR_UNAVAILABLE, 0, "the hypervisor's answer is not OK");
    }
    line[len] = 0;
    if (strncmp(line, "OK ", 3) && strcmp(line, "OK"))
        return error_set(err, ERROR_UNAVAILABLE, 0, "the hypervisor answered '%s'", line);
    return 0;
}

static int client_connect(struct client *c, const char *path, struct error *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sa.sun_path))
        return error_set(err, ERROR_INVALID, 0, "'%s': the path is too long for a socket", path);
    strcpy(sa.sun_path, path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return error_set(err, ERROR_INTERNAL, errno, "socket");
    while (connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
        if (errno != EAGAIN)
            return error_set(err, ERROR_UNAVAILABLE, errno, "connect to '%s'", path);
        if (clock_mono_ms() >= c->deadline_ms)
            return error_set(err, ERROR_TIMEOUT, ETIMEDOUT, "connect to '%s'", path);
        poll(NULL, 0, RETRY_MS);
    }
    return 0;
}

int client_open(struct client *c, const char *uds_path, uint32_t port, int64_t timeout_ms,
                struct error *err)
{
    *c = (struct client){.fd = -1, .deadline_ms = clock_mono_ms() + timeout_ms};
    int r;
    if ((r = client_connect(c, uds_path, err)) < 0 || (r = client_handshake(c, port, err)) < 0)
        client_close(c);
    return r;
}

void client_close(struct client *c)
{
    fd_close(&c->fd);
}

int client_call(struct client *c, struct strbuf *request, struct strbuf *response,
                struct error *err)
{
    for (size_t i = 0; i < request->len; i++) {
        if (request->data[i] == '\n' || request->data[i] == '\r')
            request->data[i] = ' ';
    }
    if (strbuf_puts(request, "\n") < 0)
        return error_set(err, ERROR_TOO_LARGE, 0, "the request is too large");
    int r = client_send(c, request->data, request->len, err);
    if (r < 0)
        return r;
    for (;;) {
        if (strbuf_reserve(response, READ_SIZE) < 0)
            return error_set(err, ERROR_TOO_LARGE, 0, "the response is too large");
        char *at = response->data + response->len;
        ssize_t n = client_recv(c, at, READ_SIZE, "wait for the response", err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return error_set(err, ERROR_UNAVAILABLE, 0, "the guest closed without a response");
        char *end = memchr(at, '\n', (size_t)n);
        strbuf_commit(response, end ? (size_t)(end - at) : (size_t)n);
        if (end)
            return 0;
    }
}
