/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 and WebSocket server on libuv.
 *
 * Nothing above this header sees libuv, llhttp, wslay or OpenSSL callbacks. All functions are
 * called on the loop's thread. A handler is called once per request, when its headers are complete;
 * it must answer exactly once (http_respond*, or http_upgrade_ws), now or later. A request stays
 * valid until it has been answered in full: no callback of its is called after that, and what is
 * left of its body is discarded. on_abort is called once if that cannot happen any more: the client
 * went away, the server is closed, the body was refused by this layer (malformed, too slow, too
 * large without on_too_large), or the request is a HEAD whose answer was begun as a stream. The
 * request is invalid when on_abort returns. Callbacks are never called from inside a function of
 * this header. Requests on one connection are handled one after another (pipelining), answers in
 * order.
 *
 * A client that ends its side of the connection after its request may still read: it is sent an
 * interim answer (100), and has left if the kernel then says so. Where that cannot be tried, in the
 * middle of an answer or over TCP in HTTP/1.0, it counts as gone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct error;
struct http_server;
struct http_request;
struct ws;
struct http_tunnel;

/* The underscore keeps them apart from the parser's own names. */
enum http_method {
    HTTP_GET_,
    HTTP_HEAD_,
    HTTP_POST_,
    HTTP_PUT_,
    HTTP_DELETE_,
    HTTP_PATCH_,
    HTTP_OPTIONS_,
    HTTP_OTHER_, /* any other method the parser knows; unknown ones are answered 501 */
};

/* What an operator may set (configuration keys in config/table.c). */
struct http_config {
    int listen_backlog;     /* not accepted yet */
    size_t max_connections; /* over it: 503, for the longest incomplete one or for the newcomer */
    unsigned unix_reserve_percent; /* of them, for Unix sockets where there is one */
    unsigned address_percent; /* for strangers of one address when all are taken; 0 is no limit */
    unsigned tag_percent;     /* for one tag; 0 is no limit */
    unsigned refusals_per_minute; /* http_request_refusal() of one address; 0 is no limit */
    size_t max_header_bytes;      /* request line and headers together: 431 */
    size_t max_discard_bytes;   /* after a 413, how much of the body is still read before closing */
    uint64_t header_timeout_ms; /* from first byte to end of headers: 408; and to the first byte */
    uint64_t body_timeout_ms;   /* between two reads of a body: 408 */
    uint64_t body_total_ms;     /* for a whole body; 0: no limit */
    size_t body_min_rate;       /* bytes a second of a body, after body_timeout_ms; 0: no limit */
    size_t write_min_rate;      /* the same for an answer that has to wait for its reader */
    uint64_t idle_timeout_ms;   /* keep-alive */
    uint64_t write_timeout_ms;  /* a client that takes no byte of its answer for this is dropped */
    uint64_t write_total_ms;    /* for a whole answer of more than max_write_queue; 0: any time */
    size_t max_write_queue;     /* bytes queued on one connection before http_write() says stop */
    size_t max_write_total;     /* on all connections, before the slowest reader is reset */
    size_t ws_max_message;
    uint64_t ws_ping_ms;      /* 0 means no pings; a peer that misses two is closed */
    char *tls_cert, *tls_key; /* PEM texts (not paths); NULL: plain */
};

struct http_options {
    uv_loop_t *loop;
    void (*on_request)(struct http_request *req, void *data);
    void *data;
    struct http_config config; /* its strings are used by http_server_new() only */
    /* The body of an answer this layer gives by itself (400, 408, 413, 415, 431, 501, 503, 505):
     * writes at most size bytes to out and returns how many. NULL: a line of plain text. */
    size_t (*format_error)(int status, const char *message, char *out, size_t size);
    const char *error_type; /* content type of what format_error writes */
    /* Whether a body with a Content-Encoding is for a handler that passes it on as it is; all
     * others are refused with 415. NULL if none is. */
    bool (*takes_encoded)(struct http_request *req, void *data);
};

