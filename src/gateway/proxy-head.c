/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/proxy-head.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/http-head.h"
#include "base/strbuf.h"
#include "base/url.h"

static int refuse_host(struct http_head *r, int error)
{
    return error == -EPERM
               ? http_head_refuse(r, 403, "a host that resolvers read as a number is not allowed")
               : http_head_refuse(r, 400, "the target is not a host and port that can be read");
}

static uint16_t scheme_port(const struct proxy_head *h)
{
    return h->tls ? 443 : 80;
}

/* Two names for one request would be decided by one and served by the other. */
static int check_host_header(struct http_head *r, const struct proxy_head *p)
{
    const struct target *t = &p->target;
    const struct http_header *h;
    struct target named;
    int status = http_head_find_once(r, "Host", &h);
    if (status)
        return status;
    if (!h)
        return r->version_1_1 ? http_head_refuse(r, 400, "there is no Host header") : 0;
    if (text_parse_authority(h->value, &named) < 0 || strcmp(named.host, t->host) != 0 ||
        (named.port && named.port != t->port))
        return http_head_refuse(r, 400, "the Host header differs from the target");
    /* Without a port it means the scheme's, which a CONNECT does not have. */
    if (!named.port && t->port != scheme_port(p) && !p->connect)
        return http_head_refuse(r, 400, "the Host header differs from the target");
    return 0;
}

/* A chunked body is refused: where it ends would be decided by our reading of the chunks here and
 * by the server's reading there, and what lies between the two would be a request that no rule has
 * seen. */
static int read_body_length(struct http_head *r, const struct http_header **ret_length,
                            uint64_t *ret)
{
    const struct http_header *coding;
    int status = http_head_find_once(r, "Transfer-Encoding", &coding);
    status = status ? status : http_head_find_length(r, ret_length, ret);
    if (!status && coding)
        return http_head_refuse(r, 411, "a request body needs a Content-Length here");
    return status;
}

static int read_connect(struct http_head *r, struct proxy_head *ret)
{
    const struct http_header *length;
    uint64_t body;
    int error = text_parse_authority(r->target, &ret->target);
    if (error < 0 || !ret->target.port)
        return refuse_host(r, error < 0 ? error : -EINVAL);
    ret->connect = true;
    int status = read_body_length(r, &length, &body);
    if (status || body)
        return http_head_refuse(r, 400, "a CONNECT has no body");
    return check_host_header(r, ret);
}

/* Header lines that are of this connection and not of the request, and those that are written anew.
 */
static bool is_own_header(struct text name)
{
    static const char *const names[] = {"Connection",
                                        "Proxy-Connection",
                                        "Keep-Alive",
                                        "Proxy-Authorization",
                                        "Proxy-Authenticate",
                                        "TE",
                                        "Trailer",
                                        "Upgrade",
                                        "HTTP2-Settings",
                                        "Host",
                                        "Content-Length"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (text_is(name, names[i]))
            return true;
    return false;
}

/* The head is written from what was parsed instead of being passed on, so that the server cannot
 * read another host, length or path in it than the rules did. The connection ends with the answer:
 * another request on it would have to be decided again. */
static void write_head(const struct http_head *r, const struct proxy_head *h, const char *path,
                       bool has_length, struct strbuf *out)
{
    char host[TARGET_TEXT_SIZE];
    target_format_host(&h->target, host);
    strbuf_printf(out, "%.*s %s%s HTTP/1.%c\r\nHost: %s", (int)r->method.len, r->method.at,
                  *path == '/' ? "" : "/", path, r->version_1_1 ? '1' : '0', host);
    if (h->target.port != scheme_port(h))
        strbuf_printf(out, ":%u", h->target.port);
    strbuf_printf(out, "\r\n");
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct http_header *line = &r->headers[i];
        if (is_own_header(line->name) || http_head_is_named_by_connection(r, line->name))
            continue;
        strbuf_append(out, line->name.at, line->name.len);
        strbuf_append(out, ": ", 2);
        strbuf_append(out, line->value.at, line->value.len);
        strbuf_append(out, "\r\n", 2);
    }
    if (has_length)
        strbuf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)h->body_bytes);
    strbuf_printf(out, "Connection: close\r\n\r\n");
}

/* "http[s]://host[:port][/path][?query]" */
static int read_absolute(struct http_head *r, struct proxy_head *ret, struct strbuf *out)
{
    _cleanup_free_ char *text = xasprintf("%.*s", (int)r->target.len, r->target.at);
    const struct http_header *length = NULL;
    struct url url;
    if (*text == '/' || strcmp(text, "*") == 0)
        return http_head_refuse(r, 400, "this is a proxy: the target is a whole http:// URL");
    int error = url_parse(text, &url);
    if (error == -EPROTONOSUPPORT)
        return http_head_refuse(
            r, 501, "only http:// and https:// URLs are fetched here; others go by CONNECT");
    if (error < 0)
        return refuse_host(r, error);
    /* "http://allowed@other/" and "http://other#@allowed/" are read as different hosts by different
     * parsers. */
    if (url.has_user || strchr(url.rest, '#'))
        return http_head_refuse(r, 400, "a URL with a user or a fragment cannot be a target");
    ret->target = url.target;
    ret->tls = url.tls;
    ret->method = r->method.at;
    ret->method_len = r->method.len;
    ret->path = r->target.at + (url.rest - text);
    ret->path_len = strlen(url.rest);
    ret->overrides = http_head_has_override(r);
    int status = check_host_header(r, ret);
    status = status ? status : read_body_length(r, &length, &ret->body_bytes);
    if (!status)
        write_head(r, ret, url.rest, length, out);
    return status;
}

int proxy_head_parse(const char *head, size_t len, struct proxy_head *ret, struct strbuf *out,
                     const char **ret_why)
{
    _cleanup_free_ struct http_head *r = new0(struct http_head);
    *ret = (struct proxy_head){0};
    int status = http_head_parse_request(r, head, len);
    if (!status)
        status = r->method.len == 7 && memcmp(r->method.at, "CONNECT", 7) == 0
                     ? read_connect(r, ret)
                     : read_absolute(r, ret, out);
    *ret_why = r->why;
    return status;
}
