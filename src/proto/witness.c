/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/witness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

union witness_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t parse_address(const char *text, union witness_address *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(WITNESS_PORT);
        return sizeof(ret->v4);
    }
    if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(WITNESS_PORT);
        return sizeof(ret->v6);
    }
    return 0;
}

/* Landlock refuses a connection with EACCES: that says nothing of the network. */
static enum witness_answer answer_of(int error)
{
    return error == 0 ? WITNESS_REACHED : error == EACCES ? WITNESS_UNKNOWN : WITNESS_CLOSED;
}

/* Whether the socket is ready before the time is over. */
static bool await_socket(int fd, short events, int64_t end_ms)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t left = end_ms - clock_mono_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
}

static enum witness_answer read_greeting(int fd, int64_t end_ms)
{
    char line[sizeof(WITNESS_GREETING) - 1];
    size_t have = 0;
    while (have < sizeof(line)) {
        ssize_t n =
            await_socket(fd, POLLIN, end_ms) ? read(fd, line + have, sizeof(line) - have) : 0;
        if (n <= 0)
            return WITNESS_CLOSED;
        have += (size_t)n;
    }
    return memcmp(line, WITNESS_GREETING, sizeof(line)) == 0 ? WITNESS_REACHED : WITNESS_CLOSED;
}

enum witness_answer witness_try(const char *address, bool greeted, int timeout_ms)
{
    union witness_address a;
    socklen_t size = parse_address(address, &a), error_size = sizeof(int);
    int64_t end_ms = clock_mono_ms() + timeout_ms;
    int error = 0;
    if (!size)
        return WITNESS_UNKNOWN;
    _cleanup_close_ int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return WITNESS_UNKNOWN;
    if (connect(fd, &a.any, size) < 0) {
        if (errno != EINPROGRESS)
            return answer_of(errno);
        if (!await_socket(fd, POLLOUT, end_ms))
            return WITNESS_CLOSED;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) < 0)
            return WITNESS_UNKNOWN;
    }
    return error || !greeted ? answer_of(error) : read_greeting(fd, end_ms);
}
