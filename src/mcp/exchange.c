/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a POST: plain JSON where there is nothing but the answers and they come soon, else
 * a stream of events. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "mcp/stream-internal.h"
#include "net/http.h"

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
        stream_begin_events(st);
        stream_prime(st);
    }
    _cleanup_strbuf_ struct strbuf collected = st->collected;
    strbuf_init(&st->collected, st->collected.max);
    if (st->n_collected == 1) {
        stream_push(st, collected.data, collected.len);
    } else if (st->n_collected > 1) {
        _cleanup_strbuf_ struct strbuf array = STRBUF_INIT(collected.len + 2);
        strbuf_printf(&array, "[%s]", collected.data);
        stream_push(st, array.data, array.len);
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
    struct http_request *http = stream_detach(st);
    _cleanup_strbuf_ struct strbuf array = STRBUF_INIT(st->collected.len + 2);
    if (st->batch) {
        strbuf_printf(&array, "[%s]", st->collected.data);
        http_respond(http, 200, "application/json", array.data, array.len);
    } else {
        http_respond(http, 200, "application/json", st->collected.data, st->collected.len);
    }
}

/* All answers are in. */
static void exchange_finish(struct stream *st)
{
    list_remove(&st->waiting);
    if (st->state == STREAM_WAITING && st->http && st->n_collected > 0) {
        respond_json(st);
    } else if (st->state == STREAM_WAITING && st->http) {
        /* Cancelled, all of it: an answer of nothing. */
        stream_begin_events(st);
    }
    bool answered = st->state == STREAM_OPEN;
    st->state = STREAM_DONE;
    st->done_ms = clock_mono_ms();
    stream_pump(st);
    /* A client cannot ask again for messages that had no event ids. */
    if (st->session && (!answered || list_empty(&st->events)) && !st->http)
        stream_forget(st);
}

void stream_dispatched(struct stream *st)
{
    st->dispatching = false;
    if (st->expected == 0 && st->state != STREAM_DONE) {
        outlet_ref(&st->outlet);
        exchange_finish(st);
        outlet_unref(&st->outlet);
    } else if (st->state == STREAM_WAITING && !list_empty(&st->waiting) &&
               !loop_timer_active(&st->mcp->turn)) {
        turn_timer(st->mcp);
    }
}

static void collect_message(struct stream *st, const char *text, size_t len)
{
    if (st->n_collected++)
        strbuf_append(&st->collected, ",", 1);
    strbuf_append(&st->collected, text, len);
}

static void on_send(struct outlet *o, const char *text, size_t len)
{
    struct stream *st = container_of(o, struct stream, outlet);
    if (!st->session || st->state == STREAM_DONE || !stream_has_room(st, len))
        return;
    if (st->state == STREAM_WAITING)
        turn_to_stream(st);
    stream_push(st, text, len);
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
    stream_push(st, text.data, text.len);
}

static void on_answer(struct outlet *o, const char *text, size_t len)
{
    struct stream *st = container_of(o, struct stream, outlet);
    outlet_ref(o);
    if (st->expected > 0)
        st->expected--;
    if (text && st->session && st->state == STREAM_WAITING)
        collect_message(st, text, len);
    else if (text && st->session && stream_has_room(st, len))
        stream_push(st, text, len);
    else if (text && st->session)
        push_too_full(st, text);
    if (st->expected == 0 && !st->dispatching && st->state != STREAM_DONE)
        exchange_finish(st);
    outlet_unref(o);
}

static bool is_full(const struct outlet *o)
{
    const struct stream *st = container_of(o, struct stream, outlet);
    const struct mcp *m = st->mcp;
    return !st->session || st->unsent > m->o.config.queue_bytes ||
           (st->unsent > 0 && m->buffered >= m->o.config.buffer_total_bytes);
}

static void stream_interrupt(struct outlet *o)
{
    struct stream *st = container_of(o, struct stream, outlet);
    if (!st->session || st->session->revision < MCP_2025_11_25 || st->state == STREAM_DONE)
        return;
    if (st->state == STREAM_WAITING)
        turn_to_stream(st);
    stream_end_connection(st);
}

const struct outlet_ops exchange_ops = {
    .send = on_send,
    .answer = on_answer,
    .is_full = is_full,
    .interrupt = stream_interrupt,
    .free = stream_free,
};

struct stream *stream_new_exchange(struct mcp_session *s, struct http_request *http,
                                   size_t requests, bool batch)
{
    struct mcp *m = s->mcp;
    struct stream *st = stream_new(s, s->next_stream++, &exchange_ops);
    st->expected = requests;
    st->batch = batch;
    st->dispatching = true;
    strbuf_init(&st->collected, (m->o.config.max_answer_bytes + 1) * requests);
    st->turn_ms = clock_mono_ms() + (int64_t)m->o.config.stream_after_ms;
    /* All wait for equally long, so the list is in the order of their ends and one timer serves
     * all. */
    list_append(&m->waiting, &st->waiting);
    stream_attach(st, http);
    return st;
}

struct outlet *stream_outlet(struct stream *st)
{
    return &st->outlet;
}
