/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/proxy-head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/url.h"

/* A piece of the head, not terminated. */
struct text {
    const char *at;
    size_t len;
};

struct header {
    struct text name, value;
};

struct reader {
    struct text method, target;
    bool version_1_1;
    struct header headers[PROXY_HEADERS_MAX];
    size_t n_headers;
    const char *why;
};

size_t proxy_head_length(const char *data, size_t len)
{
    const char *end = len >= 4 ? memmem(data, len, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - data) + 4 : 0;
}

static bool text_is(struct text t, const char *word)
{
    return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (!is_token_char(t.at[i]))
            return false;
    return t.len > 0;
}

/* Visible ASCII: what a target may be made of. */
static bool is_visible(struct text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (t.at[i] <= ' ' || t.at[i] > '~')
            return false;
    return t.len > 0;
}

/* Cuts the bytes before the first `end` off; false where there is none. */
static bool text_cut(struct text *rest, char end, struct text *ret)
{
    const char *at = memchr(rest->at, end, rest->len);
    if (!at)
        return false;
    *ret = (struct text){rest->at, (size_t)(at - rest->at)};
    *rest = (struct text){at + 1, rest->len - ret->len - 1};
    return true;
}

/* A line without its CRLF. Any other CR, LF or control byte in it is refused. */
static bool line_cut(struct text *rest, struct text *ret)
{
    if (!text_cut(rest, '\n', ret) || ret->len == 0 || ret->at[ret->len - 1] != '\r')
        return false;
    ret->len--;
    for (size_t i = 0; i < ret->len; i++) {
        unsigned char c = (unsigned char)ret->at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static int head_refuse(struct reader *r, int status, const char *why)
{
    r->why = why;
    return status;
}

static int read_request_line(struct reader *r, struct text line)
{
    if (!text_cut(&line, ' ', &r->method) || !text_cut(&line, ' ', &r->target) ||
        !is_token(r->method) || !is_visible(r->target))
        return head_refuse(r, 400, "the request line is malformed");
    r->version_1_1 = line.len == 8 && memcmp(line.at, "HTTP/1.1", 8) == 0;
    if (!r->version_1_1 && !(line.len == 8 && memcmp(line.at, "HTTP/1.0", 8) == 0))
        return head_refuse(r, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return 0;
}

static int read_header(struct reader *r, struct text line)
{
    struct header h;
    if (r->n_headers == PROXY_HEADERS_MAX)
        return head_refuse(r, 431, "too many header lines");
    if (!text_cut(&line, ':', &h.name) || !is_token(h.name))
        return head_refuse(r, 400, "a header line is malformed");
    while (line.len && (line.at[0] == ' ' || line.at[0] == '\t')) {
        line.at++;
        line.len--;
    }
    while (line.len && (line.at[line.len - 1] == ' ' || line.at[line.len - 1] == '\t'))
        line.len--;
    h.value = line;
    r->headers[r->n_headers++] = h;
    return 0;
}

static int read_head(struct reader *r, struct text rest)
{
    struct text line;
    if (!line_cut(&rest, &line))
        return head_refuse(r, 400, "the request line is malformed");
    int status = read_request_line(r, line);
    while (!status) {
        if (!line_cut(&rest, &line))
            return head_refuse(r, 400, "a header line is malformed");
        if (line.len == 0)
            return rest.len ? head_refuse(r, 400, "a header line is malformed") : 0;
        status = read_header(r, line);
    }
    return status;
}

/* The only header of a name; NULL where there is none. Twice is a refusal. */
static int find_once(struct reader *r, const char *name, const struct header **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < r->n_headers; i++) {
        if (!text_is(r->headers[i].name, name))
            continue;
        if (*ret)
            return head_refuse(r, 400, "a header that may come once comes twice");
        *ret = &r->headers[i];
    }
    return 0;
}

/* "host:port" or "host" (port 0) of bytes that need not end with a NUL. */
static int parse_authority(struct text t, struct target *ret)
{
    char copy[TARGET_TEXT_SIZE + 8];
    *ret = (struct target){0};
    if (t.len == 0 || t.len >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, t.at, t.len);
    copy[t.len] = 0;
    int r = target_cut_port(copy, &ret->port);
    return r < 0 ? r : target_parse_host(copy, strlen(copy), ret);
}

static int refuse_host(struct reader *r, int error)
{
    return error == -EPERM
               ? head_refuse(r, 403, "a host that resolvers read as a number is not allowed")
               : head_refuse(r, 400, "the target is not a host and port that can be read");
}

/* Two names for one request would be decided by one and served by the other. */
static int check_host_header(struct reader *r, const struct target *t, bool connect)
{
    const struct header *h;
    struct target named;
    int status = find_once(r, "Host", &h);
    if (status)
        return status;
    if (!h)
        return r->version_1_1 ? head_refuse(r, 400, "there is no Host header") : 0;
    if (parse_authority(h->value, &named) < 0 || strcmp(named.host, t->host) != 0 ||
        (named.port && named.port != t->port))
        return head_refuse(r, 400, "the Host header differs from the target");
    /* Without a port it means the scheme's, which a CONNECT does not have. */
    if (!named.port && t->port != 80 && !connect)
        return head_refuse(r, 400, "the Host header differs from the target");
    return 0;
}

static int read_body_length(struct reader *r, const struct header **ret_length, uint64_t *ret)
{
    const struct header *coding;
    int status = find_once(r, "Transfer-Encoding", &coding);
    status = status ? status : find_once(r, "Content-Length", ret_length);
    if (status)
        return status;
    if (coding)
        return head_refuse(r, 411, "a request body needs a Content-Length here");
    *ret = 0;
    if (!*ret_length)
        return 0;
    struct text digits = (*ret_length)->value;
    if (digits.len == 0 || digits.len > 15)
        return head_refuse(r, 400, "the Content-Length is malformed");
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return head_refuse(r, 400, "the Content-Length is malformed");
        *ret = *ret * 10 + (uint64_t)(digits.at[i] - '0');
    }
    return 0;
}

static int read_connect(struct reader *r, struct proxy_head *ret)
{
    const struct header *length;
    uint64_t body;
    int error = parse_authority(r->target, &ret->target);
    if (error < 0 || !ret->target.port)
        return refuse_host(r, error < 0 ? error : -EINVAL);
    ret->connect = true;
    int status = read_body_length(r, &length, &body);
    if (status || body)
        return head_refuse(r, 400, "a CONNECT has no body");
    return check_host_header(r, &ret->target, true);
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

/* A Connection header names others that end here as well. */
static bool is_named_by_connection(const struct reader *r, struct text name)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        struct text rest = r->headers[i].value, word;
        if (!text_is(r->headers[i].name, "Connection"))
            continue;
        while (rest.len) {
            if (!text_cut(&rest, ',', &word)) {
                word = rest;
                rest.len = 0;
            }
            while (word.len && (word.at[0] == ' ' || word.at[0] == '\t'))
                word = (struct text){word.at + 1, word.len - 1};
            while (word.len && (word.at[word.len - 1] == ' ' || word.at[word.len - 1] == '\t'))
                word.len--;
            if (word.len == name.len && strncasecmp(word.at, name.at, name.len) == 0)
                return true;
        }
    }
    return false;
}

