/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http-head.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

size_t http_head_length(const char *data, size_t len)
{
    const char *end = len >= 4 ? memmem(data, len, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - data) + 4 : 0;
}

bool text_is(struct text t, const char *word)
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

static struct text text_trim(struct text t)
{
    while (t.len && (t.at[0] == ' ' || t.at[0] == '\t'))
        t = (struct text){t.at + 1, t.len - 1};
    while (t.len && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
        t.len--;
    return t;
}

int text_parse_authority(struct text t, struct target *ret)
{
    char copy[TARGET_TEXT_SIZE + 8];
    *ret = (struct target){0};
    if (t.len == 0 || t.len >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, t.at, t.len);
    copy[t.len] = 0;
    int r = target_cut_port(copy, &ret->port);
    if (r < 0)
        return r;
    return target_parse_host(copy, strlen(copy), ret);
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

int http_head_refuse(struct http_head *h, int status, const char *why)
{
    h->why = why;
    return status;
}

static int read_version(struct http_head *h, struct text t)
{
    h->version_1_1 = t.len == 8 && memcmp(t.at, "HTTP/1.1", 8) == 0;
    if (!h->version_1_1 && !(t.len == 8 && memcmp(t.at, "HTTP/1.0", 8) == 0))
        return http_head_refuse(h, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return 0;
}

static int read_request_line(struct http_head *h, struct text line)
{
    if (!text_cut(&line, ' ', &h->method) || !text_cut(&line, ' ', &h->target) ||
        !is_token(h->method) || !is_visible(h->target))
        return http_head_refuse(h, 400, "the request line is malformed");
    return read_version(h, line);
}

/* "HTTP/1.1 200 OK"; the reason may be empty, and servers leave its space out, too. */
static int read_status_line(struct http_head *h, struct text line)
{
    struct text version, code;
    if (!text_cut(&line, ' ', &version))
        return http_head_refuse(h, 502, "the status line is malformed");
    if (read_version(h, version))
        return http_head_refuse(h, 502, "the answer is not HTTP/1.1");
    if (!text_cut(&line, ' ', &code)) {
        code = line;
        line.len = 0;
    }
    if (code.len != 3 || code.at[0] < '1' || code.at[0] > '9')
        return http_head_refuse(h, 502, "the status line is malformed");
    for (size_t i = 0; i < code.len; i++) {
        if (code.at[i] < '0' || code.at[i] > '9')
            return http_head_refuse(h, 502, "the status line is malformed");
        h->status = h->status * 10 + (code.at[i] - '0');
    }
    h->reason = line;
    return 0;
}

/* A name must be a token right up to its colon. A space before the colon is refused by that,
 * which some readers drop and others make part of the name. */
static int read_header(struct http_head *h, struct text line)
{
    struct http_header header;
    if (h->n_headers == HTTP_HEADERS_MAX)
        return http_head_refuse(h, 431, "too many header lines");
    if (!text_cut(&line, ':', &header.name) || !is_token(header.name))
        return http_head_refuse(h, 400, "a header line is malformed");
    header.value = text_trim(line);
    h->headers[h->n_headers++] = header;
    return 0;
}

static int read_lines(struct http_head *h, struct text rest,
                      int (*read_first)(struct http_head *h, struct text line))
{
    struct text line;
    *h = (struct http_head){.n_headers = 0};
    if (!line_cut(&rest, &line))
        return http_head_refuse(h, 400, "the request line is malformed");
    int status = read_first(h, line);
    while (!status) {
        if (!line_cut(&rest, &line))
            return http_head_refuse(h, 400, "a header line is malformed");
        if (line.len == 0)
            return rest.len ? http_head_refuse(h, 400, "a header line is malformed") : 0;
        status = read_header(h, line);
    }
    return status;
}

int http_head_parse_request(struct http_head *h, const char *data, size_t len)
{
    return read_lines(h, (struct text){data, len}, read_request_line);
}

int http_head_parse_answer(struct http_head *h, const char *data, size_t len)
{
    return read_lines(h, (struct text){data, len}, read_status_line);
}

int http_head_find_once(struct http_head *h, const char *name, const struct http_header **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < h->n_headers; i++) {
        if (!text_is(h->headers[i].name, name))
            continue;
        if (*ret)
            return http_head_refuse(h, 400, "a header that may come once comes twice");
        *ret = &h->headers[i];
    }
    return 0;
}

/* Fifteen digits are more than any body, and fit the number without a check for overflow. */
int http_head_find_length(struct http_head *h, const struct http_header **ret_length, uint64_t *ret)
{
    int status = http_head_find_once(h, "Content-Length", ret_length);
    *ret = 0;
    if (status || !*ret_length)
        return status;
    struct text digits = (*ret_length)->value;
    if (digits.len == 0 || digits.len > 15)
        return http_head_refuse(h, 400, "the Content-Length is malformed");
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return http_head_refuse(h, 400, "the Content-Length is malformed");
        *ret = *ret * 10 + (uint64_t)(digits.at[i] - '0');
    }
    return 0;
}

/* Such a header is for the next hop only: a party between two others takes it out. */
bool http_head_is_named_by_connection(const struct http_head *h, struct text name)
{
    for (size_t i = 0; i < h->n_headers; i++) {
        struct text rest = h->headers[i].value, word;
        if (!text_is(h->headers[i].name, "Connection"))
            continue;
        while (rest.len) {
            if (!text_cut(&rest, ',', &word)) {
                word = rest;
                rest.len = 0;
            }
            word = text_trim(word);
            if (word.len == name.len && strncasecmp(word.at, name.at, name.len) == 0)
                return true;
        }
    }
    return false;
}

/* Programs behind CGI and its kin cannot tell an underscore in a name from a hyphen. */
static bool is_header(struct text name, const char *wanted)
{
    for (size_t i = 0; i < name.len; i++)
        if (tolower((unsigned char)(name.at[i] == '_' ? '-' : name.at[i])) != wanted[i])
            return false;
    return !wanted[name.len];
}

/* Some frameworks let these headers replace the method or the path of a request. A rule about
 * methods and paths would then have decided on another request than the server serves. */
bool http_head_has_override(const struct http_head *h)
{
    static const char *const names[] = {"x-http-method-override", "x-http-method",
                                        "x-method-override", "x-original-url", "x-rewrite-url"};
    for (size_t i = 0; i < h->n_headers; i++)
        for (size_t k = 0; k < ELEMENTS(names); k++)
            if (is_header(h->headers[i].name, names[k]))
                return true;
    return false;
}