/* Defaults for everything but loop, on_request and data. */
void http_options_init(struct http_options *o);
/* Ignores SIGPIPE in the whole process, as libuv asks of its users. */
struct http_server *http_server_new(const struct http_options *o, struct error *err);
/* Takes a bound, listening socket (TCP or Unix); it is the server's even on failure. */
int http_server_listen_fd(struct http_server *s, int fd, struct error *err);
/* "host:port", "[v6]:port", ":port" (all interfaces), "unix:PATH". Returns the listening
 * descriptor; ret_loopback says whether only this machine can reach it. For use before privileges
 * are dropped. */
int http_listen_open(const char *address, int backlog, bool *ret_loopback, struct error *err);
/* Stops accepting, closes idle connections, tells WebSockets to go away (1001) and finishes running
 * requests; then calls on_drained. The server still has to be closed. */
void http_server_drain(struct http_server *s, void (*on_drained)(void *data), void *data);
/* Ends every connection whose last request has this tag, or came with this credential: a WebSocket
 * with 1008 and reason, anything else at once. "" ends none. */
void http_server_drop(struct http_server *s, const char *tag, const char *reason);
/* Ends every connection but that of this request, in the same way. */
void http_request_drop_others(struct http_request *req, const char *reason);
/* Closes everything now. The server is freed once libuv has closed its handles. */
void http_server_close(struct http_server *s);
size_t http_server_connections(const struct http_server *s);

/* --- the request. Strings are valid as long as the request is. */
enum http_method http_request_method(const struct http_request *req);
const char *http_request_method_name(const struct http_request *req);
/* Percent-decoded, without the query. An escaped slash (%2F) and an escaped percent sign (%25) stay
 * as they are: they are no separator, and http_decode_segment() is for what lies between those. */
const char *http_request_path(const struct http_request *req);
void http_decode_segment(char *segment); /* in place */
/* Path and query as they came, for a handler that passes them on; begins with '/', or is "*". */
const char *http_request_target(const struct http_request *req);
/* A decoded query parameter, or NULL. */
const char *http_request_query(const struct http_request *req, const char *name);
/* The name of the parameter at a place from 0 on, and its value; NULL if there are no more. */
const char *http_request_query_at(const struct http_request *req, size_t at,
                                  const char **ret_value);
const char *http_request_header(const struct http_request *req, const char *name); /* or NULL */
/* The name of the header field at a place from 0 on, and its value; NULL if there are no more. */
const char *http_request_header_at(const struct http_request *req, size_t at,
                                   const char **ret_value);
bool http_request_is_tls(const struct http_request *req);
bool http_request_is_unix(const struct http_request *req); /* came over a Unix socket */
/* The caller's numeric address, without its port; "" where it has none (a Unix socket). */
const char *http_request_address(const struct http_request *req);
bool http_request_wants_ws(const struct http_request *req); /* asks for a WebSocket upgrade */
/* The Sec-WebSocket-Accept that answers it; false where it asks for no WebSocket, or wrongly. */
#define HTTP_WS_ACCEPT_SIZE 32
bool http_request_ws_accept(const struct http_request *req, char ret[HTTP_WS_ACCEPT_SIZE]);
/* The caller is known, and the connection serves the tag from now on (http_server_drop()); it is
 * cut at HTTP_TAG_SIZE - 1. "" is a caller who is not counted. -EUSERS when the tag has its share
 * of connections already: this answer will be the connection's last. */
#define HTTP_TAG_SIZE 64
int http_request_admit(struct http_request *req, const char *tag);
/* What the request came with, where that can end before its tag does; "": nothing of the kind. The
 * connection is counted for the tag all the same. */
void http_request_set_credential(struct http_request *req, const char *id);
/* The request will be refused. False when the caller's address has used up its refusals and no
 * request was admitted on this connection: this answer will be the connection's last. */
bool http_request_refusal(struct http_request *req);
void *http_request_data(const struct http_request *req);
void http_request_set_data(struct http_request *req, void *data);
void http_request_on_abort(struct http_request *req,
                           void (*on_abort)(struct http_request *, void *data), void *data);

/* --- the body. Without either call the body is discarded when the answer is sent.
 * read: buffers all of it, then on_body once (body is NUL-terminated, valid during the call). A
 * body over max is answered 413 by this layer through on_too_large (NULL: plain text), and on_body
 * is not called. */
void http_request_read_body(struct http_request *req, size_t max,
                            void (*on_body)(struct http_request *, const char *body, size_t len),
                            void (*on_too_large)(struct http_request *));
