/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a host that a secret of the sandbox is for, or of which its rules have methods or
 * paths: its interceptor is to read it.
 *
 * All that comes before stays as it is: the name was decided on, resolved and dialled here. Then
 * the connection to the server goes to the interceptor together with one end of a socket pair, and
 * the other end takes its place: bytes, times and limits are counted as before, and the interceptor
 * can reach nothing by itself. */
#include "gateway/session-internal.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "proto/intercept.h"

bool session_is_intercepted(const struct session *s)
{
    return s->tunnel && rule_list_has_host(&s->rules.set->intercepted, &s->target);
}

/* --- what it decides */

static int add_rules(struct intercept_connection *record, const struct session *s,
                     const struct rule_list *rules, const struct address *a, struct strbuf *texts,
                     uint32_t *count)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < rules->n; i++) {
        const struct rule *rule = &rules->rules[i];
        if (!rule_is_about(rule, &s->target, a))
            continue;
        _cleanup_free_ char *text = rule_format(rule);
        r = strbuf_append(texts, text, strlen(text) + 1);
        record->decides = record->decides || rule->http;
        (*count)++;
    }
    return r;
}

/* All that is about the host and the address that was dialled: the interceptor decides by the whole
 * of it, and no more is its business. *ret_file is where rules are that a record has no room for;
 * it stays as it is where there is room. */
static int fill_rules(const struct session *s, struct intercept_connection *record, int *ret_file)
{
    const struct address *a = &s->addresses[s->current];
    _cleanup_strbuf_ struct strbuf texts = STRBUF_INIT(INTERCEPT_RULES_MAX);
    static_assert(sizeof(record->address) >= ADDRESS_TEXT_SIZE, "every address fits");
    address_format(a, record->address);
    int r = add_rules(record, s, &s->rules.set->hosts, NULL, &texts, &record->n_allowed);
    r = r < 0 ? r : add_rules(record, s, &s->rules.set->denied, a, &texts, &record->n_denied);
    if (r >= 0 && !record->decides)
        record->n_allowed = record->n_denied = 0;
    if (r < 0 || !record->decides)
        return r;
    record->rules_len = (uint32_t)texts.len;
    if (texts.len <= sizeof(record->rules)) {
        memcpy(record->rules, texts.data, texts.len);
        return 0;
    }
    int fd = fd_sealed_memory("mas-rules", texts.data, texts.len);
    *ret_file = fd < 0 ? *ret_file : fd;
    return fd < 0 ? fd : 0;
}

static void close_verdict(struct session *s)
{
    session_unwatch(s, &s->verdict);
    fd_close(&s->verdict_fd);
}

/* The interceptor reads what sandboxes and servers send: its words are not passed on unseen. */
static void tell_verdict(struct session *s, struct intercept_verdict *v)
{
    static const struct {
        enum gateway_code code;
        const char *why;
    } refusals[_INTERCEPT_REFUSAL_MAX] = {
        [INTERCEPT_DENIED] = {GATEWAY_HOST_NOT_ALLOWED, "is denied with this method or path"},
        [INTERCEPT_NOT_ALLOWED] = {GATEWAY_HOST_NOT_ALLOWED,
                                   "is not allowed with this method or path"},
        [INTERCEPT_ASKS] = {GATEWAY_ASK, "needs a person's approval: try again when it was given"},
    };
    if (v->version != INTERCEPT_CONNECTION_VERSION || v->refusal >= _INTERCEPT_REFUSAL_MAX ||
        !refusals[v->refusal].why || !memchr(v->rule, 0, sizeof(v->rule)))
        return;
    for (char *c = v->rule; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    session_report_refusal(s, refusals[v->refusal].code, v->rule, refusals[v->refusal].why);
}

static void on_verdict(struct epoll_watch *w, uint32_t ready)
{
    struct session *s = container_of(w, struct session, verdict);
    struct intercept_verdict verdict;
    (void)ready;
    ssize_t n = recv(s->verdict_fd, &verdict, sizeof(verdict), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(verdict))
        tell_verdict(s, &verdict);
    close_verdict(s);
}

/* In a later turn of the loop, in which the connection was answered for. */
static int await_verdict(struct session *s)
{
    epoll_watch_init(&s->verdict, s->verdict_fd, on_verdict);
    return epoll_watch_set(&s->gateway->loop, &s->verdict, EPOLLIN);
}

/* --- handing over */

static int hand_over(struct session *s, int client_end)
{
    struct intercept_connection record = {.version = INTERCEPT_CONNECTION_VERSION,
                                          .port = s->target.port};
    _cleanup_close_ int file = -1;
    int fds[] = {client_end, s->remote_fd, -1, -1};
    int pair[2] = {-1, -1};
    static_assert(sizeof(s->target.host) <= sizeof(record.host), "every name fits");
    memcpy(record.host, s->target.host, sizeof(s->target.host));
    int r = fill_rules(s, &record, &file);
    if (r < 0)
        return r;
    if (record.decides &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    s->verdict_fd = pair[0];
    fds[2] = pair[1];
    fds[3] = file;
    ssize_t n = fd_send_msg(
        s->rules.intercept_fd, &record,
        offsetof(struct intercept_connection, rules) + (file < 0 ? record.rules_len : 0), fds,
        file >= 0        ? 4
        : record.decides ? 3
                         : 2);
    fd_close(&pair[1]);
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
    r = r < 0 ? r : await_verdict(s);
    fd_close(&pair[1]);
    if (r >= 0) {
        session_close_remote(s);
        s->remote_fd = fd_steal(&pair[0]);
        epoll_watch_init(&s->remote, s->remote_fd, session_on_remote);
    }
    fd_close(&pair[0]);
    fd_close(&s->rules.intercept_fd);
    return r;
}
