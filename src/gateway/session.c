/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/session.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "gateway/proxy-head.h"
#include "gateway/relay.h"
#include "base/target.h"

/* How long a refused client gets to read its answer before the stream is closed. */
#define REFUSE_LINGER_MS 5000
#define HTTP_ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"
/* Addresses of one name that are tried, one after another. */
#define ADDRESSES_MAX 4
/* Lookups of one label that the resolver has at a time. libuv gives lookups half of its threads, in
 * the order of asking, so that a label with many slow names would otherwise hold them all. */
#define LOOKUPS_PER_LABEL 2

enum session_state {
    SESSION_REQUEST, /* waits for the whole CONNECT line, which collects in up */
    SESSION_RESOLVE, /* the name is with the resolver, or waits for that; nothing is read */
    SESSION_CONNECT, /* a connect to addresses[current] is under way */
    SESSION_RELAY,
    SESSION_REFUSE, /* the answer is in down; waits for it to be read */
};

struct session {
    struct list node;
    struct gateway *gateway;
    enum session_state state;
    uint64_t tag;
    char label[GATEWAY_LABEL_SIZE];
    struct rule_list hosts, denied;
    bool any_host;
    bool http;    /* the client speaks HTTP */
    bool connect; /* and has asked for a tunnel */
    struct target target;
    struct address addresses[ADDRESSES_MAX];
    size_t n_addresses, current;
    int client_fd, remote_fd;
    uv_poll_t *client_poll, *remote_poll; /* freed by their close callbacks */
    uv_timer_t *timer;
    struct lookup *lookup; /* NULL while it waits for its label's turn */
    struct relay up, down; /* client to remote, remote to client */
    int64_t started_ms, connect_deadline_ms;
};

/* A name in the resolver; outlives a session that does not wait for it. */
struct lookup {
    uv_getaddrinfo_t req;
    struct list node;
    struct session *session; /* or NULL */
    char label[GATEWAY_LABEL_SIZE];
};

static void update_polls(struct session *s);
static void try_next(struct session *s, int error);

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_handle(void *handle)
{
    if (handle)
        uv_close(handle, on_handle_closed);
}

static void close_remote(struct session *s)
{
    close_handle(steal_ptr(s->remote_poll));
    fd_close(&s->remote_fd);
}

/* A lookup cannot be taken back once a thread has it: it is left to end alone (on_resolved). */
static void abandon_lookup(struct session *s)
{
    if (!s->lookup)
        return;
    s->lookup->session = NULL;
    uv_cancel((uv_req_t *)&s->lookup->req);
    s->lookup = NULL;
}

static void session_free(struct session *s)
{
    abandon_lookup(s);
    close_remote(s);
    close_handle(steal_ptr(s->client_poll));
    fd_close(&s->client_fd);
    close_handle(steal_ptr(s->timer));
    rule_list_done(&s->hosts);
    rule_list_done(&s->denied);
    relay_done(&s->up);
    relay_done(&s->down);
    list_remove(&s->node);
    s->gateway->n_sessions--;
    free(s);
}

static void session_end(struct session *s, const char *why)
{
    log_info("gateway closed sandbox=%s tag=%llu host=%s port=%u sent=%llu received=%llu "
             "duration_ms=%lld reason=%s",
             s->label, (unsigned long long)s->tag, s->target.host, s->target.port,
             (unsigned long long)s->up.bytes, (unsigned long long)s->down.bytes,
             (long long)(clock_mono_ms() - s->started_ms), why);
    session_free(s);
}

static void on_timeout(uv_timer_t *timer);

static void set_timer(struct session *s, uint64_t ms)
{
    uv_timer_start(s->timer, on_timeout, ms, 0);
}

