/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the journal of changes on the wire: /v1/events, and /v1/approvals/events, which shows
 * each change of an approval with the approval as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/wire.h"
#include "base/alloc.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "event/event-journal.h"
#include "guard/approval.h"
#include "proto/plan.h"
#include "sandbox/sandbox.h"

#define LINE_BYTES_MAX (1024 * 1024) /* of one event; an approval has its argument vector */
#define TURN_EVENTS    1000          /* sent before others get a turn */
#define LIST_MAX       10000

struct event_stream {
    struct wire wire;
    struct event_reader reader;
    bool follow;
    uint64_t asked;              /* since= of the client, for the gap */
    char only[PLAN_ID_SIZE];     /* the one sandbox whose network it is about, or "" */
    uint64_t left;               /* events that it may still send */
    struct approvals *approvals; /* of /v1/approvals/events, or NULL */
    /* And what waited when it began, which is sent first. */
    char (*pending)[APPROVAL_ID_SIZE];
    size_t n_pending, at_pending;
};

/* An event is formatted and sent in one go: all share this. */
static struct strbuf line = STRBUF_INIT(LINE_BYTES_MAX);

static void on_gone(struct wire *w, bool client_left)
{
    struct event_stream *s = container_of(w, struct event_stream, wire);
    (void)client_left;
    event_unsubscribe(&s->reader);
    free(s->pending);
}

static void on_events(struct event_reader *r)
{
    wire_wake(&container_of(r, struct event_stream, reader)->wire);
}

static struct event_stream *stream_new(const struct api_request *req, const struct wire_ops *ops)
{
    struct event_stream *s = new0(struct event_stream);
    s->left = UINT64_MAX;
    s->wire.kind = stream_kind_wanted(req->http);
    if (s->wire.kind == STREAM_WS_BINARY)
        s->wire.kind = STREAM_WS_TEXT;
    s->wire.loop = req->services->loop;
    s->wire.ops = ops;
    s->reader.who = *req->who;
    s->reader.on_events = on_events;
    list_init(&s->reader.node);
    return s;
}

static void stream_begin(struct event_stream *s, struct api_request *req)
{
    event_subscribe(req->services->events, &s->reader);
    wire_open(&s->wire, api_take(req), NULL);
}

/* --- all changes */

/* A client that goes on after this one has seen the gap, so its number is the one before it. */
static void send_gap(struct event_stream *s)
{
    uint64_t first = s->reader.next;
    wire_begin_line(&s->wire, &line, first - 1, "gap");
    struct json_text t = json_text_begin(&line, '{');
    json_text_int(&t, "seq", (int64_t)first - 1);
    json_text_string(&t, "type", "gap");
    json_text_int(&t, "since", (int64_t)s->asked);
    json_text_int(&t, "first", (int64_t)first);
    json_text_end(&t, '}');
    wire_send_line(&s->wire, &line);
}

static void send_event(struct event_stream *s, const struct event *e)
{
    wire_begin_line(&s->wire, &line, e->seq, event_type_name(e->type));
    event_format(e, &line);
    wire_send_line(&s->wire, &line);
    s->asked = e->seq;
}

/* A client that follows connects again after a restart, with the number of its last event. */
static bool at_end(const struct event_stream *s)
{
    const struct event_journal *j = s->reader.journal;
    return s->left == 0 || event_journal_is_draining(j) ||
           (!s->follow && !s->wire.deferred && s->reader.next > event_journal_last(j));
}

static void pump_events(struct wire *w)
{
    struct event_stream *s = container_of(w, struct event_stream, wire);
    const struct event *e;
    for (size_t n = 0; !wire_is_full(w); n++) {
        enum event_got got = event_read(&s->reader, &e);
        if (got == EVENT_GOT_NONE)
            break;
        if (got == EVENT_GOT_ONE && *s->only && strcmp(s->only, event_id(e)) != 0)
            continue;
        if (got == EVENT_GOT_ONE)
            send_event(s, e);
        else
            send_gap(s);
        if (--s->left == 0)
            break;
        if (n == TURN_EVENTS && !w->full)
            wire_defer(w);
    }
    if (at_end(s))
        wire_end(w);
}

