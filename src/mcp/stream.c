/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is bounded in four ways: what one stream may have unsent before notifications are left out
 * (queue_bytes), what a session keeps of sent events (replay_bytes) and for how long (replay_ms),
 * and all of it together (buffer_total_bytes). Answers are never left out: their number is bounded
 * by max_calls, and one that does not fit becomes an error. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "mcp/stream-internal.h"
#include "net/http.h"

#define EVENT_ID_SIZE 48

/* --- life */

static void event_drop(struct stream *st, struct event *e)
{
    if (!e->sent)
        st->unsent -= e->len;
    st->mcp->buffered -= e->len;
    if (st->session)
        st->session->buffered -= e->len;
    list_remove(&e->node);
    free(e);
}

void stream_free(struct outlet *o)
{
    struct stream *st = container_of(o, struct stream, outlet);
    list_for_each_safe(e, &st->events, struct event, node)
        event_drop(st, e);
    strbuf_done(&st->collected);
    free(st);
}

/* Out of its session's list; calls may still hold it. */
void stream_forget(struct stream *st)
{
    list_for_each_safe(e, &st->events, struct event, node)
        event_drop(st, e);
    list_remove(&st->node);
    list_remove(&st->waiting);
    st->session = NULL;
    outlet_unref(&st->outlet);
}

static void on_abort(struct http_request *http, void *data)
{
    struct stream *st = data;
    (void)http;
    st->http = NULL;
    st->blocked = false;
    list_remove(&st->waiting);
    if (st->session)
        session_touch(st->session);
    outlet_unref(&st->outlet);
}

static void on_drain(struct http_request *http, void *data)
{
    struct stream *st = data;
    (void)http;
    st->blocked = false;
    stream_pump(st);
}

/* The connection holds a reference. */
void stream_attach(struct stream *st, struct http_request *http)
{
    st->http = http;
    st->blocked = false;
    http_request_on_abort(http, on_abort, st);
    http_request_on_drain(http, on_drain, st);
    outlet_ref(&st->outlet);
}

struct http_request *stream_detach(struct stream *st)
{
    struct http_request *http = steal_ptr(st->http);
    http_request_on_abort(http, NULL, NULL);
    st->blocked = false;
    outlet_unref(&st->outlet);
    return http;
}

void stream_end_connection(struct stream *st)
{
    if (st->http)
        http_respond_end(stream_detach(st));
}

/* --- events */

static void write_raw(struct stream *st, const char *text, size_t len)
{
    st->written_ms = clock_mono_ms();
    st->blocked = !http_write(st->http, text, len);
}

void stream_pump(struct stream *st)
{
    outlet_ref(&st->outlet);
    list_for_each(e, &st->events, struct event, node) {
        if (!st->http || st->blocked)
            break;
        if (e->sent)
            continue;
        e->sent = true;
        st->unsent -= e->len;
        write_raw(st, e->text, e->len);
    }
    if (st->http && st->state == STREAM_DONE && st->unsent == 0)
        stream_end_connection(st);
    outlet_unref(&st->outlet);
}

/* Makes room by forgetting what a reader had already, oldest first. */
static void evict_events(struct mcp_session *s, size_t allowed)
{
    list_for_each_safe(st, &s->streams, struct stream, node) {
        list_for_each_safe(e, &st->events, struct event, node) {
            if (s->buffered <= allowed)
                return;
            if (e->sent)
                event_drop(st, e);
        }
        if (st->state == STREAM_DONE && !st->http && list_empty(&st->events))
            stream_forget(st);
    }
}

/* Where all of them together have too much, what is sent already goes, first of all our own. */
bool stream_has_room(struct stream *st, size_t len)
{
    struct mcp *m = st->mcp;
    if (m->buffered + len <= m->o.config.buffer_total_bytes)
        return true;
    evict_events(st->session, 0);
    list_for_each(s, &m->all, struct mcp_session, node) {
        if (m->buffered + len <= m->o.config.buffer_total_bytes)
            return true;
        evict_events(s, 0);
    }
    return m->buffered + len <= m->o.config.buffer_total_bytes;
}

void stream_push(struct stream *st, const char *data, size_t len)
{
    struct mcp_session *s = st->session;
    if (s->buffered + len > s->mcp->o.config.replay_bytes)
        evict_events(s,
                     s->mcp->o.config.replay_bytes > len ? s->mcp->o.config.replay_bytes - len : 0);
    char head[EVENT_ID_SIZE + 32];
    int n = snprintf(head, sizeof(head),
                     "id: %llu-%llu\nevent: message\ndata: ", (unsigned long long)st->number,
                     (unsigned long long)st->next_seq);
    struct event *e = xcalloc(1, sizeof(*e) + (size_t)n + len + 2);
    memcpy(e->text, head, (size_t)n);
    memcpy(e->text + n, data, len);
    memcpy(e->text + (size_t)n + len, "\n\n", 2);
    e->len = (size_t)n + len + 2;
    e->seq = st->next_seq++;
    list_append(&st->events, &e->node);
    st->unsent += e->len;
    s->buffered += e->len;
    s->mcp->buffered += e->len;
    stream_pump(st);
}

