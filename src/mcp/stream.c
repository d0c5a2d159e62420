/* Memory is bounded in four ways: what one stream may have unsent before notifications are left out
 * (queue_bytes), what a session keeps of sent events (replay_bytes) and for how long (replay_ms),
 * and all of it together (buffer_total_bytes). Answers are never left out: their number is bounded
 * by max_calls, and one that does not fit becomes an error. */
#include "mcp/stream.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/http.h"

#define EVENT_ID_SIZE 48

enum stream_state { STREAM_WAITING, STREAM_OPEN, STREAM_DONE };

struct event {
    struct list node;
    uint64_t seq;
    bool sent;
    size_t len;
    char text[];
};

struct stream {
    struct outlet outlet;
    struct list node;            /* session->streams */
    struct mcp_session *session; /* NULL once the session has ended */
    struct mcp *mcp;
    enum stream_state state;
    uint64_t number, next_seq;
    struct http_request *http; /* who reads it, or NULL */
    bool blocked;              /* the connection's queue is full */
    bool dispatching;          /* more answers may come from inside: not yet the time to decide */
    struct list events;
    size_t unsent;

    /* of a POST */
    size_t expected; /* answers to come */
    bool batch;
    struct strbuf collected; /* answers while WAITING */
    size_t n_collected;
    struct list waiting; /* mcp->waiting */
    int64_t turn_ms;

    int64_t written_ms, done_ms;
};

static void pump(struct stream *st);

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

static void stream_free(struct outlet *o)
{
    struct stream *st = container_of(o, struct stream, outlet);
    list_for_each_safe(e, &st->events, struct event, node) event_drop(st, e);
    strbuf_done(&st->collected);
    free(st);
}

/* Out of its session's list; calls may still hold it. */
static void forget(struct stream *st)
{
    list_for_each_safe(e, &st->events, struct event, node) event_drop(st, e);
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
    pump(st);
}

/* The connection holds a reference. */
static void attach(struct stream *st, struct http_request *http)
{
    st->http = http;
    st->blocked = false;
    http_request_on_abort(http, on_abort, st);
    http_request_on_drain(http, on_drain, st);
    outlet_ref(&st->outlet);
}

static struct http_request *detach(struct stream *st)
{
    struct http_request *http = steal_ptr(st->http);
    http_request_on_abort(http, NULL, NULL);
    st->blocked = false;
    outlet_unref(&st->outlet);
    return http;
}

static void end_connection(struct stream *st)
{
    if (st->http)
        http_respond_end(detach(st));
}

/* --- events */

static void write_raw(struct stream *st, const char *text, size_t len)
{
    st->written_ms = clock_mono_ms();
    st->blocked = !http_write(st->http, text, len);
}

static void pump(struct stream *st)
{
    outlet_ref(&st->outlet);
    list_for_each(e, &st->events, struct event, node)
    {
        if (!st->http || st->blocked)
            break;
        if (e->sent)
            continue;
        e->sent = true;
        st->unsent -= e->len;
        write_raw(st, e->text, e->len);
    }
    if (st->http && st->state == STREAM_DONE && st->unsent == 0)
        end_connection(st);
    outlet_unref(&st->outlet);
}

/* Makes room by forgetting what a reader had already, oldest first. */
static void evict(struct mcp_session *s, size_t allowed)
{
    list_for_each_safe(st, &s->streams, struct stream, node)
    {
        list_for_each_safe(e, &st->events, struct event, node)
        {
            if (s->buffered <= allowed)
                return;
            if (e->sent)
                event_drop(st, e);
        }
        if (st->state == STREAM_DONE && !st->http && list_empty(&st->events))
            forget(st);
    }
}

static struct event *event_new(struct stream *st, const char *data, size_t len)
{
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
    return e;
}

/* Where all of them together have too much, what is sent already goes, first of all our own. */
static bool has_room(struct stream *st, size_t len)
{
    struct mcp *m = st->mcp;
    if (m->buffered + len <= m->o.buffer_total_bytes)
        return true;
    evict(st->session, 0);
    list_for_each(s, &m->all, struct mcp_session, node)
    {
        if (m->buffered + len <= m->o.buffer_total_bytes)
            return true;
        evict(s, 0);
    }
    return m->buffered + len <= m->o.buffer_total_bytes;
}

static void push(struct stream *st, const char *data, size_t len)
{
    struct mcp_session *s = st->session;
    if (s->buffered + len > s->mcp->o.replay_bytes)
        evict(s, s->mcp->o.replay_bytes > len ? s->mcp->o.replay_bytes - len : 0);
    struct event *e = event_new(st, data, len);
    list_append(&st->events, &e->node);
    st->unsent += e->len;
    s->buffered += e->len;
    s->mcp->buffered += e->len;
    pump(st);
}

