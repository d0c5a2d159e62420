/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler asks of a request, and how its body reaches it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "net/conn.h"

enum http_method http_request_method(const struct http_request *req)
{
    return req->method;
}

const char *http_request_method_name(const struct http_request *req)
{
    return req->method_name;
}

const char *http_request_path(const struct http_request *req)
{
    return req->path;
}

/* Without the authority of an absolute target and without a fragment, which clients do not send. */
const char *http_request_target(const struct http_request *req)
{
    return req->conn->target.data + req->target_path;
}

bool http_request_has_body(const struct http_request *req)
{
    return req->framing != FRAMING_NONE;
}

bool http_request_is_tls(const struct http_request *req)
{
    return req->conn->tls;
}

const char *http_request_header_at(const struct http_request *req, size_t at,
                                   const char **ret_value)
{
    if (at >= req->n_fields)
        return NULL;
    *ret_value = req->fields[at].value;
    return req->fields[at].name;
}

const char *http_request_query(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_query; i++)
        if (!strcmp(req->query[i].name, name))
            return req->query[i].value;
    return NULL;
}

const char *http_request_query_at(const struct http_request *req, size_t at, const char **ret_value)
{
    if (at >= req->n_query)
        return NULL;
    *ret_value = req->query[at].value;
    return req->query[at].name;
}

const char *http_request_header(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_fields; i++)
        if (!strcasecmp(req->fields[i].name, name))
            return req->fields[i].value;
    return NULL;
}

bool http_request_is_unix(const struct http_request *req)
{
    return req->conn->is_unix;
}

const char *http_request_address(const struct http_request *req)
{
    return req->conn->address;
}

bool http_request_wants_ws(const struct http_request *req)
{
    const char *upgrade = req->upgrade ? http_request_header(req, "Upgrade") : NULL;
    return upgrade && field_has_token(upgrade, "websocket");
}

void *http_request_data(const struct http_request *req)
{
    return req->data;
}

void http_request_set_data(struct http_request *req, void *data)
{
    req->data = data;
}

void http_request_on_abort(struct http_request *req,
                           void (*on_abort)(struct http_request *, void *data), void *data)
{
    req->on_abort = on_abort;
    req->abort_data = data;
}

void http_request_on_drain(struct http_request *req,
                           void (*on_drain)(struct http_request *, void *data), void *data)
{
    req->on_drain = on_drain;
    req->drain_data = data;
}

int64_t http_request_content_length(const struct http_request *req)
{
    return req->framing == FRAMING_LENGTH ? (int64_t)req->content_length : -1;
}

/* Whether a comma-separated list holds the token, in any case. */
bool field_has_token(const char *value, const char *token)
{
    size_t want = strlen(token);
    while (*value) {
        value += strspn(value, ", \t");
        size_t len = strcspn(value, ", \t");
        if (len == want && !strncasecmp(value, token, len))
            return true;
        value += len;
    }
    return false;
}

/* The handler wants the body, and only now is a client that waits for 100 Continue asked to send
 * it: one that is refused before never sends a byte. The body is timed from here. */
static void begin_body(struct http_request *req, enum body_mode mode)
{
    struct conn *c = req->conn;
    if (c->state != CONN_BUSY || req->mode != BODY_UNDECIDED)
        return;
    req->mode = mode;
    c->since = req->body_since = uv_now(c->server->o.loop);
    /* Where bytes of the body are here already, the client did not wait, and the interim answer
     * would only confuse it. */
    if (req->expect_continue && c->in_pos == c->in_len)
        response_continue(req);
    req->expect_continue = false;
    conn_advance(c);
}

void http_request_read_body(struct http_request *req, size_t max,
                            void (*on_body)(struct http_request *, const char *body, size_t len),
                            void (*on_too_large)(struct http_request *))
{
    req->body_max = max;
    req->on_body = on_body;
    req->on_too_large = on_too_large;
    /* Known to be too large: no 100-continue is sent for it. */
    if (req->framing == FRAMING_LENGTH && req->content_length > max &&
        req->mode == BODY_UNDECIDED) {
        req->mode = BODY_BUFFER;
        conn_advance(req->conn);
        return;
    }
    begin_body(req, BODY_BUFFER);
}

void http_request_stream_body(struct http_request *req,
                              void (*on_chunk)(struct http_request *, const char *data, size_t len))
{
    req->on_chunk = on_chunk;
    begin_body(req, BODY_STREAM);
}

void http_request_pause(struct http_request *req)
{
    if (!req->paused)
        req->paused_at = uv_now(req->conn->server->o.loop);
    req->paused = true;
}

