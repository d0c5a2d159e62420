/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the HTTP server, shared by the files of this folder only. conn.c has the theory. */
#pragma once

#include <netinet/in.h>
#include <uv.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "net/chunk.h"
#include "net/http.h"
#include "net/scan.h"
#include "net/target.h"

#define HTTP_FIELDS_MAX     100   /* header fields of a request: 431 */
#define HTTP_QUERY_MAX      64    /* query parameters: 400 */
#define CONN_BODY_ROOM      65536 /* input buffer behind the longest head */
#define CONN_LINGER_MS      5000  /* how long a refused client's bytes are still read */
#define CONN_LINGER_FULL_MS 1000  /* the same, once max_discard_bytes have been read */
#define CONN_REFUSED_MAX    64    /* connections without a place that are being told so */
#define CONN_EARLY_MS       5000  /* for the rest of a body whose answer was sent already */
#define CONN_DISCARD_RATE                                                                          \
    (1024 * 1024) /* bytes thrown away that give such a client one more second */
#define RESPONSE_HEADERS_MAX 65536

/* What one connection may take of one turn of the loop before the others have theirs. */
#define TURN_STEPS          32           /* requests, or reads of WebSocket frames */
#define TURN_BYTES          (256 * 1024) /* read */
#define TURN_MS             2            /* of the turn's own time, whichever connection used it */
#define TURN_BODY           1024         /* bytes of a body that its handler gets without waiting */
#define WS_CLOSE_TIMEOUT_MS 5000

struct holder;
struct peer;
struct tls;
struct tls_context;

enum conn_state {
    CONN_HEAD,    /* waits for a request head; idle while no byte of it has come */
    CONN_BUSY,    /* one request is running: its answer or its body is not complete */
    CONN_WS,      /* handed over to ws.c */
    CONN_TUNNEL,  /* handed over to tunnel.c */
    CONN_LINGER,  /* last answer queued; what still comes is thrown away */
    CONN_CLOSING, /* uv_close() called; freed when libuv says so */
};

enum body_framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED };
enum body_mode { BODY_UNDECIDED, BODY_BUFFER, BODY_STREAM, BODY_DISCARD };
enum answer_state { ANSWER_NONE, ANSWER_STREAMING, ANSWER_DONE };

struct http_request {
    struct conn *conn;
    const char *method_name;
    char *path;
    void *data;
    enum http_method method;
    bool http10, keep_alive, expect_continue, upgrade;
    size_t target_path; /* where the path begins in conn->target */

    enum body_framing framing;
    enum body_mode mode;
    uint64_t content_length, body_left;
    size_t discarded;
    uint64_t body_since, paused_at, answered_at;
    uint64_t body_got; /* with its framing */
    struct chunk_decoder chunk;
    bool body_done, body_told, paused;
    size_t body_max;
    void (*on_body)(struct http_request *, const char *, size_t);
    void (*on_too_large)(struct http_request *);
    void (*on_chunk)(struct http_request *, const char *, size_t);

    enum answer_state answer;
    bool close;     /* the connection ends with this answer */
    bool no_body;   /* HEAD, 204, 304 */
    bool unchunked; /* streamed with a length, or to an HTTP/1.0 client until the connection ends */
    bool want_drain;
    void (*on_drain)(struct http_request *, void *);
    void *drain_data;
    void (*on_abort)(struct http_request *, void *);
    void *abort_data;

    size_t n_fields, n_query;
    /* Not cleared between requests. */
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_field query[HTTP_QUERY_MAX];
};

union conn_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct conn {
    union conn_handle h;
    struct http_server *server;
    struct list node;                       /* server->conns or server->refused */
    struct list stranger, stranger_of_peer; /* until it is admitted */
    struct peer *peer;                      /* its address; NULL for Unix sockets */
    struct holder *holder;                  /* of its tag; NULL without one */
    struct list ready;                      /* server->ready or server->late */
    struct tls *tls;
    struct ws *ws;
    struct http_tunnel *tunnel;
    enum conn_state state;
    char tag[HTTP_TAG_SIZE];
    char credential[HTTP_TAG_SIZE]; /* "" means the tag's own */
    char address[INET6_ADDRSTRLEN]; /* of the peer */
    bool is_unix, reading, eof, processing, counted;
    bool served;      /* a request has come */
    bool admitted;    /* and its caller was known */
    bool half_closed; /* the client has ended its side and was seen to read on */
    bool linger_read, shutdown_done;
    bool yielded;  /* has used up its share of the turn, and is on server->late */
    bool has_turn; /* was on server->late, and is being served from there */

    /* Used of the share since turn_at (uv_now()). */
    uint64_t turn_at;
    unsigned turn_steps;
    size_t turn_bytes;

    /* Input: [base, pos) is used up, [pos, len) is not looked at yet. The head of a running request
     * lies before base and is not moved. */
    char *in;
    size_t in_base, in_pos, in_len, in_cap;
    struct scan scan;
    size_t lingered;

    uint64_t accepted_at;
    uint64_t since; /* the start of what the present state's timeout measures */
    uint64_t write_since, write_began;
    size_t write_last;
    uint64_t write_in; /* queued since write_began */
    size_t kept;       /* bytes that are copied and not written yet; also in server->kept */
    uint64_t sent;     /* in all */
    uv_shutdown_t shutdown;

