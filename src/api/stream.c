/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stream.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "api/view.h"
#include "api/wire.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "net/http.h"

#define EVENT_JSON_MAX    (4 * 1024 * 1024) /* of the largest event, every byte escaped */
#define BINARY_FRAME_MAX  (256 * 1024)      /* output in one message while the reader lags */
#define STREAM_TURN_BYTES (1024 * 1024)     /* output sent before others get a turn */

struct stream {
    struct wire wire;
    struct journal_reader reader;
    struct exec *exec; /* referenced; its sandbox is held while this is open */
    bool follow;
    void (*on_end)(void *data, bool client_left);
    void *data;
};

/* An event is read, formatted and sent in one go: all streams share these. */
static struct strbuf scratch = STRBUF_INIT(EVENT_JSON_MAX), line = STRBUF_INIT(EVENT_JSON_MAX);

/* --- one event */

static void put_u64(char *at, uint64_t n)
{
    n = htole64(n);
    memcpy(at, &n, sizeof(n));
}

static void send_binary(struct stream *s, const struct journal_event *ev)
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
    s->wire.full = !ws_send_parts(s->wire.ws, true, header, sizeof(header), data, len);
}

static void send_event(struct stream *s, const struct journal_event *ev)
{
    strbuf_reset(&line);
    if (s->wire.kind == STREAM_WS_BINARY) {
        send_binary(s, ev);
        return;
    }
    _cleanup_json_ json_t *o = view_event(s->exec, ev);
    wire_begin_line(&s->wire, &line, ev->seq, json_string_value(json_object_get(o, "type")));
    json_format(o, &line);
    wire_send_line(&s->wire, &line);
}

/* --- all events */

/* The journal has nothing more for this reader, now or ever. */
static bool at_end(struct stream *s)
{
    struct journal *j = exec_journal(s->exec);
    return (journal_ended(j) || !s->follow) && s->reader.next_seq > journal_last_seq(j);
}

static void pump_events(struct wire *w)
{
    struct stream *s = container_of(w, struct stream, wire);
    struct journal_event ev;
    size_t sent = 0;
    while (!wire_is_full(w)) {
        size_t max = s->wire.kind == STREAM_WS_BINARY ? BINARY_FRAME_MAX : 0;
        int r = journal_read_span(exec_journal(s->exec), &s->reader, max, &ev, &scratch);
        if (r < 0) {
            s->reader.next_seq++; /* a record that cannot be read back any more */
            continue;
        }
        if (r == 0)
            break;
        send_event(s, &ev);
        sent += ev.len;
        if (sent >= STREAM_TURN_BYTES && !w->full)
            wire_defer(w);
    }
    if (at_end(s)) {
        journal_unsubscribe(&s->reader);
        wire_end(w);
    }
}

static void on_gone(struct wire *w, bool client_left)
{
    struct stream *s = container_of(w, struct stream, wire);
    journal_unsubscribe(&s->reader);
    sandbox_release(exec_sandbox(s->exec));
    exec_unref(s->exec);
    if (s->on_end)
        s->on_end(s->data, client_left);
}

static void on_ready(struct journal_reader *r)
{
    struct stream *s = container_of(r, struct stream, reader);
    wire_wake(&s->wire);
}

void stream_open(struct api_request *req, struct exec *e, const struct stream_query *q,
                 void (*on_end)(void *data, bool client_left), void *data)
{
    static const struct wire_ops ops = {pump_events, on_gone};
    struct stream *s = new0(struct stream);
    s->wire.kind = q->kind;
    s->wire.loop = req->services->loop;
    s->wire.ops = &ops;
    s->exec = exec_ref(e);
    s->follow = q->follow;
    s->reader.next_seq = q->since + 1;
    memcpy(s->reader.from, q->from, sizeof(q->from));
    list_init(&s->reader.node);
    s->reader.on_ready = on_ready;
    s->on_end = on_end;
    s->data = data;
    sandbox_hold(exec_sandbox(e));
    journal_subscribe(exec_journal(e), &s->reader);
    wire_open(&s->wire, api_take(req), q->kind == STREAM_WS_BINARY ? STREAM_BINARY_PROTOCOL : NULL);
}