void http_request_resume(struct http_request *req)
{
    uint64_t now = uv_now(req->conn->server->o.loop);
    if (req->paused)
        req->body_since += now - req->paused_at; /* that time was ours */
    req->paused = false;
    req->conn->since = now;
    conn_advance(req->conn);
}

/* The rest is read and thrown away for a while, so that the client gets to see the answer; the
 * connection is not used again. */
static void too_large(struct http_request *req)
{
    req->close = true;
    req->mode = BODY_DISCARD;
    if (req->answer != ANSWER_NONE)
        return;
    if (req->on_too_large)
        req->on_too_large(req);
    else
        response_error(req, 413, "the body is too large");
}

static void deliver_body(struct http_request *req, const char *data, size_t len)
{
    struct conn *c = req->conn;
    switch (req->mode) {
    case BODY_STREAM:
        req->on_chunk(req, data, len);
        break;
    case BODY_BUFFER:
        if (!c->body.len)
            c->body.max = req->body_max;
        if (strbuf_append(&c->body, data, len) < 0)
            too_large(req);
        break;
    default:
        req->discarded += len;
        break;
    }
}

/* A whole body that lies in the input buffer is handed over from there. The byte behind it, which
 * may belong to the next request, is put back afterwards; the buffer has one spare byte. */
static void deliver_whole(struct http_request *req, char *data, size_t len)
{
    char behind = data[len];
    data[len] = 0;
    req->body_told = true;
    req->on_body(req, data, len);
    data[len] = behind;
}

static bool pump_length(struct conn *c)
{
    struct http_request *req = &c->req;
    size_t avail = c->in_len - c->in_pos;
    size_t n = req->body_left < avail ? (size_t)req->body_left : avail;
    char *data = c->in + c->in_pos;
    /* Decided by the header, before a byte is stored: the sender's claim is enough to refuse. */
    if (req->mode == BODY_BUFFER && req->content_length > req->body_max) {
        too_large(req);
        return true;
    }
    bool whole = req->mode == BODY_BUFFER && n == req->content_length;
    if (!n || (whole && conn_body_waits(c, n)))
        return false;
    c->in_pos += n;
    req->body_got += n;
    req->body_left -= n;
    req->body_done = !req->body_left;
    if (whole)
        deliver_whole(req, data, n);
    else
        deliver_body(req, data, n);
    return true;
}

/* A body whose framing is broken has no end that could be relied on: the connection ends with it.
 * An answer that was begun already is cut off by a reset, so that it does not look complete. */
static bool pump_chunked(struct conn *c)
{
    struct http_request *req = &c->req;
    if (c->in_pos == c->in_len)
        return false;
    const char *piece;
    size_t len;
    ssize_t n = chunk_decode(&req->chunk, c->in + c->in_pos, c->in_len - c->in_pos, &piece, &len);
    if (n < 0) {
        /* Whatever follows in the buffer could be read as a second request that its sender hid in a
         * broken chunk. */
        req->close = true;
        req->mode = BODY_DISCARD;
        if (req->answer == ANSWER_NONE)
            response_error(req, 400, "malformed chunked body");
        else
            conn_reset(c);
        return true;
    }
    c->in_pos += (size_t)n;
    req->body_got += (size_t)n;
    req->body_done = req->chunk.done;
    if (len)
        deliver_body(req, piece, len);
    return true;
}

bool request_waits(const struct http_request *req)
{
    return !req->body_done && !req->paused && req->conn->in_pos == req->conn->in_len &&
           req->mode != BODY_UNDECIDED && (req->mode != BODY_DISCARD || req->answer == ANSWER_DONE);
}

/* Moves one piece of the body to the handler; true when there may be more to do. A body that is to
 * be thrown away waits until the answer is there, which says whether the connection goes on. */
bool request_pump(struct conn *c)
{
    struct http_request *req = &c->req;
    if (req->mode == BODY_UNDECIDED || req->paused)
        return false;
    if (req->mode == BODY_DISCARD && req->answer != ANSWER_DONE)
        return false;
    if (req->body_done) {
        /* The end of a body comes once, and not to a handler that has answered before it. */
        struct strbuf *b = &req->conn->body;
        if (req->body_told || req->answer == ANSWER_DONE ||
            (req->mode == BODY_BUFFER && conn_body_waits(req->conn, b->len)))
            return false;
        req->body_told = true;
        if (req->mode == BODY_STREAM)
            req->on_chunk(req, "", 0);
        else if (req->mode == BODY_BUFFER)
            req->on_body(req, b->data ? b->data : "", b->len);
        return true;
    }
    return req->framing == FRAMING_LENGTH ? pump_length(c) : pump_chunked(c);
}
