/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/session-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/client-socket.h"
#include "gateway/proxy-head.h"
#include "gateway/socks.h"

/* How often, and for how long, it is looked whether the side that is left of a cut connection has
 * got what came before. */
#define DRAIN_LOOK_MS 20
#define DRAIN_MAX_MS  5000

void session_unwatch(struct session *s, struct epoll_watch *w)
{
    epoll_watch_set(&s->gateway->loop, w, 0);
    w->fd = -1;
}

void session_close_remote(struct session *s)
{
    session_unwatch(s, &s->remote);
    fd_close(&s->remote_fd);
}

void session_rules_done(struct session_rules *r)
{
    rule_set_unref(steal_ptr(r->set));
    fd_close(&r->intercept_fd);
}

void session_free(struct session *s)
{
    session_abandon_lookup(s);
    session_close_remote(s);
    session_unwatch(s, &s->client);
    client_socket_close(&s->client_fd);
    session_unwatch(s, &s->report);
    fd_close(&s->report_fd);
    epoll_timer_clear(&s->timer);
    session_end_tls(s);
    session_unwatch(s, &s->verdict);
    fd_close(&s->verdict_fd);
    free(s->method);
    free(s->path);
    session_rules_done(&s->rules);
    relay_done(&s->up);
    relay_done(&s->down);
    list_remove(&s->node);
    if (s->state == SESSION_REFUSE)
        s->gateway->n_refusing--;
    else
        s->gateway->n_sessions--;
    free(s);
}

static void tell_end(struct session *s, const char *why)
{
    if (session_may_log(s))
        log_info("gateway closed sandbox=%s tag=%llu host=%s port=%u sent=%llu received=%llu "
                 "duration_ms=%lld reason=%s",
                 s->label, (unsigned long long)s->tag, s->target.host, s->target.port,
                 (unsigned long long)s->up.bytes, (unsigned long long)s->down.bytes,
                 (long long)(clock_mono_ms() - s->started_ms), why);
    session_report_end(s, why);
}

/* Both sides, of which one may be closed already. */
static void session_reset(struct session *s)
{
    session_unwatch(s, &s->remote);
    client_socket_reset(&s->remote_fd);
    session_unwatch(s, &s->client);
    client_socket_reset(&s->client_fd);
    session_free(s);
}

/* What was not said to the end by both sides must not look to either as if it was. */
void session_end_connected(struct session *s, const char *why)
{
    tell_end(s, why);
    if (relay_finished(&s->up) && relay_finished(&s->down)) {
        session_free(s);
        return;
    }
    session_reset(s);
}

void session_set_timer(struct session *s, uint64_t ms)
{
    epoll_timer_set_us(&s->gateway->loop, &s->timer, ms * 1000);
}

/* A reset drops what has not arrived, and there is no event for the moment when all has. */
static void reset_when_drained(struct session *s)
{
    int left_fd = s->client_fd >= 0 ? s->client_fd : s->remote_fd;
    if (!client_socket_is_drained(left_fd) && clock_mono_ms() < s->reset_deadline_ms) {
        session_set_timer(s, DRAIN_LOOK_MS);
        return;
    }
    session_reset(s);
}

static void begin_reset(struct session *s)
{
    s->state = SESSION_RESET;
    s->reset_deadline_ms = clock_mono_ms() + DRAIN_MAX_MS;
    session_update_watches(s);
    reset_when_drained(s);
}

/* The control plane hears its last of it. */
static void end_report(struct session *s, const char *why)
{
    tell_end(s, why);
    session_unwatch(s, &s->report);
    fd_close(&s->report_fd);
}

void session_end_done(struct session *s)
{
    if (!s->proxy || !s->up.sink_gone) {
        session_end_connected(s, "done");
        return;
    }
    end_report(s, "done");
    session_close_remote(s);
    s->up.eof = s->up.shut = false; /* the server has ended, and not the client */
    session_let_read(s);
}

void session_end_cut(struct session *s)
{
    end_report(s, "cut");
    session_close_remote(s);
    begin_reset(s);
}

void session_end_gone(struct session *s)
{
    end_report(s, "gone");
    session_unwatch(s, &s->client);
    client_socket_close(&s->client_fd);
    begin_reset(s);
}

static void on_timeout(struct epoll_timer *timer)
{
    struct session *s = container_of(timer, struct session, timer);
    switch (s->state) {
    case SESSION_REQUEST:
        session_refuse_as(s, GATEWAY_TIMEOUT, 408, "no whole request in time");
        break;
    case SESSION_RESOLVE:
        session_refuse(s, GATEWAY_TIMEOUT, "%s: the name was not resolved in time", s->target.host);
        break;
    case SESSION_CONNECT:
        session_connect_next(s, ETIMEDOUT);
        break;
    case SESSION_RELAY:
        session_end_connected(s, "idle");
        break;
    case SESSION_REFUSE:
        session_free(s);
        break;
    case SESSION_RESET:
        reset_when_drained(s);
        break;
    }
}

/* What cannot be waited for any more is not waited for in vain: the session ends as one that takes
 * too long. */