/* What the control plane learns of an HTTP client's target; the decision's own line follows. */
static void put_target_line(struct session *s)
{
    char line[GATEWAY_LINE_MAX];
    int n = snprintf(line, sizeof(line), "CONNECT %s %u\n", *s->target.host ? s->target.host : "?",
                     s->target.port);
    relay_put(&s->down, line, (size_t)n);
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

/* status: of the answer to an HTTP client; 0: what the code means. */
static void __attribute__((format(printf, 4, 5)))
refuse_as(struct session *s, enum gateway_code code, int status, const char *fmt, ...)
{
    char message[200], line[GATEWAY_LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    log_info("gateway refused sandbox=%s tag=%llu host=%s port=%u code=%s why=\"%s\"", s->label,
             (unsigned long long)s->tag, s->target.host, s->target.port, gateway_code_name(code),
             message);
    abandon_lookup(s);
    close_remote(s);
    int n = snprintf(line, sizeof(line), "ERR %s %s\n", gateway_code_name(code), message);
    if (s->http)
        put_target_line(s);
    relay_put(&s->down, line, (size_t)n);
    if (s->http)
        put_http_refusal(s, status ? status : http_status(code), gateway_code_name(code), message);
    s->down.eof = true;
    /* A socket that is closed over unread bytes takes its answer back: what an HTTP client has sent
     * on is read and dropped until it ends. */
    s->up.len = 0;
    s->up.bounded = true;
    s->up.limit = 0;
    s->state = SESSION_REFUSE;
    set_timer(s, REFUSE_LINGER_MS);
    update_polls(s);
}

#define refuse(s, code, ...) refuse_as(s, code, 0, __VA_ARGS__)

static void on_timeout(uv_timer_t *timer)
{
    struct session *s = timer->data;
    switch (s->state) {
    case SESSION_REQUEST:
        refuse_as(s, GATEWAY_TIMEOUT, 408, "no whole request in time");
        break;
    case SESSION_RESOLVE:
        refuse(s, GATEWAY_TIMEOUT, "%s: the name was not resolved in time", s->target.host);
        break;
    case SESSION_CONNECT:
        try_next(s, ETIMEDOUT);
        break;
    case SESSION_RELAY:
        session_end(s, "idle");
        break;
    case SESSION_REFUSE:
        session_free(s);
        break;
    }
}

static void start_relay(struct session *s)
{
    char ip[ADDRESS_TEXT_SIZE], line[GATEWAY_LINE_MAX];
    int one = 1;
    setsockopt(s->remote_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    address_format(&s->addresses[s->current], ip);
    log_info("gateway connected sandbox=%s tag=%llu host=%s port=%u address=%s", s->label,
             (unsigned long long)s->tag, s->target.host, s->target.port, ip);
    int n = snprintf(line, sizeof(line), "OK %s\n", ip);
    if (s->http)
        put_target_line(s);
    relay_put(&s->down, line, (size_t)n);
    if (s->connect)
        relay_put(&s->down, HTTP_ESTABLISHED, strlen(HTTP_ESTABLISHED));
    s->state = SESSION_RELAY;
    set_timer(s, s->gateway->idle_timeout_ms);
    update_polls(s);
}

static void on_connected(struct session *s)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(s->remote_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error)
        try_next(s, error);
    else
        start_relay(s);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    if (s->state == SESSION_CONNECT && poll == s->remote_poll) {
        on_connected(s);
        return;
    }
    if (s->state == SESSION_RELAY) {
        relay_pump(&s->up, s->client_fd, s->remote_fd);
        relay_pump(&s->down, s->remote_fd, s->client_fd);
        set_timer(s, s->gateway->idle_timeout_ms);
        if (relay_finished(&s->up) && relay_finished(&s->down)) {
            session_end(s, "done");
            return;
        }
    }
    update_polls(s);
}

static int start_poll(struct session *s, int fd, uv_poll_t **ret)
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
    int r = start_poll(s, s->remote_fd, &s->remote_poll);
    return r < 0 ? -r : 0;
}

static void refuse_connect(struct session *s, int error)
{
    refuse(s, error == ETIMEDOUT ? GATEWAY_TIMEOUT : GATEWAY_CONNECT_FAILED, "%s port %u: %s",
           s->target.host, s->target.port, strerror(error));
}

/* Starts with addresses[current]. Each address gets its share of the time that is left, so that one
 * that swallows packets does not keep the next from being tried. */
static void connect_next(struct session *s, int error)
{
    for (; s->current < s->n_addresses; s->current++) {
        int64_t left = s->connect_deadline_ms - clock_mono_ms();
        if (left <= 0)
            break;
        error = connect_one(s, &s->addresses[s->current]);
        if (!error) {
            set_timer(s, (uint64_t)left / (s->n_addresses - s->current) + 1);
            update_polls(s);
            return;
        }
        close_remote(s);
    }
    refuse_connect(s, error);
}

static void try_next(struct session *s, int error)
{
    close_remote(s);
    s->current++;
    connect_next(s, error);
}

static void start_connect(struct session *s)
{
    s->state = SESSION_CONNECT;
    s->current = 0;
    s->connect_deadline_ms = clock_mono_ms() + s->gateway->connect_timeout_ms;
    connect_next(s, EHOSTUNREACH);
}

/* Whether an address is this host's own, which a socket can then be bound to; nothing is sent.
 * Where that cannot be found out, and where the host lets sockets have any address
 * (net.ipv4.ip_nonlocal_bind), it is taken for one. */
static bool is_own_address(const struct address *a)
{
    struct sockaddr_storage sa;
    socklen_t size = address_to_sockaddr(a, 0, &sa);
    _cleanup_close_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    return bind(fd, (struct sockaddr *)&sa, size) == 0 || errno != EADDRNOTAVAIL;
}

static bool is_open_address(const struct session *s, const struct address *a)
{
    const struct gateway *g = s->gateway;
    return !rule_list_has_address(&g->deny_hosts, &s->target, a) &&
           !rule_list_has_address(&s->denied, &s->target, a) &&
           rule_check_address(&g->private_hosts, &s->target, a) == GATEWAY_OK &&
           (address_classify(a) != ADDRESS_PUBLIC || !is_own_address(a) ||
            rule_list_has_address(&g->private_hosts, &s->target, a));
}

/* A translator on the way would lead an IPv6 address that carries an IPv4 address there: both have
 * to be open. */
static bool may_connect(const struct session *s, const struct address *a)
{
    struct address carried;
    return is_open_address(s, a) && (!address_carried(a, &carried) || is_open_address(s, &carried));
}

static void refuse_address(struct session *s, enum address_class class)
{
    if (class == ADDRESS_PUBLIC)
        refuse(s, GATEWAY_ADDRESS_NOT_ALLOWED,
               "%s has an address that is denied or this host's own", s->target.host);
    else
        refuse(s, GATEWAY_ADDRESS_NOT_ALLOWED, "%s is a %s address", s->target.host,
               address_class_name(class));
}

/* Keeps the addresses that may be connected to; these and no others are used from here on. */
static void choose_addresses(struct session *s, const struct addrinfo *list)
{
    enum address_class class = _ADDRESS_CLASS_MAX;
    for (const struct addrinfo *ai = list; ai && s->n_addresses < ADDRESSES_MAX; ai = ai->ai_next) {
        struct address *a = &s->addresses[s->n_addresses];
        if (address_from_sockaddr(ai->ai_addr, a) < 0)
            continue;
        if (may_connect(s, a))
            s->n_addresses++;
        else
            class = address_classify(a);
    }
    if (s->n_addresses)
        start_connect(s);
    else if (class != _ADDRESS_CLASS_MAX)
        refuse_address(s, class);
    else
        refuse(s, GATEWAY_RESOLVE_FAILED, "%s: no address", s->target.host);
}

/* Those of one label, or with NULL all of them. */
static size_t count_lookups(const struct gateway *g, const char *label)
{
    size_t n = 0;
    list_for_each(l, &g->lookups, struct lookup, node) n += !label || strcmp(l->label, label) == 0;
    return n;
}

static void start_lookup(struct session *s);

/* A thread of the label's share is free: the one of its sessions that waits longest has it. */
static void start_waiting(struct gateway *g, const char *label)
{
    list_for_each(s, &g->sessions, struct session, node)
    {
        if (s->state != SESSION_RESOLVE || s->lookup || strcmp(s->label, label) != 0)
            continue;
        start_lookup(s);
        return;
    }
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct lookup *l = container_of(req, struct lookup, req);
    struct gateway *g = container_of(req->loop, struct gateway, loop);
    struct session *s = l->session;
    char label[GATEWAY_LABEL_SIZE];
    memcpy(label, l->label, sizeof(label));
    list_remove(&l->node);
    free(l);
    if (s) {
        s->lookup = NULL;
        if (status == 0)
            choose_addresses(s, list);
        else
            refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host, uv_strerror(status));
    }
    uv_freeaddrinfo(list);
    start_waiting(g, label);
}

