/* SPDX-License-Identifier: Apache-2.0 */
/* What a client and the control plane are told: the two lines of the decision, and the answer of an
 * HTTP proxy. */
#include "gateway/session-internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"

/* How long a refused client gets to read its answer before the stream is closed. */
#define REFUSE_LINGER_MS 5000
#define HTTP_ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"

/* To the control plane: what the client wants, and the line of the decision. The few lines of a
 * connection always fit into the socket; a control plane that is gone ends the session anyway. */
static void report_decision(struct session *s, const char *decision)
{
    char lines[2 * GATEWAY_LINE_MAX];
    int n = snprintf(lines, sizeof(lines), "CONNECT %s %u\n%s",
                     *s->target.host ? s->target.host : "?", s->target.port, decision);
    if (s->report_fd >= 0)
        send(s->report_fd, lines, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int http_status(enum gateway_code code)
{
    switch (code) {
    case GATEWAY_HOST_NOT_ALLOWED:
    case GATEWAY_ADDRESS_NOT_ALLOWED:
        return 403;
    case GATEWAY_TIMEOUT:
        return 504;
    case GATEWAY_BAD_REQUEST:
        return 400;
    default:
        return 502;
    }
}

static const char *http_reason(int status)
{
    switch (status) {
    case 403:
        return "Forbidden";
    case 502:
        return "Bad Gateway";
    case 504:
        return "Gateway Timeout";
    default:
        return "Refused";
    }
}

static void put_http_refusal(struct session *s, int status, const char *code, const char *message)
{
    char body[300], text[600];
    int len = snprintf(body, sizeof(body), "mas-sandbox proxy: %s: %s\n", code, message);
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                     status, http_reason(status), len, body);
    relay_put(&s->down, text, (size_t)n);
}

void session_refuse_as(struct session *s, enum gateway_code code, int status, const char *fmt, ...)
{
    char message[200], line[GATEWAY_LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    log_info("gateway refused sandbox=%s tag=%llu host=%s port=%u code=%s why=\"%s\"", s->label,
             (unsigned long long)s->tag, s->target.host, s->target.port, gateway_code_name(code),
             message);
    session_abandon_lookup(s);
    session_close_remote(s);
    int n = snprintf(line, sizeof(line), "ERR %s %s\n", gateway_code_name(code), message);
    report_decision(s, line);
    if (s->proxy)
        put_http_refusal(s, status ? status : http_status(code), gateway_code_name(code), message);
    else
        relay_put(&s->down, line, (size_t)n);
    s->down.eof = true;
    /* A socket that is closed over unread bytes takes its answer back: what a proxy's client has
     * sent on is read and dropped until it ends. */
    s->up.len = 0;
    s->up.bounded = true;
    s->up.limit = 0;
    s->state = SESSION_REFUSE;
    session_set_timer(s, REFUSE_LINGER_MS);
    session_update_polls(s);
}

void session_answer_connected(struct session *s, const char *ip)
{
    char line[GATEWAY_LINE_MAX];
    int n = snprintf(line, sizeof(line), "OK %s\n", ip);
    report_decision(s, line);
    if (!s->proxy)
        relay_put(&s->down, line, (size_t)n);
    if (s->connect)
        relay_put(&s->down, HTTP_ESTABLISHED, strlen(HTTP_ESTABLISHED));
}

void session_on_refusal_read(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    relay_pump(&s->down, -1, s->client_fd);
    if (s->proxy)
        relay_fill(&s->up, s->client_fd);
    if (relay_finished(&s->down) && (!s->proxy || s->up.eof))
        session_free(s);
    else
        session_update_polls(s);
}
