/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/head.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "secret/pair.h"

/* --- what ends here */

static bool is_in(struct text name, const char *const *names)
{
    for (; *names; names++)
        if (text_is(name, *names))
            return true;
    return false;
}

/* Of the connection and not of the message. */
static bool is_hop_header(const struct http_head *h, struct text name)
{
    static const char *const names[] = {"Connection", "Proxy-Connection",    "Keep-Alive",
                                        "TE",         "Proxy-Authorization", "Proxy-Authenticate",
                                        "Upgrade",    "HTTP2-Settings",      NULL};
    return is_in(name, names) || http_head_is_named_by_connection(h, name);
}

static bool is_written_anew(struct text name)
{
    static const char *const names[] = {"Host", "Content-Length", "Transfer-Encoding", "Trailer",
                                        NULL};
    return is_in(name, names);
}

static void put_header(struct strbuf *out, const struct http_header *h)
{
    strbuf_append(out, h->name.at, h->name.len);
    strbuf_append(out, ": ", 2);
    strbuf_append(out, h->value.at, h->value.len);
    strbuf_append(out, "\r\n", 2);
}

/* --- requests */

/* The host was decided on, and the server proved it: another one in the request would be served
 * under that proof. */
static int check_host(struct http_head *h, const struct head_place *place)
{
    const struct http_header *host;
    struct target named;
    int status = http_head_find_once(h, "Host", &host);
    if (status)
        return status;
    if (!host)
        return http_head_refuse(h, 400, "there is no Host header");
    if (text_parse_authority(host->value, &named) < 0)
        return http_head_refuse(h, 400, "the Host header is not a host");
    uint16_t port = named.port ? named.port : PAIR_PORT;
    if (strcmp(named.host, place->host) != 0 || port != place->port)
        return http_head_refuse(h, 421, "the Host header differs from the host of the connection");
    return 0;
}

static int check_line(struct http_head *h)
{
    if (!h->version_1_1)
        return http_head_refuse(h, 505, "only HTTP/1.1 is spoken here");
    if (text_is(h->method, "CONNECT") || text_is(h->method, "TRACE"))
        return http_head_refuse(h, 405, "CONNECT and TRACE end at the interceptor");
    if (h->target.at[0] != '/' && !text_is(h->target, "*"))
        return http_head_refuse(h, 400, "the target is not a path");
    return 0;
}

static bool starts_with(struct text t, const char *prefix)
{
    size_t len = strlen(prefix);
    return t.len >= len && strncasecmp(t.at, prefix, len) == 0;
}

static int check_protocol(struct http_head *h)
{
    const struct http_header *type, *upgrade;
    int status = http_head_find_once(h, "Upgrade", &upgrade);
    status = status ? status : http_head_find_once(h, "Content-Type", &type);
    if (status)
        return status;
    if (upgrade)
        return http_head_refuse(h, 501, "WebSockets and other upgrades cannot be intercepted");
    if (type && starts_with(type->value, "application/grpc"))
        return http_head_refuse(h, 501, "gRPC needs HTTP/2 and cannot be intercepted");
    return 0;
}

static int read_body(struct http_head *h, struct head_request *ret)
{
    const struct http_header *length, *coding;
    int status = http_head_find_length(h, &length, &ret->body_bytes);
    status = status ? status : http_head_find_once(h, "Transfer-Encoding", &coding);
    if (status)
        return status;
    if (coding && length)
        return http_head_refuse(h, 400, "a body with two lengths");
    if (coding && !text_is(coding->value, "chunked"))
        return http_head_refuse(h, 501, "no other transfer coding than chunked is known");
    ret->body = coding ? BODY_CHUNKED : length ? BODY_LENGTH : BODY_NONE;
    return 0;
}

/* What the client itself put where a secret goes is left out. */
static bool is_of_pair(const struct head_place *place, struct text name)
{
    for (size_t i = 0; i < place->n_pairs; i++)
        if (text_is(name, place->pairs[i].header) &&
            pair_has_host(&place->pairs[i], place->host, place->port))
            return true;
    return false;
}

static void put_pairs(const struct head_place *place, struct strbuf *out)
{
    for (size_t i = 0; i < place->n_pairs; i++) {
        const struct pair *p = &place->pairs[i];
        if (pair_has_host(p, place->host, place->port))
            strbuf_printf(out, "%s: %s%s%s\r\n", p->header, p->before, p->value, p->after);
    }
}

static int put_request(const struct http_head *h, const struct head_place *place,
                       const struct head_request *request, struct strbuf *out)
{
    strbuf_append(out, h->method.at, h->method.len);
    strbuf_append(out, " ", 1);
    strbuf_append(out, h->target.at, h->target.len);
    strbuf_printf(out, " HTTP/1.1\r\nHost: %s", place->host);
    if (place->port != PAIR_PORT)
        strbuf_printf(out, ":%u", place->port);
    strbuf_puts(out, "\r\n");
    for (size_t i = 0; i < h->n_headers; i++) {
        struct text name = h->headers[i].name;
        if (!is_hop_header(h, name) && !is_written_anew(name) && !is_of_pair(place, name))
            put_header(out, &h->headers[i]);
    }
    put_pairs(place, out);
    if (request->body == BODY_LENGTH)
        strbuf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)request->body_bytes);
    if (request->body == BODY_CHUNKED)
        strbuf_puts(out, "Transfer-Encoding: chunked\r\n");
    return strbuf_puts(out, "Connection: close\r\n\r\n");
}

int head_rewrite_request(const char *data, size_t len, const struct head_place *place,
                         struct head_request *ret, struct strbuf *out, const char **ret_why)
{
    _cleanup_free_ struct http_head *h = new0(struct http_head);
    *ret = (struct head_request){.body = BODY_NONE};
    int status = http_head_parse_request(h, data, len);
    status = status ? status : check_line(h);
    status = status ? status : check_host(h, place);
    status = status ? status : check_protocol(h);
    status = status ? status : read_body(h, ret);
    if (!status && put_request(h, place, ret, out) < 0)
        status = http_head_refuse(h, 431, "the head is too large with what goes into it");
    ret->method = h->method;
    ret->target = h->target;
    ret->overrides = http_head_has_override(h);
    *ret_why = h->why;
    return status;
}

/* --- answers */

/* The body goes on as it came, so that what frames it stays. Another protocol than this one is not
 * to be offered: nothing here could follow. */
static bool ends_here(const struct http_head *h, struct text name)
{
    return is_hop_header(h, name) || text_is(name, "Alt-Svc");
}

int head_rewrite_answer(const char *data, size_t len, int *ret_status, struct strbuf *out,
                        const char **ret_why)
{
    _cleanup_free_ struct http_head *h = new0(struct http_head);
    int status = http_head_parse_answer(h, data, len);
    if (!status && h->status == 101)
        status = http_head_refuse(h, 502, "the server changed the protocol unasked");
    if (status) {
        *ret_why = h->why;
        return 502;
    }
    *ret_status = h->status;
    strbuf_printf(out, "HTTP/1.1 %d ", h->status);
    strbuf_append(out, h->reason.at, h->reason.len);
    strbuf_puts(out, "\r\n");
    for (size_t i = 0; i < h->n_headers; i++)
        if (!ends_here(h, h->headers[i].name))
            put_header(out, &h->headers[i]);
    if (h->status >= 200)
        strbuf_puts(out, "Connection: close\r\n");
    int r = strbuf_puts(out, "\r\n");
    *ret_why = r < 0 ? "the answer's head is too large" : NULL;
    return r < 0 ? 502 : 0;
}