/* An event of no data that gives the reader an id to come back with. */
static void prime(struct stream *st)
{
    char text[EVENT_ID_SIZE + 48];
    uint64_t next = st->next_seq;
    if (st->session->revision < MCP_2025_11_25)
        return; /* their clients take it for a message */
    list_for_each(e, &st->events, struct event, node) if (!e->sent && e->seq < next) next = e->seq;
    int n = snprintf(text, sizeof(text), "id: %llu-%llu\nretry: %llu\ndata:\n\n",
                     (unsigned long long)st->number, (unsigned long long)next - 1,
                     (unsigned long long)st->mcp->o.retry_ms);
    write_raw(st, text, (size_t)n);
}

static void begin_sse(struct stream *st)
{
    http_response_header(st->http, "Cache-Control", "no-cache, no-transform");
    http_response_header(st->http, "X-Accel-Buffering", "no");
    http_respond_begin(st->http, 200, "text/event-stream");
    st->written_ms = clock_mono_ms();
}

/* --- the answer to a POST */

static void turn_timer(struct mcp *m)
{
    if (list_empty(&m->waiting)) {
        loop_timer_stop(&m->turn);
        return;
    }
    struct stream *first = container_of(m->waiting.next, struct stream, waiting);
    int64_t wait = first->turn_ms - clock_mono_ms();
    loop_timer_start(&m->turn, wait > 0 ? (uint64_t)wait : 1);
}

/* What has been collected goes first; answers of a batch may be sent one by one. */
static void turn_to_stream(struct stream *st)
{
    list_remove(&st->waiting);
    st->state = STREAM_OPEN;
    if (st->http) {
        begin_sse(st);
        prime(st);
    }
    _cleanup_strbuf_ struct strbuf collected = st->collected;
    strbuf_init(&st->collected, st->collected.max);
    if (st->n_collected == 1) {
        push(st, collected.data, collected.len);
    } else if (st->n_collected > 1) {
        _cleanup_strbuf_ struct strbuf array = STRBUF_INIT(collected.len + 2);
        strbuf_printf(&array, "[%s]", collected.data);
        push(st, array.data, array.len);
    }
    st->n_collected = 0;
}

void streams_on_turn(void *mcp)
{
    struct mcp *m = mcp;
    int64_t now = clock_mono_ms();
    while (!list_empty(&m->waiting)) {
        struct stream *st = container_of(m->waiting.next, struct stream, waiting);
        if (st->turn_ms > now)
            break;
        turn_to_stream(st);
    }
    turn_timer(m);
}

static void respond_json(struct stream *st)
{
    struct http_request *http = detach(st);
    _cleanup_strbuf_ struct strbuf array = STRBUF_INIT(st->collected.len + 2);
    if (st->batch) {
        strbuf_printf(&array, "[%s]", st->collected.data);
        http_respond(http, 200, "application/json", array.data, array.len);
    } else {
        http_respond(http, 200, "application/json", st->collected.data, st->collected.len);
    }
}

/* All answers are in. */
static void finish(struct stream *st)
{
    list_remove(&st->waiting);
    if (st->state == STREAM_WAITING && st->http && st->n_collected > 0) {
        respond_json(st);
    } else if (st->state == STREAM_WAITING && st->http) {
        /* Cancelled, all of it: an answer of nothing. */
        begin_sse(st);
    }
    bool answered = st->state == STREAM_OPEN;
    st->state = STREAM_DONE;
    st->done_ms = clock_mono_ms();
    pump(st);
    /* Nobody can ask again for what had no event ids. */
    if (st->session && (!answered || list_empty(&st->events)) && !st->http)
        forget(st);
}

void stream_dispatched(struct stream *st)
{
    st->dispatching = false;
    if (st->expected == 0 && st->state != STREAM_DONE) {
        outlet_ref(&st->outlet);
        finish(st);
        outlet_unref(&st->outlet);
    } else if (st->state == STREAM_WAITING && !list_empty(&st->waiting) &&
               !loop_timer_active(&st->mcp->turn)) {
        turn_timer(st->mcp);
    }
}

static void collect(struct stream *st, const char *text, size_t len)
{
    if (st->n_collected++)
        strbuf_append(&st->collected, ",", 1);
    strbuf_append(&st->collected, text, len);
}

static void on_send(struct outlet *o, const char *text, size_t len)
{
    struct stream *st = container_of(o, struct stream, outlet);
    if (!st->session || st->state == STREAM_DONE || !has_room(st, len))
        return;
    if (st->state == STREAM_WAITING)
        turn_to_stream(st);
    push(st, text, len);
}

/* The id is all of the answer that is still known. */
static void push_too_full(struct stream *st, const char *answer)
{
    static const char *const head = "{\"jsonrpc\":\"2.0\",\"id\":";
    const char *id = answer + strlen(head);
    const char *end = strstr(id, *id == '"' ? "\",\"" : ",\"");
    int id_len = end ? (int)(end - id) + (*id == '"') : 0;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RPC_ID_MAX + 256);
    strbuf_printf(&text,
                  "%s%.*s,\"error\":{\"code\":%d,\"message\":\"too many answers wait for their "
                  "readers (mcp_buffer_total_bytes)\"}}",
                  head, id_len, id, RPC_INTERNAL_ERROR);
    push(st, text.data, text.len);
}