/* The length the client announced, or -1 for none or chunked. */
int64_t http_request_content_length(const struct http_request *req);
/* Whether there is one, or may be: it is not known to be empty. */
bool http_request_has_body(const struct http_request *req);
/* stream: on_chunk as bytes come, len 0 at the end. pause/resume stop and start reading. */
void http_request_stream_body(struct http_request *req,
                              void (*on_chunk)(struct http_request *, const char *data,
                                               size_t len));
void http_request_pause(struct http_request *req);
void http_request_resume(struct http_request *req);

/* --- the answer. Headers must be set before the first respond call; values are copied, and control
 * bytes in them become spaces. "Connection: close" closes after this answer. Date, Content-Length,
 * Transfer-Encoding and Connection are set by this layer. */
void http_response_header(struct http_request *req, const char *name, const char *value);
void http_respond(struct http_request *req, int status, const char *content_type, const char *body,
                  size_t len);
/* A chunked answer: begin, write*, end. http_write() returns false when the queue is over
 * max_write_queue: the data is still taken, but the caller should wait for on_drain. */
void http_respond_begin(struct http_request *req, int status, const char *content_type);
/* The same with a Content-Length: the caller writes exactly that much, or aborts. */
void http_respond_begin_sized(struct http_request *req, int status, const char *content_type,
                              uint64_t length);
bool http_write(struct http_request *req, const char *data, size_t len);
void http_request_on_drain(struct http_request *req,
                           void (*on_drain)(struct http_request *, void *data), void *data);
void http_respond_end(struct http_request *req);
/* Cuts the connection without an end, so that the client sees a broken answer. */
void http_respond_abort(struct http_request *req);

/* --- WebSocket. */
struct ws_handlers {
    /* binary false: the text is valid UTF-8. Data is valid during the call. */
    void (*on_message)(struct ws *ws, bool binary, const char *data, size_t len);
    void (*on_drain)(struct ws *ws); /* after ws_send() said false and the queue emptied */
    void (*on_close)(
        struct ws *ws); /* once, whichever side closed; ws is invalid when it returns */
    /* The peer only sends: it gets no pings, and TCP's own probes find out that it is gone. */
    bool peer_never_reads;
};
/* Answers 101 and takes the connection over; req is invalid afterwards. subprotocol may be NULL.
 * Returns NULL after answering 400 when the handshake headers are wrong (426 for the version). */
struct ws *http_upgrade_ws(struct http_request *req, const char *subprotocol,
                           const struct ws_handlers *handlers, void *data);
void *ws_data(const struct ws *ws);
/* Queues a message; false when the queue is over max_write_queue (the data is still taken). */
bool ws_send(struct ws *ws, bool binary, const char *data, size_t len);
/* The same with a message in two parts. */
bool ws_send_parts(struct ws *ws, bool binary, const void *head, size_t head_len, const void *data,
                   size_t len);
size_t ws_queued(const struct ws *ws);
/* Sends a close frame (1000, 1001, 1008, 1011, ...) after what is queued, then closes. No message
 * is delivered after this; on_close still comes. */
void ws_close(struct ws *ws, uint16_t code, const char *reason);
void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);

/* --- a connection whose bytes are passed on as they are, after a WebSocket handshake. */
struct http_tunnel_handlers {
    void (*on_data)(struct http_tunnel *t, const char *data,
                    size_t len);             /* valid during the call */
    void (*on_drain)(struct http_tunnel *t); /* after a write said false and the queue emptied */
    void (*on_close)(
        struct http_tunnel *t); /* once, whichever side closed; t is invalid when it returns */
};
/* As http_upgrade_ws(): the client's handshake is checked and answered here. */
struct http_tunnel *http_upgrade_tunnel(struct http_request *req, const char *subprotocol,
                                        const struct http_tunnel_handlers *handlers, void *data);
void *http_tunnel_data(const struct http_tunnel *t);
/* False when the queue is over max_write_queue (the data is still taken). */
bool http_tunnel_write(struct http_tunnel *t, const char *data, size_t len);
void http_tunnel_pause(struct http_tunnel *t);
void http_tunnel_resume(struct http_tunnel *t);
/* Closes after what is queued. */
void http_tunnel_end(struct http_tunnel *t);