static void write_head(const struct reader *r, const struct proxy_head *h, const char *path,
                       bool has_length, struct strbuf *out)
{
    char host[TARGET_TEXT_SIZE];
    target_format_host(&h->target, host);
    strbuf_printf(out, "%.*s %s%s HTTP/1.%c\r\nHost: %s", (int)r->method.len, r->method.at,
                  *path == '/' ? "" : "/", path, r->version_1_1 ? '1' : '0', host);
    if (h->target.port != 80)
        strbuf_printf(out, ":%u", h->target.port);
    strbuf_printf(out, "\r\n");
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct header *line = &r->headers[i];
        if (is_own_header(line->name) || is_named_by_connection(r, line->name))
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

/* "http://host[:port][/path][?query]" */
static int read_absolute(struct reader *r, struct proxy_head *ret, struct strbuf *out)
{
    _cleanup_free_ char *text = xasprintf("%.*s", (int)r->target.len, r->target.at);
    const struct header *length = NULL;
    struct url url;
    if (*text == '/' || strcmp(text, "*") == 0)
        return head_refuse(r, 400, "this is a proxy: the target is a whole http:// URL");
    int error = url_parse(text, &url);
    if (error == -EPROTONOSUPPORT)
        return head_refuse(r, 501, "only http:// URLs are fetched here; others go by CONNECT");
    if (error < 0)
        return refuse_host(r, error);
    if (url.tls)
        return head_refuse(r, 501, "https goes by CONNECT, so that only the two ends can read it");
    if (url.has_user || strchr(url.rest, '#'))
        return head_refuse(r, 400, "a URL with a user or a fragment is no target");
    ret->target = url.target;
    int status = check_host_header(r, &ret->target, false);
    status = status ? status : read_body_length(r, &length, &ret->body_bytes);
    if (!status)
        write_head(r, ret, url.rest, length, out);
    return status;
}

int proxy_head_parse(const char *head, size_t len, struct proxy_head *ret, struct strbuf *out,
                     const char **ret_why)
{
    _cleanup_free_ struct reader *r = new0(struct reader);
    *ret = (struct proxy_head){0};
    int status = read_head(r, (struct text){head, len});
    if (!status)
        status = r->method.len == 7 && memcmp(r->method.at, "CONNECT", 7) == 0
                     ? read_connect(r, ret)
                     : read_absolute(r, ret, out);
    *ret_why = r->why;
    return status;
}
