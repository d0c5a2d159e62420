/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in both directions, once the connection is there. */
#include "gateway/session-internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/log.h"

void session_start_relay(struct session *s)
{
    char ip[ADDRESS_TEXT_SIZE];
    int one = 1;
    setsockopt(s->remote_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    address_format(&s->addresses[s->current], ip);
    log_info("gateway connected sandbox=%s tag=%llu host=%s port=%u address=%s", s->label,
             (unsigned long long)s->tag, s->target.host, s->target.port, ip);
    session_answer_connected(s, ip);
    s->state = SESSION_RELAY;
    session_set_timer(s, s->gateway->idle_timeout_ms);
    session_update_polls(s);
}

void session_on_relay(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    relay_pump(&s->up, s->client_fd, s->remote_fd);
    relay_pump(&s->down, s->remote_fd, s->client_fd);
    session_set_timer(s, s->gateway->idle_timeout_ms);
    if (relay_finished(&s->up) && relay_finished(&s->down))
        session_end_connected(s, "done");
    else
        session_update_polls(s);
}