static void start_lookup(struct session *s)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct gateway *g = s->gateway;
    struct lookup *l = new0(struct lookup);
    int r = uv_getaddrinfo(&g->loop, &l->req, on_resolved, s->target.host, NULL, &hints);
    if (r < 0) {
        free(l);
        refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host, uv_strerror(r));
        return;
    }
    l->session = s;
    memcpy(l->label, s->label, sizeof(l->label));
    list_append(&g->lookups, &l->node);
    s->lookup = l;
}

static void start_resolve(struct session *s)
{
    s->state = SESSION_RESOLVE;
    set_timer(s, s->gateway->resolve_timeout_ms);
    if (count_lookups(s->gateway, NULL) >= s->gateway->max_sessions)
        refuse(s, GATEWAY_RESOLVE_FAILED, "%s: the resolver is busy", s->target.host);
    else if (count_lookups(s->gateway, s->label) < LOOKUPS_PER_LABEL)
        start_lookup(s);
    update_polls(s);
}

/* Why the client may not ask for its target, or NULL. */
static const char *why_not(const struct session *s)
{
    const struct gateway *g = s->gateway;
    if (rule_list_has_host(&s->denied, &s->target))
        return "is denied in this sandbox";
    if (rule_check_host(&s->hosts, s->any_host, &s->target) != GATEWAY_OK)
        return "is not an allowed host";
    if (rule_check_host(&g->allow_hosts, g->allow_hosts.n == 0, &s->target) != GATEWAY_OK ||
        rule_list_has_host(&g->deny_hosts, &s->target))
        return "is not an allowed host of this daemon";
    return NULL;
}