/* An event of no data that gives the reader an id to come back with. */
void stream_prime(struct stream *st)
{
    char text[EVENT_ID_SIZE + 48];
    uint64_t next = st->next_seq;
    if (st->session->revision < MCP_2025_11_25)
        return; /* their clients take it for a message */
    list_for_each(e, &st->events, struct event, node)
        if (!e->sent && e->seq < next)
            next = e->seq;
    int n = snprintf(text, sizeof(text), "id: %llu-%llu\nretry: %llu\ndata:\n\n",
                     (unsigned long long)st->number, (unsigned long long)next - 1,
                     (unsigned long long)st->mcp->o.config.retry_ms);
    write_raw(st, text, (size_t)n);
}

void stream_begin_events(struct stream *st)
{
    http_response_header(st->http, "Cache-Control", "no-cache, no-transform");
    http_response_header(st->http, "X-Accel-Buffering", "no");
    http_respond_begin(st->http, 200, "text/event-stream");
    st->written_ms = clock_mono_ms();
}

struct stream *stream_new(struct mcp_session *s, uint64_t number, const struct outlet_ops *ops)
{
    struct stream *st = new0(struct stream);
    st->outlet = (struct outlet){ops, 1};
    st->session = s;
    st->mcp = s->mcp;
    st->number = number;
    st->next_seq = 1;
    list_init(&st->events);
    list_init(&st->waiting);
    list_append(&s->streams, &st->node);
    return st;
}

/* --- streams that a GET reads */

static struct stream *stream_find(struct mcp_session *s, uint64_t number)
{
    list_for_each(st, &s->streams, struct stream, node)
        if (st->number == number)
            return st;
    return NULL;
}

void stream_open_loose(struct mcp_session *s, struct http_request *http)
{
    struct stream *st = stream_find(s, 0);
    if (!st) {
        st = stream_new(s, 0, &exchange_ops);
        st->state = STREAM_OPEN;
        s->loose = outlet_ref(&st->outlet);
    }
    stream_end_connection(st);
    stream_attach(st, http);
    stream_begin_events(st);
    stream_prime(st);
    stream_pump(st);
}

static bool parse_event_id(const char *text, uint64_t *ret_stream, uint64_t *ret_seq)
{
    unsigned long long stream, seq;
    int used = 0;
    if (strlen(text) >= EVENT_ID_SIZE || strspn(text, "0123456789-") != strlen(text) ||
        sscanf(text, "%20llu-%20llu%n", &stream, &seq, &used) != 2 || text[used])
        return false;
    *ret_stream = stream;
    *ret_seq = seq;
    return true;
}

/* The stream of an event id, and the event's number. */
static struct stream *find_event(struct mcp_session *s, const char *event_id, uint64_t *ret_seq)
{
    uint64_t number;
    struct stream *st = NULL;
    if (parse_event_id(event_id, &number, ret_seq))
        st = stream_find(s, number);
    return st && st->state != STREAM_WAITING && *ret_seq < st->next_seq ? st : NULL;
}

bool stream_has_event(struct mcp_session *s, const char *event_id)
{
    uint64_t seq;
    return find_event(s, event_id, &seq);
}

void stream_resume(struct mcp_session *s, struct http_request *http, const char *event_id)
{
    uint64_t seq;
    struct stream *st = find_event(s, event_id, &seq);
    stream_end_connection(st);
    list_for_each(e, &st->events, struct event, node) {
        if (e->sent && e->seq > seq) {
            e->sent = false;
            st->unsent += e->len;
        }
    }
    stream_attach(st, http);
    stream_begin_events(st);
    stream_pump(st);
}

/* --- all of a session's */

bool streams_attached(const struct mcp_session *s)
{
    list_for_each(st, &s->streams, struct stream, node)
        if (st->http)
            return true;
    return false;
}

void streams_end(struct mcp_session *s)
{
    while (!list_empty(&s->streams)) {
        struct stream *st = container_of(s->streams.next, struct stream, node);
        outlet_ref(&st->outlet);
        if (st->state == STREAM_WAITING && st->http)
            stream_begin_events(st);
        st->state = STREAM_DONE;
        stream_end_connection(st);
        stream_forget(st);
        outlet_unref(&st->outlet);
    }
}

void streams_drain(struct mcp_session *s)
{
    struct stream *st = stream_find(s, 0);
    if (st)
        stream_end_connection(st);
}

/* A comment now and then shows proxies that the stream lives, and us that the reader does. */
void streams_tick(struct mcp_session *s, int64_t now_ms)
{
    list_for_each_safe(st, &s->streams, struct stream, node) {
        if (st->state == STREAM_DONE && !st->http &&
            now_ms - st->done_ms >= (int64_t)st->mcp->o.config.replay_ms) {
            stream_forget(st);
        } else if (st->state == STREAM_OPEN && st->http && !st->blocked &&
                   st->mcp->o.config.keepalive_ms &&
                   now_ms - st->written_ms >= (int64_t)st->mcp->o.config.keepalive_ms) {
            write_raw(st, ":\n\n", 3);
        }
    }
}
