/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests on libcurl's easy interface. An answer goes to a sink: buffered whole, or handed on
 * piece by piece. An answer that is not 2xx is always buffered, because it holds the error. */
#include "libsbx/internal.h"

#include <stdio.h>
#include <string.h>

#define ERROR_BODY_MAX (64u << 10)

struct transfer {
    struct sbx_client *c;
    const char *method;
    const char *path;
    const char *body; /* JSON, or NULL */
    sbx_read_fn *read;
    void *read_data;
    long long size;
    const char *accept;
    bool unlimited; /* a stream: no whole-request timeout */

    sbx_write_fn *write; /* NULL keeps it in the buffer */
    void *write_data;
    struct strbuf buffer;
    bool too_long;
    bool write_stopped;
    bool read_failed;
    long status;
};

static size_t on_write(char *data, size_t size, size_t n, void *opaque)
{
    struct transfer *t = opaque;
    size_t len = size * n;
    curl_easy_getinfo(t->c->curl, CURLINFO_RESPONSE_CODE, &t->status);
    if (t->write && libsbx_is_ok(t->status)) {
        t->write_stopped = t->write(t->write_data, data, len) != 0;
        return t->write_stopped ? CURL_WRITEFUNC_ERROR : len;
    }
    if (strbuf_append(&t->buffer, data, len) < 0) {
        t->too_long = true;
        return CURL_WRITEFUNC_ERROR;
    }
    return len;
}

static size_t on_read(char *buf, size_t size, size_t n, void *opaque)
{
    struct transfer *t = opaque;
    long got = t->read(t->read_data, buf, size * n);
    if (got >= 0)
        return (size_t)got;
    t->read_failed = true;
    return CURL_READFUNC_ABORT;
}

static struct curl_slist *make_headers(const struct transfer *t)
{
    /* No "Expect: 100-continue": it costs a round trip, and refusals are read either way. */
    struct curl_slist *h = curl_slist_append(NULL, "Expect:");
    if (t->c->auth_header)
        h = curl_slist_append(h, t->c->auth_header);
    if (t->c->approval_header)
        h = curl_slist_append(h, t->c->approval_header);
    if (t->accept)
        h = curl_slist_append(h, t->accept);
    h = curl_slist_append(h, t->read ? "Content-Type: application/octet-stream"
                                     : "Content-Type: application/json");
    if (t->read && t->size < 0)
        h = curl_slist_append(h, "Transfer-Encoding: chunked");
    return h;
}

static void set_body(struct transfer *t)
{
    CURL *h = t->c->curl;
    if (t->read) {
        curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(h, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(h, CURLOPT_READDATA, t);
        curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->size);
    } else if (t->body || strcmp(t->method, "POST") == 0 || strcmp(t->method, "PUT") == 0) {
        const char *body = t->body ? t->body : "";
        curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
    }
    if (strcmp(t->method, "GET") != 0 || t->body)
        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, t->method);
}

static int explain_transfer(struct transfer *t, CURLcode code, const char *detail,
                            struct sbx_error *err)
{
    if (t->too_long)
        return libsbx_fail(err, "too_large", "the daemon's answer is over %u MiB",
                           SBX_RESPONSE_MAX >> 20);
    if (t->write_stopped || t->read_failed)
        return libsbx_fail(err, "canceled", "the transfer was given up");
    return libsbx_fail_curl(err, t->c, code, detail);
}

/* Runs it. On success t->status is set, and t->buffer holds what was not handed to write. */
static int perform_transfer(struct transfer *t, struct sbx_error *err)
{
    CURL *h = t->c->curl;
    char detail[CURL_ERROR_SIZE];
    _cleanup_free_ char *url = libsbx_url(t->c, t->path);
    libsbx_setup(t->c, h, detail);
    curl_easy_setopt(h, CURLOPT_URL, url);
    if (t->c->timeout_ms && !t->unlimited)
        curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, t->c->timeout_ms);
    set_body(t);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, t);
    struct curl_slist *headers = make_headers(t);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(h);
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &t->status);
    /* Pointers to this frame must not stay in the handle. */
    curl_easy_reset(h);
    curl_slist_free_all(headers);
    /* A daemon that refuses an upload may stop reading it; its answer says more than the cut. */
    if (code == CURLE_SEND_ERROR && t->status >= 400)
        return 0;
    return code == CURLE_OK ? 0 : explain_transfer(t, code, detail, err);
}

static int fail_unless_ok(struct transfer *t, struct sbx_error *err)
{
    if (libsbx_is_ok(t->status))
        return 0;
    return libsbx_fail_http(err, (int)t->status, t->buffer.data, t->buffer.len);
}

