/* SPDX-License-Identifier: Apache-2.0 */
/* From a scanned head to a request: llhttp takes the bytes apart, then the fields that decide where
 * the body ends and who is meant are checked for having exactly one meaning. Names and values stay
 * in the input buffer, terminated in place. */
#include <assert.h>
#include <errno.h>
#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "net/conn.h"

#define CONTENT_LENGTH_MAX (UINT64_C(1) << 62)

struct head {
    struct http_request *req;
    char *target;
    size_t target_len;
    size_t name_len[HTTP_FIELDS_MAX];
    size_t value_len[HTTP_FIELDS_MAX];
    bool too_many;
};

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;
    if (!h->target)
        h->target = (char *)at;
    h->target_len += len;
    return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;
    struct http_request *req = h->req;
    if (req->n_fields == HTTP_FIELDS_MAX) {
        h->too_many = true;
        return HPE_USER;
    }
    size_t i = req->n_fields++;
    req->fields[i] = (struct http_field){(char *)at, NULL};
    h->name_len[i] = len;
    h->value_len[i] = 0;
    return 0;
}

/* llhttp may hand over one value in several pieces, but the head is in one buffer, so that the
 * pieces adjoin and only the length grows. */
static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;
    size_t i = h->req->n_fields - 1;
    if (!h->req->fields[i].value)
        h->req->fields[i].value = (char *)at;
    h->value_len[i] += len;
    return 0;
}

static int on_headers_complete(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED; /* bodies are ours */
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
};

/* llhttp 9.2, as in Debian 13, knows QUERY; what is answered must not depend on its version. */
static bool is_method_known(uint8_t m)
{
    return m < HTTP_SOURCE || strcmp(llhttp_method_name((llhttp_method_t)m), "QUERY") != 0;
}

static enum http_method method_of(uint8_t m)
{
    switch (m) {
    case HTTP_GET:
        return HTTP_GET_;
    case HTTP_HEAD:
        return HTTP_HEAD_;
    case HTTP_POST:
        return HTTP_POST_;
    case HTTP_PUT:
        return HTTP_PUT_;
    case HTTP_DELETE:
        return HTTP_DELETE_;
    case HTTP_PATCH:
        return HTTP_PATCH_;
    case HTTP_OPTIONS:
        return HTTP_OPTIONS_;
    default:
        return HTTP_OTHER_;
    }
}

/* In place, in the input buffer: each NUL goes over the colon or the line's end, which are not
 * needed any more. */
static void terminate_fields(struct head *h)
{
    for (size_t i = 0; i < h->req->n_fields; i++) {
        struct http_field *f = &h->req->fields[i];
        size_t n = h->value_len[i];
        f->name[h->name_len[i]] = 0;
        if (!f->value) {
            f->value = f->name + h->name_len[i];
            continue;
        }
        while (n && (f->value[n - 1] == ' ' || f->value[n - 1] == '\t'))
            n--;
        f->value[n] = 0;
    }
}

/* What the framing and identity fields say, gathered in one pass. */
struct facts {
    struct http_field *host;
    const char *length, *expect;
    size_t n_host, n_length, n_coding, n_chunked, n_origin, n_secret;
    bool chunked_last, other_coding, encoded, close, keep_alive, upgrade;
};

static bool is_known_coding(const char *s, size_t len)
{
    static const char *const known[] = {"gzip", "x-gzip", "deflate", "compress", "x-compress"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i]) == len && !strncasecmp(s, known[i], len))
            return true;
    return false;
}

/* Returns false for a coding that does not exist. Every list member is looked at, because "gzip,
 * chunked" and "chunked, gzip" frame a body differently, and a proxy in front may understand only
 * one of them. */
static bool gather_codings(struct facts *f, const char *value)
{
    for (;;) {
        value += strspn(value, " \t");
        size_t len = strcspn(value, ", \t");
        const char *end = value + len;
        f->chunked_last = len == 7 && !strncasecmp(value, "chunked", 7);
        if (f->chunked_last)
            f->n_chunked++;
        else if (is_known_coding(value, len))
            f->other_coding = true;
        else
            return false;
        end += strspn(end, " \t");
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        value = end + 1;
    }
}

