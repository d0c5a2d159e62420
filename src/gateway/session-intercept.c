/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a host that a secret of the sandbox is for, and that its interceptor is to read.
 *
 * All that comes before stays as it is: the name was decided on, resolved and dialled here. Then
 * the connection to the server goes to the interceptor together with one end of a socket pair, and
 * the other end takes its place: bytes, times and limits are counted as before, and the interceptor
 * can reach nothing by itself. */
#include "gateway/session-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "proto/intercept.h"

bool session_is_intercepted(const struct session *s)
{
    return s->tunnel && rule_list_has_host(&s->rules.intercepted, &s->target);
}

static int hand_over(struct session *s, int client_end)
{
    struct intercept_connection record = {.version = INTERCEPT_VERSION, .port = s->target.port};
    const int fds[] = {client_end, s->remote_fd};
    static_assert(sizeof(s->target.host) <= sizeof(record.host), "every name fits");
    memcpy(record.host, s->target.host, sizeof(s->target.host));
    ssize_t n = fd_send_msg(s->rules.intercept_fd, &record, sizeof(record), fds, 2);
    return n < 0 ? (int)n : 0;
}

int session_intercept(struct session *s)
{
    int pair[2];
    if (s->rules.intercept_fd < 0)
        return -ENOTCONN;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    int r = hand_over(s, pair[1]);
    fd_close(&pair[1]);
    if (r >= 0) {
        session_close_remote(s);
        s->remote_fd = fd_steal(&pair[0]);
        r = session_watch(s, s->remote_fd, &s->remote_poll);
    }
    fd_close(&pair[0]);
    fd_close(&s->rules.intercept_fd);
    return r;
}
