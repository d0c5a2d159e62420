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

/* How often, and for how long, it is looked whether the client of a cut connection has got what
 * came before. */
#define DRAIN_LOOK_MS 20
#define DRAIN_MAX_MS  5000

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_handle(void *handle)
{
    if (handle)
        uv_close(handle, on_handle_closed);
}

void session_close_remote(struct session *s)
{
    close_handle(steal_ptr(s->remote_poll));
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
    close_handle(steal_ptr(s->client_poll));
    client_socket_close(&s->client_fd);
    close_handle(steal_ptr(s->report_poll));
    fd_close(&s->report_fd);
    close_handle(steal_ptr(s->timer));
    session_end_tls(s);
    close_handle(steal_ptr(s->verdict_poll));
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

static void session_reset_client(struct session *s)
{
    close_handle(steal_ptr(s->client_poll));
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
    close_handle(steal_ptr(s->remote_poll));
    client_socket_reset(&s->remote_fd);
    session_reset_client(s);
}

static void on_timeout(uv_timer_t *timer);

void session_set_timer(struct session *s, uint64_t ms)
{
    uv_timer_start(s->timer, on_timeout, ms, 0);
}

/* A reset drops what has not arrived, and there is no event for the moment when all has. */
static void reset_when_drained(struct session *s)
{
    if (!client_socket_is_drained(s->client_fd) && clock_mono_ms() < s->reset_deadline_ms) {
        session_set_timer(s, DRAIN_LOOK_MS);
        return;
    }
    session_reset_client(s);
}

void session_end_cut(struct session *s)
{
    tell_end(s, "cut");
    close_handle(steal_ptr(s->report_poll)); /* the control plane has heard its last */
    fd_close(&s->report_fd);
    session_close_remote(s);
    s->state = SESSION_RESET;
    s->reset_deadline_ms = clock_mono_ms() + DRAIN_MAX_MS;
    session_update_polls(s);
    reset_when_drained(s);
}

static void on_timeout(uv_timer_t *timer)
{
    struct session *s = timer->data;
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

int session_watch(struct session *s, int fd, uv_poll_t **ret)
{
    uv_poll_t *poll = new0(uv_poll_t);
    int r = uv_poll_init(&s->gateway->loop, poll, fd);
    if (r < 0) {
        free(poll);
        return r;
    }
    poll->data = s;
    *ret = poll;
    return 0;
}

static void watch(uv_poll_t *poll, bool in, bool out, uv_poll_cb cb)
{
    int events = (in ? UV_READABLE : 0) | (out ? UV_WRITABLE : 0);
    if (!poll)
        return;
    if (events)
        uv_poll_start(poll, events, cb);
    else
        uv_poll_stop(poll);
}

void session_update_polls(struct session *s)
{
    switch (s->state) {
    case SESSION_REQUEST:
        watch(s->client_poll, true, false, s->proxy ? session_on_proxy : session_on_line);
        break;
    case SESSION_RESOLVE:
    case SESSION_RESET:
        watch(s->client_poll, false, false, NULL);
        break;
    case SESSION_CONNECT:
        watch(s->client_poll, false, false, NULL);
        watch(s->remote_poll, false, true, session_on_connected);
        break;
    case SESSION_RELAY:
        watch(s->client_poll, relay_wants_read(&s->up), relay_wants_write(&s->down),
              session_on_relay);
        watch(s->remote_poll, relay_wants_read(&s->down), relay_wants_write(&s->up) && !s->unnamed,
              session_on_relay);
        break;
    case SESSION_REFUSE:
        watch(s->client_poll, s->proxy, !relay_finished(&s->down), session_on_refusal_read);
        break;
    }
}

/* The control plane never writes to a report: that it can be read means that its end is closed. */
static void on_revoked(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    session_end_connected(poll->data, "revoked");
}

/* A client that is refused before it was read is answered in its own language, if it has begun. */
static void peek_protocol(struct session *s)
{
    uint8_t first;
    s->socks = s->proxy && recv(s->client_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
               first == SOCKS_VERSION;
}

static int watch_client(struct session *s)
{
    int r = fd_set_nonblock(s->client_fd, true); /* which libuv wants; nothing relies on it */
    r = r < 0 ? r : session_watch(s, s->client_fd, &s->client_poll);
    if (r < 0 || s->report_fd < 0)
        return r;
    r = session_watch(s, s->report_fd, &s->report_poll);
    watch(s->report_poll, true, false, on_revoked);
    return r;
}

void session_start(struct gateway *g, const struct gateway_request *req,
                   struct session_rules *rules, int stream_fd, int report_fd)
{
    struct session *s = new0(struct session);
    char first;
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
    *rules = (struct session_rules){.intercept_fd = -1};
    s->proxy = req->flags & GATEWAY_PROXY;
    s->started_ms = clock_mono_ms();
    relay_init(&s->up);
    relay_init(&s->down);
    s->up.bounded = s->proxy;
    s->up.limit = PROXY_HEAD_MAX;
    list_append(&g->sessions, &s->node);
    g->n_sessions++;
    s->timer = new0(uv_timer_t);
    uv_timer_init(&g->loop, s->timer);
    s->timer->data = s;
    if (watch_client(s) < 0) {
        session_end_connected(s, "unusable stream");
        return;
    }
    session_set_timer(s, g->request_timeout_ms);
    session_update_polls(s);
    const char *why = session_share_refusal(s);
    if (why) {
        peek_protocol(s);
        session_refuse_as(s, GATEWAY_CONNECT_FAILED, 503, "%s", why);
        return;
    }
    /* Most clients have sent their request by now: another turn of the loop would only wait. */
    if (recv(s->client_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
        (s->proxy ? session_on_proxy : session_on_line)(s->client_poll, 0, UV_READABLE);
}

void session_end_all(struct gateway *g)
{
    list_for_each_safe(s, &g->sessions, struct session, node)
        session_free(s);
}