static bool gather_facts(struct http_request *req, struct facts *f)
{
    for (size_t i = 0; i < req->n_fields; i++) {
        struct http_field *h = &req->fields[i];
        switch (h->name[0] | 0x20) {
        case 'h':
            if (!strcasecmp(h->name, "Host")) {
                f->host = h;
                f->n_host++;
            }
            break;
        case 'c':
            if (!strcasecmp(h->name, "Content-Length")) {
                f->length = h->value;
                f->n_length++;
            } else if (!strcasecmp(h->name, "Connection")) {
                f->close |= field_has_token(h->value, "close");
                f->keep_alive |= field_has_token(h->value, "keep-alive");
                f->upgrade |= field_has_token(h->value, "upgrade");
            } else if (!strcasecmp(h->name, "Content-Encoding")) {
                f->encoded |= strcasecmp(h->value, "identity") != 0;
            }
            break;
        case 'o':
            f->n_origin += !strcasecmp(h->name, "Origin");
            break;
        case 'a':
            f->n_secret += !strcasecmp(h->name, "Authorization");
            break;
        case 't':
            if (!strcasecmp(h->name, "Transfer-Encoding")) {
                f->n_coding++;
                if (!gather_codings(f, h->value))
                    return false;
            }
            break;
        case 'e':
            if (!strcasecmp(h->name, "Expect"))
                f->expect = h->value;
            break;
        }
    }
    return true;
}

/* Digits and nothing else: strtoull() would take a sign, leading spaces and an overflow, which
 * another reader of the same bytes may understand differently. */
static int parse_length(const char *text, uint64_t *ret)
{
    uint64_t n = 0;
    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || n > CONTENT_LENGTH_MAX / 10)
            return -EINVAL;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    *ret = n;
    return 0;
}

/* Where two fields disagree about where the body ends, a proxy and this server could take the
 * same bytes for different requests (request smuggling). So each doubt is a refusal. */
static int check_framing(struct http_request *req, const struct facts *f, const char **ret_message)
{
    *ret_message = "a request has one Content-Length";
    if (f->n_length > 1)
        return 400;
    *ret_message = "a request has a Content-Length or a Transfer-Encoding, not both";
    if (f->n_length && f->n_coding)
        return 400;
    *ret_message = "the Transfer-Encoding of a body is 'chunked', once, in HTTP/1.1";
    if (f->n_coding) {
        if (!f->chunked_last || f->n_chunked != 1 || req->http10)
            return 400;
        if (f->other_coding) {
            *ret_message = "the only transfer coding here is chunked";
            return 501;
        }
        if (f->n_coding > 1)
            return 400;
        req->framing = FRAMING_CHUNKED;
    } else if (f->n_length) {
        *ret_message = "the Content-Length is not a number that a body can have";
        if (parse_length(f->length, &req->content_length) < 0)
            return 400;
        req->framing = req->content_length ? FRAMING_LENGTH : FRAMING_NONE;
        req->body_left = req->content_length;
    }
    req->body_done = req->framing == FRAMING_NONE;
    return 0;
}

static int check_host(struct http_request *req, const struct facts *f,
                      const struct request_target *t)
{
    if (f->n_host > 1 || (!f->n_host && !req->http10))
        return 400;
    if (!f->host)
        return 0;
    /* RFC 9112 3.2.2: an absolute target overrules the field. */
    if (t->authority)
        f->host->value = t->authority;
    return f->host->value[strcspn(f->host->value, " \t/\\?#@\"<>,{}^`|")] ? 400 : 0;
}