static void on_target(struct session *s)
{
    const struct address *a = &s->target.address;
    const char *why = why_not(s);
    if (why)
        refuse(s, GATEWAY_HOST_NOT_ALLOWED, "%s port %u %s", s->target.host, s->target.port, why);
    else if (!s->target.is_address)
        start_resolve(s);
    else if (!may_connect(s, a))
        refuse_address(s, address_classify(a));
    else {
        s->addresses[s->n_addresses++] = *a;
        start_connect(s);
    }
}

/* The line collects at the start of the upward buffer; what follows it is the first of the data. */
static void on_request(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    relay_fill(&s->up, s->client_fd);
    char *line = s->up.data + s->up.start;
    char *end = memchr(line, '\n', s->up.len);
    size_t len = end ? (size_t)(end - line) : s->up.len;
    if (!end && s->up.eof) {
        session_free(s);
        return;
    }
    if (!end && len < GATEWAY_LINE_MAX)
        return;
    struct target target;
    if (!end || len >= GATEWAY_LINE_MAX || gateway_parse_connect(line, len, &target) < 0) {
        refuse(s, GATEWAY_BAD_REQUEST, "expected: CONNECT host port");
        return;
    }
    s->target = target;
    s->up.start += len + 1;
    s->up.len -= len + 1;
    on_target(s);
}

/* What goes to the server takes the place of what the client wrote. */
static void replace_head(struct session *s, const struct proxy_head *h, size_t head_len,
                         struct strbuf *out)
{
    size_t body = s->up.len - head_len;
    if (body > h->body_bytes)
        body = (size_t)h->body_bytes;
    strbuf_append(out, s->up.data + s->up.start + head_len, body);
    s->up.start = s->up.len = 0;
    relay_put(&s->up, out->data, out->len);
    s->up.limit = h->body_bytes - body;
}

