/* SPDX-License-Identifier: Apache-2.0 */
/* Answers. A small one is one buffer and, when the socket takes it, one write. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "net/conn.h"

#define INLINE_BODY_MAX 16384 /* a body up to this is copied behind its head */
#define ERROR_BODY_MAX  1024

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < ELEMENTS(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Status";
}

/* A handler cannot set Connection by itself, because whether the connection goes on is decided
 * in one place, decide_close(). */
void http_response_header(struct http_request *req, const char *name, const char *value)
{
    if (!strcasecmp(name, "Connection")) {
        req->close |= field_has_token(value, "close");
        return;
    }
    struct strbuf *h = &req->conn->headers;
    size_t n = strlen(name), v = strlen(value);
    if (strbuf_reserve(h, n + v + 4) < 0)
        return;
    strbuf_append(h, name, n);
    strbuf_append(h, ": ", 2);
    size_t at = h->len;
    strbuf_append(h, value, v);
    /* A value from outside must not be able to end its line. */
    for (; at < h->len; at++)
        if ((unsigned char)h->data[at] < 0x20 || h->data[at] == 0x7f)
            h->data[at] = ' ';
    strbuf_append(h, "\r\n", 2);
}

static void put_number(struct strbuf *b, uint64_t n)
{
    char digits[24];
    size_t i = sizeof(digits);
    do
        digits[--i] = (char)('0' + n % 10);
    while (n /= 10);
    strbuf_append(b, digits + i, sizeof(digits) - i);
}

static void put_head(struct http_request *req, struct strbuf *out, int status, const char *type)
{
    strbuf_reset(out);
    strbuf_append(out, "HTTP/1.1 ", 9);
    put_number(out, (uint64_t)status);
    strbuf_append(out, " ", 1);
    strbuf_puts(out, reason_of(status));
    strbuf_puts(out, server_date(req->conn->server));
    if (type) {
        strbuf_append(out, "Content-Type: ", 14);
        strbuf_puts(out, type);
        strbuf_append(out, "\r\n", 2);
    }
    if (req->conn->headers.len)
        strbuf_append(out, req->conn->headers.data, req->conn->headers.len);
    strbuf_reset(&req->conn->headers);
}

static void put_connection(struct http_request *req, struct strbuf *out)
{
    if (req->close)
        strbuf_append(out, "Connection: close\r\n", 19);
    else if (req->http10)
        strbuf_append(out, "Connection: keep-alive\r\n", 24);
    strbuf_append(out, "\r\n", 2);
}

/* Whether the connection can go on after this answer. */
static void decide_close(struct http_request *req)
{
    const struct http_server *s = req->conn->server;
    if (!req->keep_alive || s->draining)
        req->close = true;
    if (req->body_done)
        return;
    /* A client that waits for 100-continue may or may not send its body now. */
    if (req->expect_continue)
        req->close = true;
    if (req->framing == FRAMING_LENGTH && req->body_left > s->o.config.max_discard_bytes)
        req->close = true;
}

/* The handler is done with the request: no callback of its is called any more. */
static void request_set_answered(struct http_request *req)
{
    req->answer = ANSWER_DONE;
    req->mode = BODY_DISCARD;
    req->paused = false;
    req->on_abort = NULL;
    req->want_drain = false;
    req->answered_at = uv_now(req->conn->server->o.loop);
    conn_advance(req->conn);
}

static bool can_answer(struct http_request *req, enum answer_state from)
{
    if (req->conn->state == CONN_BUSY)
        return req->answer == from;
    /* Too late: the connection is going. The handler must not hear of it again. */
    req->answer = ANSWER_DONE;
    req->on_abort = NULL;
    return false;
}

void http_respond(struct http_request *req, int status, const char *content_type, const char *body,
                  size_t len)
{
    if (!can_answer(req, ANSWER_NONE))
        return;
    decide_close(req);
    struct conn *c = req->conn;
    struct strbuf *out = &c->server->out;
    bool bodiless = status == 204 || status == 304;
    put_head(req, out, status, content_type);
    if (!bodiless) {
        strbuf_append(out, "Content-Length: ", 16);
        put_number(out, len);
        strbuf_append(out, "\r\n", 2);
    }
    put_connection(req, out);
    if (bodiless || req->method == HTTP_HEAD_)
        len = 0;
    uv_buf_t bufs[2];
    unsigned n = 1;
    /* One write for the whole answer: a second buffer would cost more than copying a few
     * kilobytes. */
    if (len <= INLINE_BODY_MAX)
        strbuf_append(out, body, len);
    else
        bufs[n++] = buf_of(body, len);
    bufs[0] = buf_of(out->data, out->len);
    conn_write(c, bufs, n);
    request_set_answered(req);
}

