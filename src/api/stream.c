#include "api/stream.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "loop/loop.h"
#include "net/http.h"

#define EVENT_JSON_MAX    (4 * 1024 * 1024) /* of the largest event, every byte escaped */
#define BINARY_FRAME_MAX  (256 * 1024)      /* output in one message while the reader lags */
#define SSE_KEEPALIVE_MS  15000             /* between two comments that keep it open */
#define STREAM_TURN_BYTES (1024 * 1024)     /* output sent before others get a turn */

struct stream {
    uv_loop_t *loop;
    struct journal_reader reader;
    struct exec *exec; /* referenced; its sandbox is held while this is open */
    enum stream_kind kind;
    struct http_request *http;
    struct ws *ws;
    bool follow;
    bool full;     /* waits for on_drain */
    bool deferred; /* its next turn is on the way */
    struct weak *weak;
    struct loop_timer keepalive;
    void (*on_end)(void *data, bool client_left);
    void *data;
};

/* An event is read, formatted and sent in one go: all streams share these. */
static struct strbuf scratch = STRBUF_INIT(EVENT_JSON_MAX), line = STRBUF_INIT(EVENT_JSON_MAX);

static bool is_ws(const struct stream *s)
{
    return s->kind == STREAM_WS_TEXT || s->kind == STREAM_WS_BINARY;
}

static struct stream *stream_new(struct exec *e, const struct stream_query *q)
{
    struct stream *s = new0(struct stream);
    s->exec = exec_ref(e);
    s->kind = q->kind;
    s->follow = q->follow;
    s->reader.next_seq = q->since + 1;
    memcpy(s->reader.from, q->from, sizeof(q->from));
    list_init(&s->reader.node);
    sandbox_hold(exec_sandbox(e));
    return s;
}

static void on_timer_closed(void *data)
{
    free(data);
}

static void stream_free(struct stream *s)
{
    journal_unsubscribe(&s->reader);
    sandbox_release(exec_sandbox(s->exec));
    exec_unref(s->exec);
    weak_clear(&s->weak);
    if (s->kind == STREAM_SSE)
        loop_timer_close(&s->keepalive, on_timer_closed, s);
    else
        free(s);
}

static void stream_end(struct stream *s, bool client_left)
{
    void (*on_end)(void *, bool) = s->on_end;
    void *data = s->data;
    stream_free(s);
    if (on_end)
        on_end(data, client_left);
}

/* --- one event */

static void put_u64(char *at, uint64_t n)
{
    n = htole64(n);
    memcpy(at, &n, sizeof(n));
}

static bool send_binary(struct stream *s, const struct journal_event *ev)
{
    char header[STREAM_BINARY_HEADER] = {(char)(ev->type + 1), (char)ev->stream};
    const char *data = ev->data;
    size_t len = ev->len;
    if (ev->type != JOURNAL_OUTPUT) {
        _cleanup_json_ json_t *o = view_event(s->exec, ev);
        json_format(o, &line);
        data = line.data;
        len = line.len;
    }
    uint32_t length = htole32((uint32_t)len);
    memcpy(header + 4, &length, sizeof(length));
    put_u64(header + 8, ev->seq);
    put_u64(header + 16, ev->offset);
    put_u64(header + 24, (uint64_t)ev->time_ns);
    return ws_send_parts(s->ws, true, header, sizeof(header), data, len);
}

static bool send_event(struct stream *s, const struct journal_event *ev)
{
    strbuf_reset(&line);
    if (s->kind == STREAM_WS_BINARY)
        return send_binary(s, ev);
    _cleanup_json_ json_t *o = view_event(s->exec, ev);
    if (s->kind == STREAM_SSE)
        strbuf_printf(&line, "id: %llu\nevent: %s\ndata: ", (unsigned long long)ev->seq,
                      json_string_value(json_object_get(o, "type")));
    json_format(o, &line);
    if (s->ws)
        return ws_send(s->ws, false, line.data, line.len);
    strbuf_puts(&line, s->kind == STREAM_SSE ? "\n\n" : "\n");
    return http_write(s->http, line.data, line.len);
}

static int read_event(struct stream *s, struct journal_event *ev)
{
    size_t max = s->kind == STREAM_WS_BINARY ? BINARY_FRAME_MAX : 0;
    return journal_read_span(exec_journal(s->exec), &s->reader, max, ev, &scratch);
}