static void on_answer(struct outlet *o, const char *text, size_t len)
{
    struct stream *st = container_of(o, struct stream, outlet);
    outlet_ref(o);
    if (st->expected > 0)
        st->expected--;
    if (text && st->session && st->state == STREAM_WAITING)
        collect(st, text, len);
    else if (text && st->session && has_room(st, len))
        push(st, text, len);
    else if (text && st->session)
        push_too_full(st, text);
    if (st->expected == 0 && !st->dispatching && st->state != STREAM_DONE)
        finish(st);
    outlet_unref(o);
}

static bool is_full(const struct outlet *o)
{
    const struct stream *st = container_of(o, struct stream, outlet);
    const struct mcp *m = st->mcp;
    return !st->session || st->unsent > m->o.queue_bytes ||
           (st->unsent > 0 && m->buffered >= m->o.buffer_total_bytes);
}

static void interrupt(struct outlet *o)
{
    struct stream *st = container_of(o, struct stream, outlet);
    if (!st->session || st->session->revision < MCP_2025_11_25 || st->state == STREAM_DONE)
        return;
    if (st->state == STREAM_WAITING)
        turn_to_stream(st);
    end_connection(st);
}

static const struct outlet_ops stream_ops = {
    .send = on_send,
    .answer = on_answer,
    .is_full = is_full,
    .interrupt = interrupt,
    .free = stream_free,
};

static struct stream *stream_new(struct mcp_session *s, uint64_t number)
{
    struct stream *st = new0(struct stream);
    st->outlet = (struct outlet){&stream_ops, 1};
    st->session = s;
    st->mcp = s->mcp;
    st->number = number;
    st->next_seq = 1;
    list_init(&st->events);
    list_init(&st->waiting);
    list_append(&s->streams, &st->node);
    return st;
}

struct stream *stream_new_exchange(struct mcp_session *s, struct http_request *http,
                                   size_t requests, bool batch)
{
    struct mcp *m = s->mcp;
    struct stream *st = stream_new(s, s->next_stream++);
    st->expected = requests;
    st->batch = batch;
    st->dispatching = true;
    strbuf_init(&st->collected, (m->o.max_answer_bytes + 1) * requests);
    st->turn_ms = clock_mono_ms() + (int64_t)m->o.stream_after_ms;
    list_append(&m->waiting, &st->waiting);
    attach(st, http);
    return st;
}

struct outlet *stream_outlet(struct stream *st)
{
    return &st->outlet;
}

/* --- streams that a GET reads */

static struct stream *stream_find(struct mcp_session *s, uint64_t number)
{
    list_for_each(st, &s->streams, struct stream, node) if (st->number == number) return st;
    return NULL;
}

void stream_open_loose(struct mcp_session *s, struct http_request *http)
{
    struct stream *st = stream_find(s, 0);
    if (!st) {
        st = stream_new(s, 0);
        st->state = STREAM_OPEN;
        s->loose = outlet_ref(&st->outlet);
    }
    end_connection(st);
    attach(st, http);
    begin_sse(st);
    prime(st);
    pump(st);
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
    end_connection(st);
    list_for_each(e, &st->events, struct event, node)
    {
        if (e->sent && e->seq > seq) {
            e->sent = false;
            st->unsent += e->len;
        }
    }
    attach(st, http);
    begin_sse(st);
    pump(st);
}

/* --- all of a session's */

bool streams_attached(const struct mcp_session *s)
{
    list_for_each(st, &s->streams, struct stream, node) if (st->http) return true;
    return false;
}

void streams_end(struct mcp_session *s)
{
    while (!list_empty(&s->streams)) {
        struct stream *st = container_of(s->streams.next, struct stream, node);
        outlet_ref(&st->outlet);
        if (st->state == STREAM_WAITING && st->http)
            begin_sse(st);
        st->state = STREAM_DONE;
        end_connection(st);
        forget(st);
        outlet_unref(&st->outlet);
    }
}

void streams_drain(struct mcp_session *s)
{
    struct stream *st = stream_find(s, 0);
    if (st)
        end_connection(st);
}

/* A comment now and then shows proxies that the stream lives, and us that the reader does. */
void streams_tick(struct mcp_session *s, int64_t now_ms)
{
    list_for_each_safe(st, &s->streams, struct stream, node)
    {
        if (st->state == STREAM_DONE && !st->http &&
            now_ms - st->done_ms >= (int64_t)st->mcp->o.replay_ms) {
            forget(st);
        } else if (st->state == STREAM_OPEN && st->http && !st->blocked &&
                   st->mcp->o.keepalive_ms &&
                   now_ms - st->written_ms >= (int64_t)st->mcp->o.keepalive_ms) {
            write_raw(st, ":\n\n", 3);
        }
    }
}
