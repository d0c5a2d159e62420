/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in both directions, once the connection is there. */
#include "gateway/session-internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/log.h"
#include "gateway/client-hello.h"

/* A client that begins to speak TLS names a server once more. What it sends is held back until that
 * name is there, and cut off where it is another than the tunnel's. False: it was. */
static bool look_at_name(struct session *s)
{
    char name[SERVER_NAME_SIZE];
    const char *why = NULL;
    const uint8_t *data = s->up.len ? (const uint8_t *)s->up.data + s->up.start : NULL;
    bool tls = data && data[0] == CLIENT_HELLO_TLS;
    enum client_hello hello = tls ? client_hello_parse(data, s->up.len, name) : HELLO_NO_NAME;
    if (hello == HELLO_BAD || (hello == HELLO_MORE && s->up.eof))
        why = "a TLS client whose first message cannot be read";
    else if (hello == HELLO_NAME)
        why = session_why_not_name(s, name);
    if (why) {
        session_refuse(s, GATEWAY_NAME_MISMATCH, "%s port %u: %s", s->target.host, s->target.port,
                       why);
        return false;
    }
    s->unnamed = hello == HELLO_MORE || (s->up.len == 0 && !s->up.eof);
    return true;
}

void session_start_relay(struct session *s)
{
    char ip[ADDRESS_TEXT_SIZE];
    int one = 1;
    setsockopt(s->remote_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    address_format(&s->addresses[s->current], ip);
    int r = session_is_intercepted(s) ? session_intercept(s) : 0;
    if (r == 0 && s->tls && (r = session_begin_tls(s)) < 0) {
        session_refuse_as(s, GATEWAY_CONNECT_FAILED, 503, "%s port %u: TLS: %s", s->target.host,
                          s->target.port, strerror(-r));
        return;
    }
    if (r < 0) {
        session_refuse_as(s, GATEWAY_CONNECT_FAILED, 503, "%s port %u: the interceptor: %s",
                          s->target.host, s->target.port, strerror(-r));
        return;
    }
    if (session_may_log(s))
        log_info("gateway connected sandbox=%s tag=%llu host=%s port=%u address=%s", s->label,
                 (unsigned long long)s->tag, s->target.host, s->target.port, ip);
    session_answer_connected(s, ip);
    s->state = SESSION_RELAY;
    s->unnamed = s->proxy && s->tunnel;
    session_set_timer(s, s->gateway->idle_timeout_ms);
    /* What came right behind the request is here already, and no event will tell of it. */
    if (!s->unnamed || s->up.len == 0 || look_at_name(s)) {
        relay_drain(&s->down, s->client_fd);
        session_update_watches(s);
    }
}

/* The thread's socket ends in the same way for every end of the server's. */
static void pass_end_of_tls(struct session *s)
{
    if (!s->tls_link)
        return;
    s->down.cut = s->down.eof && session_tls_was_cut(s);
    relay_pass_end(&s->down, s->client_fd);
}

/* A socket pair ends in the same way for every end of the client's. The control plane says which it
 * was before it closes its end, so that the report is read now, and not when its turn comes. */
static void pass_end_of_client(struct session *s)
{
    if (!s->carried || !s->up.eof || s->up.shut)
        return;
    session_read_report(s);
    if (s->broke) {
        s->up.cut = true;
        relay_lose_sink(&s->down);
    }
    relay_pass_end(&s->up, s->remote_fd);
}

/* Moves what can be moved in the directions for which there was an event. */
static void session_relay(struct session *s, bool up, bool down)
{
    if (up && s->unnamed) {
        relay_fill(&s->up, s->client_fd);
        if (!look_at_name(s))
            return;
    }
    if (up && !s->unnamed)
        relay_pump(&s->up, s->client_fd, s->remote_fd);
    if (!s->unnamed)
        pass_end_of_client(s);
    if (s->up.sink_broke && !s->down.eof)
        s->down.cut = true;
    if (down)
        relay_pump(&s->down, s->remote_fd, s->client_fd);
    /* The error of a client that has gone was given out to the answer: what it had sent goes on to
     * the server, but the end behind that is no ordinary one. */
    if (s->down.sink_gone && !s->up.shut)
        s->up.cut = true;
    pass_end_of_tls(s);
    session_set_timer(s, s->gateway->idle_timeout_ms);
    if (s->down.cut && relay_finished(&s->down))
        session_end_cut(s);
    else if (s->down.sink_gone && relay_finished(&s->up))
        session_end_gone(s);
    else if (s->up.cut && !s->down.sink_gone)
        session_end_connected(s, "reset");
    else if (relay_finished(&s->up) && relay_finished(&s->down))
        session_end_done(s);
    else
        session_update_watches(s);
}

/* What is broken is found out by both directions. */
#define RELAY_BROKEN (EPOLLERR | EPOLLHUP)

void session_on_client(struct epoll_watch *client, uint32_t ready)
{
    struct session *s = container_of(client, struct session, client);
    /* One that has sent its end is not read any more, and neither is its error. A hang-up alone
     * is an ordinary end of a Unix socket, whose server may still take what was sent. */
    if (ready & EPOLLERR && s->up.eof)
        relay_lose_sink(&s->down);
    s->hung_up = s->hung_up || ready & EPOLLHUP;
    session_relay(s, ready & (EPOLLIN | RELAY_BROKEN), ready & (EPOLLOUT | RELAY_BROKEN));
}

void session_on_remote(struct epoll_watch *remote, uint32_t ready)
{
    session_relay(container_of(remote, struct session, remote), ready & (EPOLLOUT | RELAY_BROKEN),
                  ready & (EPOLLIN | RELAY_BROKEN));
}