static void on_http_head(struct session *s, size_t len)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(RELAY_BUFFER);
    struct proxy_head head;
    const char *why;
    int status = proxy_head_parse(s->up.data + s->up.start, len, &head, &out, &why);
    s->target = head.target;
    if (status) {
        refuse_as(s, status == 403 ? GATEWAY_HOST_NOT_ALLOWED : GATEWAY_BAD_REQUEST, status, "%s",
                  why);
        return;
    }
    s->connect = head.connect;
    if (head.connect) {
        s->up.start += len;
        s->up.len -= len;
        s->up.bounded = false;
    } else {
        replace_head(s, &head, len, &out);
    }
    on_target(s);
}

/* The head collects at the start of the upward buffer, as a CONNECT line does. */
static void on_http_request(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    relay_fill(&s->up, s->client_fd);
    size_t len = proxy_head_length(s->up.data + s->up.start, s->up.len);
    if (len)
        on_http_head(s, len);
    else if (s->up.eof)
        session_free(s);
    else if (s->up.limit == 0)
        refuse_as(s, GATEWAY_BAD_REQUEST, 431, "the head of a request has at most %d bytes",
                  PROXY_HEAD_MAX);
}

static void on_refusal_read(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    (void)status;
    (void)events;
    relay_pump(&s->down, -1, s->client_fd);
    if (s->http)
        relay_fill(&s->up, s->client_fd);
    if (relay_finished(&s->down) && (!s->http || s->up.eof))
        session_free(s);
    else
        update_polls(s);
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

static void update_polls(struct session *s)
{
    switch (s->state) {
    case SESSION_REQUEST:
        watch(s->client_poll, true, false, s->http ? on_http_request : on_request);
        break;
    case SESSION_RESOLVE:
        watch(s->client_poll, false, false, NULL);
        break;
    case SESSION_CONNECT:
        watch(s->client_poll, false, false, NULL);
        watch(s->remote_poll, false, true, on_ready);
        break;
    case SESSION_RELAY:
        watch(s->client_poll, relay_wants_read(&s->up), relay_wants_write(&s->down), on_ready);
        watch(s->remote_poll, relay_wants_read(&s->down), relay_wants_write(&s->up), on_ready);
        break;
    case SESSION_REFUSE:
        watch(s->client_poll, s->http, !relay_finished(&s->down), on_refusal_read);
        break;
    }
}

static size_t count_label(const struct gateway *g, const char *label)
{
    size_t n = 0;
    list_for_each(s, &g->sessions, struct session, node) n += strcmp(s->label, label) == 0;
    return n;
}

void session_start(struct gateway *g, const struct gateway_request *req, struct rule_list *hosts,
                   struct rule_list *denied, int stream_fd)
{
    size_t of_label = count_label(g, req->label);
    struct session *s = new0(struct session);
    *s = (struct session){.gateway = g, .tag = req->tag, .client_fd = stream_fd, .remote_fd = -1};
    memcpy(s->label, req->label, sizeof(s->label));
    s->any_host = req->flags & GATEWAY_ANY_HOST;
    s->hosts = *hosts;
    s->denied = *denied;
    *hosts = *denied = (struct rule_list){0};
    s->http = req->flags & GATEWAY_HTTP;
    s->started_ms = clock_mono_ms();
    relay_init(&s->up);
    relay_init(&s->down);
    s->up.bounded = s->http;
    s->up.limit = PROXY_HEAD_MAX;
    list_append(&g->sessions, &s->node);
    g->n_sessions++;
    s->timer = new0(uv_timer_t);
    uv_timer_init(&g->loop, s->timer);
    s->timer->data = s;
    if (fd_set_nonblock(stream_fd, true) < 0 || start_poll(s, stream_fd, &s->client_poll) < 0) {
        session_end(s, "unusable stream");
        return;
    }
    set_timer(s, g->request_timeout_ms);
    update_polls(s);
    if (g->n_sessions > g->max_sessions || of_label >= g->max_sessions_per_label)
        refuse_as(s, GATEWAY_CONNECT_FAILED, 503, "too many connections");
}

void session_end_all(struct gateway *g)
{
    list_for_each_safe(s, &g->sessions, struct session, node) session_free(s);
}
