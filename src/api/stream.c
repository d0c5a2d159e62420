#include "api/stream.h"

#include <stdlib.h>

#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "net/http.h"

#define EVENT_JSON_MAX (1024 * 1024)

struct stream {
    struct journal_reader reader;
    struct exec *exec; /* referenced; its sandbox is held while this is open */
    struct http_request *http;
    struct ws *ws;
    bool follow;
    bool full; /* waits for on_drain */
    void (*on_gone)(void *data);
    void *data;
    struct strbuf scratch, line;
};

static struct stream *stream_new(struct exec *e, uint64_t since)
{
    struct stream *s = new0(struct stream);
    s->exec = exec_ref(e);
    s->reader.next_seq = since + 1;
    list_init(&s->reader.node);
    strbuf_init(&s->scratch, EVENT_JSON_MAX);
    strbuf_init(&s->line, EVENT_JSON_MAX);
    sandbox_hold(exec_sandbox(e));
    return s;
}

static void stream_free(struct stream *s)
{
    journal_unsubscribe(&s->reader);
    sandbox_release(exec_sandbox(s->exec));
    exec_unref(s->exec);
    strbuf_done(&s->scratch);
    strbuf_done(&s->line);
    free(s);
}

static bool send_event(struct stream *s, const struct journal_event *ev)
{
    _cleanup_json_ json_t *o = view_event(s->exec, ev);
    strbuf_reset(&s->line);
    json_format(o, &s->line);
    if (s->ws)
        return ws_send(s->ws, false, s->line.data, s->line.len);
    strbuf_puts(&s->line, "\n");
    return http_write(s->http, s->line.data, s->line.len);
}

/* The journal has nothing more for this reader, now or ever. */
static bool at_end(struct stream *s)
{
    struct journal *j = exec_journal(s->exec);
    return (journal_ended(j) || !s->follow) && s->reader.next_seq > journal_last_seq(j);
}

static void finish(struct stream *s)
{
    journal_unsubscribe(&s->reader);
    if (s->ws) {
        ws_close(s->ws, 1000, "");
        return; /* on_ws_close frees */
    }
    http_request_on_abort(s->http, NULL, NULL);
    http_request_on_drain(s->http, NULL, NULL);
    http_respond_end(s->http);
    stream_free(s);
}

static void pump(struct stream *s)
{
    struct journal_event ev;
    while (!s->full) {
        int r = journal_read(exec_journal(s->exec), &s->reader, &ev, &s->scratch);
        if (r < 0) {
            s->reader.next_seq++; /* a record that cannot be read back any more */
            continue;
        }
        if (r == 0)
            break;
        s->full = !send_event(s, &ev);
    }
    if (at_end(s))
        finish(s);
}

static void on_ready(struct journal_reader *r)
{
    struct stream *s = container_of(r, struct stream, reader);
    if (!s->full)
        pump(s);
}

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
    void (*on_gone)(void *) = s->on_gone;
    void *gone_data = s->data;
    (void)http;
    stream_free(s);
    if (on_gone)
        on_gone(gone_data);
}

void stream_ndjson(struct http_request *http, struct exec *e, uint64_t since, bool follow,
                   void (*on_gone)(void *data), void *data)
{
    struct stream *s = stream_new(e, since);
    s->http = http;
    s->follow = follow;
    s->on_gone = on_gone;
    s->data = data;
    http_request_on_abort(http, on_http_abort, s);
    http_request_on_drain(http, on_http_drain, s);
    http_respond_begin(http, 200, "application/x-ndjson");
    s->reader.on_ready = on_ready;
    journal_subscribe(exec_journal(e), &s->reader);
    pump(s);
}

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
    if (s->reader.node.next != &s->reader.node)
        pump(s);
}

static void on_ws_close(struct ws *ws)
{
    stream_free(ws_data(ws));
}

void stream_ws(struct http_request *http, struct exec *e, uint64_t since)
{
    static const struct ws_handlers handlers = {on_ws_message, on_ws_drain, on_ws_close};
    struct stream *s = stream_new(e, since);
    s->follow = true;
    s->ws = http_upgrade_ws(http, NULL, &handlers, s);
    if (!s->ws) {
        stream_free(s);
        return;
    }
    s->reader.on_ready = on_ready;
    journal_subscribe(exec_journal(e), &s->reader);
    pump(s);
}