/* Without a number a client asks for what there is, and misses nothing that it knows of. */
static int parse_query(const struct api_request *req, struct event_stream *s, struct error *err)
{
    const char *types = http_request_query(req->http, "types");
    const char *follow = http_request_query(req->http, "follow");
    bool placed = http_request_query(req->http, "since");
    int r = api_query_number(req, "since", 0, INT64_MAX - 1, &s->asked, err);
    if (r < 0)
        return r;
    if (s->wire.kind == STREAM_SSE) {
        r = stream_parse_last_id(req, &s->asked, err);
        if (r < 0)
            return r;
        placed |= r > 0;
    }
    s->reader.types = EVENT_TYPES_ALL;
    s->reader.next = placed ? s->asked + 1 : event_journal_first(req->services->events);
    s->follow = follow ? api_query_switch(req, "follow") : s->wire.kind != STREAM_NDJSON;
    return types ? event_types_parse(types, &s->reader.types, err) : 0;
}

int handle_events(struct api_request *req)
{
    static const struct wire_ops ops = {pump_events, on_gone};
    struct event_stream *s = stream_new(req, &ops);
    if (parse_query(req, s, req->err) < 0) {
        free(s);
        return -1;
    }
    stream_begin(s, req);
    return 0;
}

/* Decisions about the connections of one sandbox: the same journal, less of it. */
int handle_network_log(struct api_request *req)
{
    static const struct wire_ops ops = {pump_events, on_gone};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return 0;
    struct event_stream *s = stream_new(req, &ops);
    if (parse_query(req, s, req->err) < 0 ||
        api_query_number(req, "limit", 1, LIST_MAX, &s->left, req->err) < 0) {
        free(s);
        return -1;
    }
    s->reader.types = event_types_of("network");
    snprintf(s->only, sizeof(s->only), "%s", sandbox_id(sb));
    stream_begin(s, req);
    return 0;
}

/* --- approvals, with what they are */

static void send_approval(struct event_stream *s, const struct approval *a, const char *state)
{
    json_t *view = approval_view(a, false);
    json_object_set_new(view, "status", json_string(state)); /* of the event; it may be past that */
    _cleanup_json_ json_t *o = json_pack("{s:s, s:o}", "type", state, "approval", view);
    strbuf_reset(&line);
    if (json_format(o, &line) >= 0)
        wire_send_line(&s->wire, &line);
}

static void send_pending(struct event_stream *s)
{
    const char *id = s->pending[s->at_pending++];
    const struct approval *a = approvals_find(s->approvals, &s->reader.who, id);
    if (a && approval_state(a) == APPROVAL_PENDING)
        send_approval(s, a, approval_state_name(APPROVAL_PENDING));
}

static void pump_approvals(struct wire *w)
{
    struct event_stream *s = container_of(w, struct event_stream, wire);
    const struct event *e;
    if (event_journal_is_draining(s->reader.journal)) {
        wire_end(w);
        return;
    }
    while (!wire_is_full(w)) {
        if (s->at_pending < s->n_pending) {
            send_pending(s);
            continue;
        }
        enum event_got got = event_read(&s->reader, &e);
        if (got == EVENT_GOT_NONE)
            return;
        if (got == EVENT_GOT_GAP) { /* there is no message for that: it asks again */
            ws_close(w->ws, 1008, "too slow");
            return;
        }
        const struct approval *a = approvals_find(s->approvals, &s->reader.who, event_id(e));
        if (a)
            send_approval(s, a, strchr(event_type_name(e->type), '.') + 1);
    }
}

int handle_approval_events(struct api_request *req)
{
    static const struct wire_ops ops = {pump_approvals, on_gone};
    uint64_t ignored;
    if (api_check_stream(req, &ignored, req->err) < 0)
        return -1;
    struct event_stream *s = stream_new(req, &ops);
    s->reader.types = event_types_of("approval");
    s->reader.next = event_journal_last(req->services->events) + 1;
    s->approvals = gate_approvals(req->services->gate);
    struct approval **found = xcalloc(LIST_MAX, sizeof(struct approval *));
    s->n_pending = approvals_list(s->approvals, &s->reader.who, APPROVAL_PENDING, found, LIST_MAX);
    s->pending = xcalloc(s->n_pending + 1, sizeof(*s->pending));
    for (size_t i = 0; i < s->n_pending; i++)
        strncpy(s->pending[i], approval_id(found[i]), APPROVAL_ID_SIZE - 1);
    free(found);
    stream_begin(s, req);
    return 0;
}