static int check_request(struct http_request *req, const struct request_target *t,
                         const char **ret_message)
{
    struct facts f = {0};
    *ret_message = "unknown transfer coding";
    if (!gather_facts(req, &f))
        return 400;
    int status = check_framing(req, &f, ret_message);
    if (status)
        return status;
    *ret_message = "exactly one valid Host is needed";
    if (check_host(req, &f, t))
        return 400;
    *ret_message = "a request has one Origin and one Authorization";
    if (f.n_origin > 1 || f.n_secret > 1)
        return 400;
    *ret_message = "a body with a Content-Encoding is not taken: send it as it is";
    const struct http_options *o = &req->conn->server->o;
    if (f.encoded && !(o->takes_encoded && o->takes_encoded(req, o->data)))
        return 415;
    if (f.expect && !req->http10) {
        *ret_message = "the only expectation here is 100-continue";
        if (strcasecmp(f.expect, "100-continue") != 0)
            return 417;
        req->expect_continue = !req->body_done;
    }
    req->keep_alive = !f.close && (!req->http10 || f.keep_alive);
    req->upgrade = f.upgrade && !req->http10;
    return 0;
}

/* llhttp takes a tab around most values but not around a Content-Length; a space is the same. */
static void tabs_to_spaces(char *head, size_t len)
{
    char *end = head + len;
    for (char *p = head; (p = memchr(p, '\t', (size_t)(end - p))); p++)
        *p = ' ';
}

static int refused_status(const struct head *h, llhttp_errno_t e, const char **ret_message)
{
    static_assert(HTTP_FIELDS_MAX == 100, "the message says so");
    *ret_message = "there are more than 100 header fields";
    if (h->too_many)
        return 431;
    *ret_message = "the method is not known here";
    if (e == HPE_INVALID_METHOD)
        return 501;
    *ret_message = "this server speaks HTTP/1.0 and HTTP/1.1";
    if (e == HPE_INVALID_VERSION)
        return 505;
    *ret_message = e == HPE_UNEXPECTED_CONTENT_LENGTH
                       ? "a request has one Content-Length, or a Transfer-Encoding"
                   : e == HPE_INVALID_CONTENT_LENGTH
                       ? "the Content-Length is not a number that a body can have"
                   : e == HPE_INVALID_TRANSFER_ENCODING
                       ? "the Transfer-Encoding of a body is 'chunked', once, in HTTP/1.1"
                       : "malformed request";
    return 400;
}

/* As it came, before it is decoded in place: a head's length bounds it. */
static void keep_target(struct http_request *req, const char *target, size_t len)
{
    struct strbuf *b = &req->conn->target;
    strbuf_reset(b);
    strbuf_append(b, target, len);
    char *fragment = strchr(b->data, '#');
    if (fragment)
        *fragment = 0;
    if (*target == '/' || *target == '*')
        return;
    struct url_parts p;
    url_split(b->data, &p);
    req->target_path = (size_t)(p.rest - b->data);
    if (*p.rest == '/' || !req->target_path)
        return;
    /* "http://host" and "http://host?x" mean its root. The scheme before it leaves the room. */
    req->target_path--;
    b->data[req->target_path] = '/';
}

int parse_head(struct conn *c, size_t start, size_t len, const char **ret_message)
{
    struct http_request *req = &c->req;
    struct head h;
    h.req = req;
    h.target = NULL;
    h.target_len = 0;
    h.too_many = false;
    memset(req, 0, offsetof(struct http_request, fields));
    req->conn = c;

    tabs_to_spaces(c->in + start, len);
    llhttp_t parser;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = &h;
    llhttp_errno_t e = llhttp_execute(&parser, c->in + start, len);
    if (e != HPE_PAUSED || !h.target)
        return refused_status(&h, e, ret_message);
    if (!is_method_known(parser.method)) {
        *ret_message = "the method is not known here";
        return 501;
    }
    if (parser.method == HTTP_CONNECT || parser.method == HTTP_PRI) {
        *ret_message = "this is not a proxy";
        return 501;
    }
    req->method = method_of(parser.method);
    req->method_name = llhttp_method_name((llhttp_method_t)parser.method);
    req->http10 = parser.http_minor == 0;

    struct request_target target;
    keep_target(req, h.target, h.target_len);
    *ret_message = "malformed request target";
    if (request_target_parse(h.target, h.target_len, &target, req->query, HTTP_QUERY_MAX) < 0)
        return 400;
    req->path = target.path;
    req->n_query = target.n_query;
    terminate_fields(&h);
    return check_request(req, &target, ret_message);
}
