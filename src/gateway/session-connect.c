/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to one of the addresses that the decision has left, one after another. */
#include "gateway/session-internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

/* 0 while under way, else an errno. */
static int connect_one(struct session *s, const struct address *a)
{
    struct sockaddr_storage sa;
    socklen_t size = address_to_sockaddr(a, s->target.port, &sa);
    s->remote_fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (s->remote_fd < 0)
        return errno;
    if (connect(s->remote_fd, (struct sockaddr *)&sa, size) < 0 && errno != EINPROGRESS)
        return errno;
    epoll_watch_init(&s->remote, s->remote_fd, session_on_connected);
    return 0;
}

/* Loopback and neighbours answer before connect() has returned. */
static bool is_connected(const struct session *s)
{
    struct pollfd p = {.fd = s->remote_fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLHUP));
}

static void refuse_connect(struct session *s, int error)
{
    session_refuse(s, error == ETIMEDOUT ? GATEWAY_TIMEOUT : GATEWAY_CONNECT_FAILED,
                   "%s port %u: %s", s->target.host, s->target.port, strerror(error));
}

/* Starts with addresses[current]. Each address gets its share of the time that is left, so that one
 * that swallows packets does not keep the next from being tried. */
static void connect_current(struct session *s, int error)
{
    for (; s->current < s->n_addresses; s->current++) {
        int64_t left = s->connect_deadline_ms - clock_mono_ms();
        if (left <= 0)
            break;
        error = connect_one(s, &s->addresses[s->current]);
        if (!error && is_connected(s)) {
            session_start_relay(s);
            return;
        }
        if (!error) {
            session_set_timer(s, (uint64_t)left / (s->n_addresses - s->current) + 1);
            session_update_watches(s);
            return;
        }
        session_close_remote(s);
    }
    refuse_connect(s, error);
}

void session_connect_next(struct session *s, int error)
{
    session_close_remote(s);
    s->current++;
    connect_current(s, error);
}

void session_start_connect(struct session *s)
{
    s->state = SESSION_CONNECT;
    s->current = 0;
    s->connect_deadline_ms = clock_mono_ms() + s->gateway->connect_timeout_ms;
    connect_current(s, EHOSTUNREACH);
}

void session_on_connected(struct epoll_watch *remote, uint32_t ready)
{
    struct session *s = container_of(remote, struct session, remote);
    int error = 0;
    (void)ready;
    socklen_t size = sizeof(error);
    if (getsockopt(s->remote_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error)
        session_connect_next(s, error);
    else
        session_start_relay(s);
}