static void take_response(struct transfer *t, struct sbx_response *ret)
{
    *ret = (struct sbx_response){.status = (int)t->status, .body_len = t->buffer.len};
    ret->body = strbuf_steal(&t->buffer);
}

void sbx_response_done(struct sbx_response *r)
{
    free(r->body);
    *r = (struct sbx_response){0};
}

int sbx_request(struct sbx_client *c, const char *method, const char *path, const char *body,
                struct sbx_response *ret, struct sbx_error *err)
{
    struct transfer t = {.c = c,
                         .method = method,
                         .path = path,
                         .body = body,
                         .buffer = STRBUF_INIT(SBX_RESPONSE_MAX)};
    int r = perform_transfer(&t, err);
    if (r == 0)
        take_response(&t, ret);
    strbuf_done(&t.buffer);
    return r;
}

int sbx_call(struct sbx_client *c, const char *method, const char *path, const char *body,
             struct sbx_response *ret, struct sbx_error *err)
{
    struct sbx_response resp;
    if (sbx_request(c, method, path, body, &resp, err) < 0)
        return -1;
    int r = 0;
    if (!libsbx_is_ok(resp.status))
        r = libsbx_fail_http(err, resp.status, resp.body, resp.body_len);
    if (r == 0 && ret)
        *ret = resp;
    else
        sbx_response_done(&resp);
    return r;
}

int sbx_upload(struct sbx_client *c, const char *method, const char *path, sbx_read_fn *read,
               void *data, long long size, struct sbx_response *ret, struct sbx_error *err)
{
    struct transfer t = {.c = c,
                         .method = method,
                         .path = path,
                         .read = read,
                         .read_data = data,
                         .size = size,
                         .unlimited = true,
                         .buffer = STRBUF_INIT(SBX_RESPONSE_MAX)};
    int r = perform_transfer(&t, err);
    if (r == 0)
        r = fail_unless_ok(&t, err);
    if (r == 0 && ret)
        take_response(&t, ret);
    strbuf_done(&t.buffer);
    return r;
}

static int stream_request(struct sbx_client *c, const char *method, const char *path,
                          const char *body, const char *accept, sbx_write_fn *write, void *data,
                          struct sbx_error *err)
{
    struct transfer t = {.c = c,
                         .method = method,
                         .path = path,
                         .body = body,
                         .accept = accept,
                         .unlimited = true,
                         .write = write,
                         .write_data = data,
                         .buffer = STRBUF_INIT(ERROR_BODY_MAX)};
    int r = perform_transfer(&t, err);
    if (r == 0)
        r = fail_unless_ok(&t, err);
    strbuf_done(&t.buffer);
    return r;
}

int sbx_download(struct sbx_client *c, const char *path, sbx_write_fn *write, void *data,
                 struct sbx_error *err)
{
    return stream_request(c, "GET", path, NULL, NULL, write, data, err);
}

struct line_splitter {
    struct strbuf rest; /* an unfinished line */
    sbx_write_fn *on_line;
    void *data;
    bool too_long;
};

static int give_line(struct line_splitter *s, const char *line, size_t len)
{
    if (len && line[len - 1] == '\r')
        len--;
    return len ? s->on_line(s->data, line, len) : 0;
}

static int split_lines(void *opaque, const char *piece, size_t len)
{
    struct line_splitter *s = opaque;
    const char *newline;
    while ((newline = memchr(piece, '\n', len))) {
        size_t n = (size_t)(newline - piece);
        int r;
        if (s->rest.len) {
            s->too_long = strbuf_append(&s->rest, piece, n) < 0;
            r = s->too_long ? -1 : give_line(s, s->rest.data, s->rest.len);
            strbuf_reset(&s->rest);
        } else {
            r = give_line(s, piece, n);
        }
        if (r != 0)
            return r;
        piece += n + 1;
        len -= n + 1;
    }
    s->too_long = strbuf_append(&s->rest, piece, len) < 0;
    return s->too_long ? -1 : 0;
}

int sbx_stream_lines(struct sbx_client *c, const char *method, const char *path, const char *body,
                     sbx_write_fn *on_line, void *data, struct sbx_error *err)
{
    struct line_splitter s = {.rest = STRBUF_INIT(SBX_LINE_MAX), .on_line = on_line, .data = data};
    int r =
        stream_request(c, method, path, body, "Accept: application/x-ndjson", split_lines, &s, err);
    if (r == 0 && s.rest.len && give_line(&s, s.rest.data, s.rest.len) != 0)
        r = libsbx_fail(err, "canceled", "the transfer was given up");
    if (s.too_long)
        libsbx_fail(err, "too_large", "a line of the stream is over %u MiB", SBX_LINE_MAX >> 20);
    strbuf_done(&s.rest);
    return r;
}