static void watch_events(struct session *s, struct epoll_watch *w, uint32_t events,
                         void (*on_ready)(struct epoll_watch *w, uint32_t ready))
{
    w->on_ready = on_ready;
    if (epoll_watch_set(&s->gateway->loop, w, events) < 0)
        session_set_timer(s, 0);
}

static void watch(struct session *s, struct epoll_watch *w, bool in, bool out,
                  void (*on_ready)(struct epoll_watch *w, uint32_t ready))
{
    watch_events(s, w, (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0), on_ready);
}

/* A client that sends no more and waits for its answer may go away: EPOLLPRI never comes, but the
 * end of a socket does with any event. */
static void watch_client(struct session *s)
{
    bool waits = s->up.eof && !s->hung_up && !relay_finished(&s->down);
    watch_events(s, &s->client,
                 (relay_wants_read(&s->up) ? EPOLLIN : 0) |
                     (relay_wants_write(&s->down) ? EPOLLOUT : 0) | (waits ? EPOLLPRI : 0),
                 session_on_client);
}

void session_update_watches(struct session *s)
{
    switch (s->state) {
    case SESSION_REQUEST:
        watch(s, &s->client, true, false, s->proxy ? session_on_proxy : session_on_line);
        break;
    case SESSION_RESOLVE:
        watch(s, &s->client, false, false, NULL);
        break;
    case SESSION_RESET:
        watch(s, &s->client, false, false, NULL);
        watch(s, &s->remote, false, false, NULL);
        break;
    case SESSION_CONNECT:
        watch(s, &s->client, false, false, NULL);
        watch(s, &s->remote, false, true, session_on_connected);
        break;
    case SESSION_RELAY:
        watch_client(s);
        watch(s, &s->remote, relay_wants_read(&s->down), relay_wants_write(&s->up) && !s->unnamed,
              session_on_remote);
        break;
    case SESSION_REFUSE:
        /* What the client still sends is read and dropped: a close with bytes unread would be a
         * reset, which takes the refusal away from a client that has not read it yet. */
        watch(s, &s->client, s->proxy && !s->up.eof, !relay_finished(&s->down),
              session_on_refusal_read);
        break;
    }
}

bool session_read_report(struct session *s)
{
    char byte;
    ssize_t n = recv(s->report_fd, &byte, 1, MSG_DONTWAIT);
    s->broke = s->broke || n > 0;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_report(struct epoll_watch *report, uint32_t ready)
{
    struct session *s = container_of(report, struct session, report);
    (void)ready;
    if (!session_read_report(s))
        session_end_connected(s, "revoked");
}

/* A client that is refused before it was read is answered in its own language, if it has begun. */
static void peek_protocol(struct session *s)
{
    uint8_t first;
    s->socks = s->proxy && recv(s->client_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
               first == SOCKS_VERSION;
}

void session_start(struct gateway *g, const struct gateway_request *req,
                   struct session_rules *rules, int stream_fd, int report_fd)
{
    struct session *s = new0(struct session);
    *s = (struct session){.gateway = g,
                          .tag = req->tag,
                          .client_fd = stream_fd,
                          .remote_fd = -1,
                          .verdict_fd = -1,
                          .report_fd = report_fd};
    memcpy(s->label, req->label, sizeof(s->label));
    s->owner = req->owner;
    s->any_host = req->flags & GATEWAY_ANY_HOST;
    s->images = req->flags & GATEWAY_IMAGES;
    s->rules = *rules;
    /* From here on the session owns the rules and both descriptors: every way out is
     * session_free(). */
    *rules = (struct session_rules){.intercept_fd = -1};
    s->proxy = req->flags & GATEWAY_PROXY;
    s->carried = report_fd >= 0 && !(req->flags & GATEWAY_SOCKET);
    s->started_ms = clock_mono_ms();
    relay_init(&s->up);
    relay_init(&s->down);
    s->up.bounded = s->proxy;
    s->up.keeps_end = s->carried;
    /* A client that never ends its head is read no further than this. */
    s->up.limit = PROXY_HEAD_MAX;
    list_append(&g->sessions, &s->node);
    g->n_sessions++;
    epoll_timer_init(&s->timer, on_timeout);
    epoll_watch_init(&s->client, stream_fd, NULL);
    epoll_watch_init(&s->report, report_fd, on_report);
    epoll_watch_init(&s->remote, -1, NULL);
    epoll_watch_init(&s->verdict, -1, NULL);
    if (epoll_watch_set(&g->loop, &s->report, EPOLLIN) < 0) {
        session_end_connected(s, "unusable stream");
        return;
    }
    session_set_timer(s, g->request_timeout_ms);
    const char *why = session_share_refusal(s);
    if (why) {
        peek_protocol(s);
        session_refuse_as(s, GATEWAY_CONNECT_FAILED, 503, "%s", why);
        return;
    }
    /* Most clients have sent their request by now: another turn of the loop would only wait. */
    (s->proxy ? session_on_proxy : session_on_line)(&s->client, EPOLLIN);
}

void session_end_all(struct gateway *g)
{
    list_for_each_safe(s, &g->sessions, struct session, node)
        session_free(s);
}
