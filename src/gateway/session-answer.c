/* SPDX-License-Identifier: Apache-2.0 */
/* What a client and the control plane are told: the two lines of the decision, and the answer of a
 * proxy in its client's language. */
#include "gateway/session-internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/socks.h"

/* How long a refused client gets to read its answer before the stream is closed. */
#define REFUSE_LINGER_MS 5000
/* Clients that get it; with more, the answer is sent and the stream closed, read or not. */
#define REFUSING_MAX 64
/* A fatal alert of TLS: what a client of a tunnel that is cut because of its name understands. */
#define ALERT_UNRECOGNIZED_NAME "\x15\x03\x01\x00\x02\x02\x70"
#define HTTP_ESTABLISHED        "HTTP/1.1 200 Connection established\r\n\r\n"

/* To the control plane: what the client wants, and the line of the decision. The few lines of a
 * connection always fit into the socket; a control plane that is gone ends the session anyway. */
static void report_decision(struct session *s, const char *decision)
{
    char lines[3 * GATEWAY_LINE_MAX];
    int n = s->state == SESSION_RELAY
                ? snprintf(lines, sizeof(lines), "%s", decision)
                : snprintf(lines, sizeof(lines), "CONNECT %s %u\n%s%s%s%s",
                           *s->target.host ? s->target.host : "?", s->target.port,
                           *s->rule ? "RULE " : "", s->rule, *s->rule ? "\n" : "", decision);
    if (s->report_fd >= 0)
        send(s->report_fd, lines, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int http_status(enum gateway_code code)
{
    switch (code) {
    case GATEWAY_HOST_NOT_ALLOWED:
    case GATEWAY_ADDRESS_NOT_ALLOWED:
    case GATEWAY_ASK:
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

static enum socks_reply socks_code(const struct session *s, enum gateway_code code)
{
    switch (code) {
    case GATEWAY_HOST_NOT_ALLOWED:
    case GATEWAY_ADDRESS_NOT_ALLOWED:
    case GATEWAY_ASK:
        return SOCKS_NOT_ALLOWED;
    case GATEWAY_RESOLVE_FAILED:
        return SOCKS_HOST_UNREACHABLE;
    case GATEWAY_CONNECT_FAILED:
        return SOCKS_REFUSED;
    case GATEWAY_TIMEOUT:
        return SOCKS_TIMED_OUT;
    default:
        return s->socks_reply ? (enum socks_reply)s->socks_reply : SOCKS_FAILED;
    }
}

/* SOCKS has a number and no words: why is in the gateway's log and in the report. */
static void put_socks_reply(struct session *s, enum socks_reply code)
{
    uint8_t reply[SOCKS_REPLY_SIZE];
    socks_format_reply(code, reply);
    relay_put(&s->down, reply, sizeof(reply));
}

void session_answer_greeting(struct session *s, uint8_t method)
{
    const uint8_t answer[] = {SOCKS_VERSION, method};
    s->greeted = true;
    send(s->client_fd, answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void put_refusal(struct session *s, enum gateway_code code, int status, const char *message)
{
    const char *name = gateway_code_name(code);
    if (s->state == SESSION_RELAY)
        relay_put(&s->down, ALERT_UNRECOGNIZED_NAME, sizeof(ALERT_UNRECOGNIZED_NAME) - 1);
    else if (s->socks && !s->greeted)
        session_answer_greeting(s, SOCKS_NO_METHOD);
    else if (s->socks)
        put_socks_reply(s, status == 503 ? SOCKS_FAILED : socks_code(s, code));
    else
        put_http_refusal(s, status ? status : http_status(code), name, message);
}

/* A socket that is closed over unread bytes takes its answer back: what a proxy's client has sent
 * on is read and dropped until it ends. */
void session_let_read(struct session *s)
{
    s->up.len = 0;
    s->up.bounded = true;
    s->up.limit = 0;
    s->state = SESSION_REFUSE;
    s->gateway->n_sessions--;
    s->gateway->n_refusing++;
    relay_pump(&s->down, -1, s->client_fd);
    /* The caller still has the session, so it ends in a later turn of the loop in any case. */
    bool at_once = s->gateway->n_refusing > REFUSING_MAX || (relay_finished(&s->down) && !s->proxy);
    session_set_timer(s, at_once ? 0 : REFUSE_LINGER_MS);
    session_update_watches(s);
}

void session_refuse_as(struct session *s, enum gateway_code code, int status, const char *fmt, ...)
{
    char message[200], line[GATEWAY_LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    if (session_may_log(s))
        log_info("gateway refused sandbox=%s tag=%llu host=%s port=%u code=%s why=\"%s\"", s->label,
                 (unsigned long long)s->tag, s->target.host, s->target.port,
                 gateway_code_name(code), message);
    session_abandon_lookup(s);
    session_close_remote(s);
    int n = snprintf(line, sizeof(line), "ERR %s %s\n", gateway_code_name(code), message);
    report_decision(s, line);
    if (s->proxy)
        put_refusal(s, code, status, message);
    else
        relay_put(&s->down, line, (size_t)n);
    s->down.eof = true;
    session_let_read(s);
}

void session_answer_connected(struct session *s, const char *ip)
{
    char line[GATEWAY_LINE_MAX];
    int n = snprintf(line, sizeof(line), "OK %s\n", ip);
    report_decision(s, line);
    if (!s->proxy)
        relay_put(&s->down, line, (size_t)n);
    if (s->tunnel && s->socks)
        put_socks_reply(s, SOCKS_OK);
    else if (s->tunnel)
        relay_put(&s->down, HTTP_ESTABLISHED, strlen(HTTP_ESTABLISHED));
}

void session_on_refusal_read(struct epoll_watch *client, uint32_t ready)
{
    struct session *s = container_of(client, struct session, client);
    (void)ready;
    relay_pump(&s->down, -1, s->client_fd);
    if (s->proxy)
        relay_fill(&s->up, s->client_fd);
    if (relay_finished(&s->down) && (!s->proxy || s->up.eof))
        session_free(s);
    else
        session_update_watches(s);
}

void session_report_refusal(struct session *s, enum gateway_code code, const char *rule,
                            const char *why)
{
    char lines[2 * GATEWAY_LINE_MAX];
    /* An empty name takes the place of the rule that had allowed the connection, too. */
    int n =
        snprintf(lines, sizeof(lines), "RULE %.*s\nERR %s %s port %u %s\n", GATEWAY_RULE_SIZE - 1,
                 rule, gateway_code_name(code), s->target.host, s->target.port, why);
    if (session_may_log(s))
        log_info("gateway refused sandbox=%s tag=%llu host=%s port=%u code=%s why=\"%s\"", s->label,
                 (unsigned long long)s->tag, s->target.host, s->target.port,
                 gateway_code_name(code), why);
    if (s->report_fd >= 0)
        send(s->report_fd, lines, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void session_report_end(struct session *s, const char *why)
{
    char line[GATEWAY_LINE_MAX];
    int n = snprintf(line, sizeof(line), "END %llu %llu %lld %s\n", (unsigned long long)s->up.bytes,
                     (unsigned long long)s->down.bytes,
                     (long long)(clock_mono_ms() - s->started_ms), why);
    if (s->report_fd >= 0)
        send(s->report_fd, line, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}