/* --- all events */

/* The journal has nothing more for this reader, now or ever. */
static bool at_end(struct stream *s)
{
    struct journal *j = exec_journal(s->exec);
    return (journal_ended(j) || !s->follow) && s->reader.next_seq > journal_last_seq(j);
}

static void stream_finish(struct stream *s)
{
    journal_unsubscribe(&s->reader);
    if (s->ws) {
        ws_close(s->ws, 1000, "");
        return; /* on_ws_close frees */
    }
    http_request_on_abort(s->http, NULL, NULL);
    http_request_on_drain(s->http, NULL, NULL);
    http_respond_end(s->http);
    stream_end(s, false);
}

static void pump(struct stream *s);

static void on_turn(void *data)
{
    struct stream *s = weak_unref(data);
    if (!s)
        return;
    s->deferred = false;
    pump(s);
}

static void pump(struct stream *s)
{
    struct journal_event ev;
    size_t sent = 0;
    if (list_empty(&s->reader.node))
        return; /* it has ended and is closing */
    while (!s->full && !s->deferred) {
        int r = read_event(s, &ev);
        if (r < 0) {
            s->reader.next_seq++; /* a record that cannot be read back any more */
            continue;
        }
        if (r == 0)
            break;
        s->full = !send_event(s, &ev);
        sent += ev.len;
        if (sent >= STREAM_TURN_BYTES && !s->full) {
            s->deferred = true;
            loop_defer(s->loop, on_turn, weak_ref(&s->weak, s));
        }
    }
    if (at_end(s))
        stream_finish(s);
}

static void on_ready(struct journal_reader *r)
{
    struct stream *s = container_of(r, struct stream, reader);
    if (!s->full && !s->deferred)
        pump(s);
}

static void subscribe(struct stream *s)
{
    s->reader.on_ready = on_ready;
    journal_subscribe(exec_journal(s->exec), &s->reader);
    pump(s);
}

/* --- over HTTP */

static void on_http_drain(struct http_request *http, void *data)
{
    struct stream *s = data;
    (void)http;
    s->full = false;
    pump(s);
}

static void on_http_abort(struct http_request *http, void *data)
{
    struct stream *s = data;
    (void)http;
    stream_end(s, true);
}

/* Proxies close connections that are silent. */
static void on_keepalive(void *data)
{
    struct stream *s = data;
    if (!s->full)
        s->full = !http_write(s->http, ":\n\n", 3);
}

static void open_http(struct stream *s)
{
    http_request_on_abort(s->http, on_http_abort, s);
    http_request_on_drain(s->http, on_http_drain, s);
    if (s->kind == STREAM_SSE) {
        loop_timer_init(&s->keepalive, s->loop, on_keepalive, s);
        loop_timer_start_every(&s->keepalive, SSE_KEEPALIVE_MS);
        http_response_header(s->http, "Cache-Control", "no-cache");
        http_respond_begin(s->http, 200, "text/event-stream");
    } else {
        http_respond_begin(s->http, 200, "application/x-ndjson");
    }
    subscribe(s);
}

/* --- over a WebSocket */

static void on_ws_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    (void)ws;
    (void)binary;
    (void)data;
    (void)len;
}

static void on_ws_drain(struct ws *ws)
{
    struct stream *s = ws_data(ws);
    s->full = false;
    pump(s);
}

static void on_ws_close(struct ws *ws)
{
    struct stream *s = ws_data(ws);
    stream_end(s, !list_empty(&s->reader.node));
}

static void open_ws(struct stream *s, struct http_request *http)
{
    static const struct ws_handlers handlers = {on_ws_message, on_ws_drain, on_ws_close};
    const char *protocol = s->kind == STREAM_WS_BINARY ? STREAM_BINARY_PROTOCOL : NULL;
    s->ws = http_upgrade_ws(http, protocol, &handlers, s);
    if (s->ws)
        subscribe(s);
    else
        stream_end(s, true);
}

void stream_open(struct api_request *req, struct exec *e, const struct stream_query *q,
                 void (*on_end)(void *data, bool client_left), void *data)
{
    struct stream *s = stream_new(e, q);
    s->loop = req->services->loop;
    s->on_end = on_end;
    s->data = data;
    struct http_request *http = api_take(req);
    if (is_ws(s)) {
        open_ws(s, http);
    } else {
        s->http = http;
        open_http(s);
    }
}