/* length NULL: the client learns it from the chunks, or from the end of the connection. */
static void respond_begin(struct http_request *req, int status, const char *content_type,
                          const uint64_t *length)
{
    /* On a connection that is going this is not the end: the handler goes on until on_abort. */
    if (req->conn->state != CONN_BUSY || req->answer != ANSWER_NONE)
        return;
    req->no_body = req->method == HTTP_HEAD_ || status == 204 || status == 304;
    req->unchunked = req->http10 || length;
    /* A client of HTTP/1.0 knows no chunks, so that only the end of the connection can say where
     * the answer ends. */
    if (req->unchunked && !length && !req->no_body)
        req->close = true;
    decide_close(req);
    struct strbuf *out = &req->conn->server->out;
    put_head(req, out, status, content_type);
    if (!req->unchunked && status != 204 && status != 304)
        strbuf_append(out, "Transfer-Encoding: chunked\r\n", 28);
    if (length) {
        strbuf_append(out, "Content-Length: ", 16);
        put_number(out, *length);
        strbuf_append(out, "\r\n", 2);
    }
    put_connection(req, out);
    req->answer = ANSWER_STREAMING;
    uv_buf_t buf = buf_of(out->data, out->len);
    conn_write(req->conn, &buf, 1);
    if (req->no_body)
        conn_advance(req->conn); /* to response_end_bodiless() */
}

void http_respond_begin(struct http_request *req, int status, const char *content_type)
{
    respond_begin(req, status, content_type, NULL);
}

void http_respond_begin_sized(struct http_request *req, int status, const char *content_type,
                              uint64_t length)
{
    respond_begin(req, status, content_type, &length);
}

/* Where the answer streams, the data is queued in any case. False means that the queue is over its
 * limit: the caller stops and waits for on_drain. */
bool http_write(struct http_request *req, const char *data, size_t len)
{
    struct conn *c = req->conn;
    if (c->state != CONN_BUSY || req->answer != ANSWER_STREAMING || req->no_body || !len)
        return true;
    char size[24];
    int n = snprintf(size, sizeof(size), "%zx\r\n", len);
    uv_buf_t bufs[3] = {buf_of(size, (size_t)n), buf_of(data, len), buf_of("\r\n", 2)};
    if (req->unchunked)
        conn_write(c, bufs + 1, 1);
    else
        conn_write(c, bufs, 3);
    if (conn_queued(c) <= c->server->o.config.max_write_queue)
        return true;
    /* The data is queued all the same. A caller that went on regardless would be bounded by
     * nothing, so on_drain is promised exactly when false is returned. */
    req->want_drain = true;
    return false;
}

void http_respond_end(struct http_request *req)
{
    if (!can_answer(req, ANSWER_STREAMING))
        return;
    uv_buf_t buf = buf_of("0\r\n\r\n", 5);
    if (!req->no_body && !req->unchunked)
        conn_write(req->conn, &buf, 1);
    request_set_answered(req);
}

/* An answer to HEAD is whole with its head, but the handler of a stream would go on, without an end
 * where it follows something, and the client's next request would wait behind it. The handler hears
 * what it hears when its client leaves. That comes in a later step and not from
 * http_respond_begin(), whose callers go on with what on_abort frees. */
bool response_end_bodiless(struct http_request *req)
{
    void (*on_abort)(struct http_request *, void *) = req->on_abort;
    if (req->answer != ANSWER_STREAMING || !req->no_body || !on_abort)
        return false;
    void *data = req->abort_data;
    request_set_answered(req);
    on_abort(req, data);
    return true;
}

/* Once the head is out, the only way left to say that the answer is not whole is to reset the
 * connection. */
void http_respond_abort(struct http_request *req)
{
    req->answer = ANSWER_DONE;
    req->on_abort = NULL;
    if (req->conn->state == CONN_BUSY)
        conn_reset(req->conn);
}

void response_continue(struct http_request *req)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buf = buf_of(text, sizeof(text) - 1);
    conn_write(req->conn, &buf, 1);
}

/* This layer's own answer, in the words and shape the server's owner chose. */
void response_refuse(struct http_request *req, int status, const char *message)
{
    const struct http_options *o = &req->conn->server->o;
    char body[ERROR_BODY_MAX];
    size_t len;
    if (o->format_error)
        len = o->format_error(status, message, body, sizeof(body));
    else
        len =
            (size_t)snprintf(body, sizeof(body), "%d %s: %s\n", status, reason_of(status), message);
    if (len > sizeof(body))
        len = sizeof(body);
    const char *type = o->format_error && o->error_type ? o->error_type : "text/plain";
    http_respond(req, status, type, body, len);
}

/* As response_refuse(), over the head of a handler that has the request: it hears by on_abort. */
void response_error(struct http_request *req, int status, const char *message)
{
    void (*on_abort)(struct http_request *, void *) = req->on_abort;
    /* Headers that the handler has set belong to its answer and not to this one. */
    strbuf_reset(&req->conn->headers);
    req->close = true;
    response_refuse(req, status, message);
    if (on_abort)
        on_abort(req, req->abort_data);
}