    struct strbuf headers; /* of the answer being made */
    struct strbuf target;  /* of the request, as it came */
    struct strbuf body;    /* of BODY_BUFFER, when it does not come in one piece */
    struct http_request req;
};

struct http_server {
    struct http_options o;
    struct tls_context *tls;
    struct list conns, refused, strangers, listeners;
    struct list idle_peers;
    struct map *peers, *holders; /* by address, by tag */
    struct list ready, late;     /* woken from outside; out of their share of a turn */
    size_t n_conns_peak;         /* since memory was last given back */
    bool crowded;                /* there was a crowd, and some of it may still be there */
    size_t n_conns, n_tcp, n_refused, n_idle_peers, n_handles;
    size_t kept; /* bytes of all connections that wait for their readers */
    bool has_unix;
    bool draining, closing, drained_told;
    void (*on_drained)(void *);
    void *drained_data;
    uv_timer_t tick;
    uv_idle_t kick;
    uint64_t tick_ms, ticked_at, warned_at;
    bool tick_left_out;
    int spare_fd;      /* given up to turn callers away when there are no descriptors left */
    struct strbuf out; /* scratch for answers */
    char *tls_in;      /* scratch for encrypted input */
    int64_t date_s;
    char date[80];
};

/* uv_buf_init() has no const and a 32-bit length. */
static inline uv_buf_t buf_of(const void *data, size_t len)
{
    return (uv_buf_t){.base = (char *)data, .len = len};
}

/* server.c */
void server_kick(struct http_server *s, struct conn *c);
/* To the end of the queue of those that have used up their share of this turn. */
void server_yield(struct http_server *s, struct conn *c);
/* This turn of the loop has taken its time already, whichever connections used it. */
bool server_turn_is_over(const struct http_server *s);
void server_unref_handle(struct http_server *s);
void server_conn_gone(struct conn *c);
const char *server_date(struct http_server *s);

/* admit.c */
void admit_init(struct http_server *s);
void admit_done(struct http_server *s);
/* Gives an accepted connection a place, or says why there is none. */
bool admit_conn(struct conn *c, const char **ret_why);
void admit_gone(struct conn *c);
/* Resets connections while more than max_write_total waits for readers. */
void admit_relieve(struct http_server *s);

/* conn.c */
struct conn *conn_new(struct http_server *s, bool is_unix);
void conn_start(struct conn *c);
void conn_refuse(struct conn *c, int status, const char *message);
void conn_process(struct conn *c);
void conn_advance(struct conn *c); /* something changed outside conn_process() */
void conn_linger(struct conn *c, bool read);
void conn_close(struct conn *c);
void conn_reset(struct conn *c);
void conn_tick(struct conn *c, uint64_t now);
bool conn_wants_input(const struct conn *c);
/* Before work beyond a turn's first: whether the share is used up, and then it is marked so. */
bool conn_turn_over(struct conn *c);
/* Before a handler gets a whole body, because its work may grow with it: whether that waits until
 * connections that came before have had theirs, and then it is marked so. */
bool conn_body_waits(struct conn *c, size_t len);
void conn_begin_turn(struct conn *c);
void conn_continue(struct conn *c); /* its next turn has come */
void conn_drained(struct conn *c);

/* conn-io.c */
void conn_write(struct conn *c, const uv_buf_t *bufs, unsigned n);
size_t conn_queued(const struct conn *c);
/* So many bytes do not wait for their reader any more. */
void conn_let_go(struct conn *c, size_t len);
void conn_update_reading(struct conn *c);
/* Decrypts as much as there is room for; whether anything came. */
bool conn_pull_tls(struct conn *c);
void conn_flush_tls(struct conn *c);

/* parse.c: fills c->req from the head at c->in[start..start+len). 0 or a status to refuse it with.
 */
int parse_head(struct conn *c, size_t start, size_t len, const char **ret_message);

/* request.c: one step of the running request's body; whether anything happened. */
bool request_pump(struct conn *c);
/* Whether nothing can go on before more of the body comes. */
bool request_waits(const struct http_request *req);
bool field_has_token(const char *value, const char *token);

/* response.c */
void response_continue(struct http_request *req);
/* Ends an answer that is whole with its head, while its handler would go on. False: it is not one.
 */
bool response_end_bodiless(struct http_request *req);
void response_refuse(struct http_request *req, int status, const char *message);
void response_error(struct http_request *req, int status, const char *message);

/* ws.c */
void ws_input(struct conn *c);
void ws_drained(struct conn *c);
void ws_tick(struct ws *ws, uint64_t now);
void ws_heard(struct ws *ws);
void ws_gone(struct ws *ws);
/* Checks a handshake and answers 101; negative after refusing it, or when it is too late. */
int ws_accept(struct http_request *req, const char *subprotocol);

/* tunnel.c: whether anything was taken; whether something that came still is to be. */
bool tunnel_input(struct conn *c);
bool tunnel_holds_input(const struct conn *c);
void tunnel_drained(struct conn *c);
void tunnel_gone(struct http_tunnel *t);
