/* SPDX-License-Identifier: Apache-2.0 */
/* What the client asks for: a CONNECT line, the head of a request to an HTTP proxy, or SOCKS. The
 * bytes collect at the start of the upward buffer; what follows them is the first of the data. */
#include "gateway/session-internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "gateway/proxy-head.h"
#include "gateway/socks.h"

/* There is not yet a whole request. */
static void session_await_more(struct session *s)
{
    /* A client that leaves before its request is whole has asked for nothing, and there is nothing
     * to record. */
    if (s->up.eof)
        session_free(s);
    else
        session_update_watches(s);
}

void session_on_line(struct epoll_watch *client, uint32_t ready)
{
    struct session *s = container_of(client, struct session, client);
    (void)ready;
    relay_fill(&s->up, s->client_fd);
    char *line = s->up.len ? s->up.data + s->up.start : NULL;
    char *end = line ? memchr(line, '\n', s->up.len) : NULL;
    size_t len = end ? (size_t)(end - line) : s->up.len;
    if (!end && (s->up.eof || len < GATEWAY_LINE_MAX)) {
        session_await_more(s);
        return;
    }
    struct target target;
    if (!end || len >= GATEWAY_LINE_MAX || gateway_parse_connect(line, len, &target) < 0) {
        session_refuse(s, GATEWAY_BAD_REQUEST, "expected: CONNECT host port");
        return;
    }
    s->target = target;
    s->up.start += len + 1;
    s->up.len -= len + 1;
    session_decide(s);
}

/* What goes to the server takes the place of what the client wrote. */
static void replace_head(struct session *s, const struct proxy_head *h, size_t head_len,
                         struct strbuf *out)
{
    /* Bytes behind the body would reach the server as a second request, which no rule has seen.
     * They are dropped here, and the relay's limit drops those that come later. */
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
    /* Also for a head that is refused: the record of the refusal names what was asked for. */
    s->target = head.target;
    if (status) {
        session_refuse_as(s, status == 403 ? GATEWAY_HOST_NOT_ALLOWED : GATEWAY_BAD_REQUEST, status,
                          "%s", why);
        return;
    }
    s->tunnel = head.connect;
    if (head.connect) {
        s->up.start += len;
        s->up.len -= len;
        s->up.bounded = false;
    } else {
        s->tls = head.tls;
        s->overrides = head.overrides;
        s->method = xstrndup(head.method, head.method_len);
        s->path = xstrndup(head.path, head.path_len);
        replace_head(s, &head, len, &out);
    }
    session_decide(s);
}

static void on_head(struct session *s)
{
    size_t len = http_head_length(s->up.data + s->up.start, s->up.len);
    if (len)
        on_http_head(s, len);
    else if (!s->up.eof && s->up.limit == 0)
        session_refuse_as(s, GATEWAY_BAD_REQUEST, 431, "the head of a request has at most %d bytes",
                          PROXY_HEAD_MAX);
}

static void drop_read(struct session *s, size_t n)
{
    s->up.start += n;
    s->up.len -= n;
}

/* False where there is nothing to go on with. */
static bool take_greeting(struct session *s)
{
    const uint8_t *data = (const uint8_t *)s->up.data + s->up.start;
    ssize_t n = socks_parse_greeting(data, s->up.len);
    if (n < 0) {
        session_refuse(s, GATEWAY_BAD_REQUEST, "SOCKS goes without authentication here");
        return false;
    }
    if (n == 0)
        return false;
    drop_read(s, (size_t)n);
    session_answer_greeting(s, 0);
    return true;
}

static void take_socks_request(struct session *s)
{
    const uint8_t *data = (const uint8_t *)s->up.data + s->up.start;
    enum socks_reply reply;
    struct target target;
    const char *why;
    ssize_t n = socks_parse_request(data, s->up.len, &target, &reply, &why);
    if (n == 0)
        return;
    s->target = target;
    s->tunnel = true;
    if (n < 0) {
        s->socks_reply = reply;
        session_refuse(s,
                       reply == SOCKS_NOT_ALLOWED ? GATEWAY_HOST_NOT_ALLOWED : GATEWAY_BAD_REQUEST,
                       "%s", why);
        return;
    }
    drop_read(s, (size_t)n);
    s->up.bounded = false;
    session_decide(s);
}

void session_on_proxy(struct epoll_watch *client, uint32_t ready)
{
    struct session *s = container_of(client, struct session, client);
    (void)ready;
    relay_fill(&s->up, s->client_fd);
    if (s->up.len && !s->greeted)
        /* The first byte says which protocol it is: no method of HTTP begins with it. */
        s->socks = s->up.data[s->up.start] == SOCKS_VERSION;
    if (s->up.len && !s->socks)
        on_head(s);
    else if (s->up.len && (s->greeted || take_greeting(s)))
        take_socks_request(s);
    if (s->state == SESSION_REQUEST)
        session_await_more(s);
}
