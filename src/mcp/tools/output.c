/* SPDX-License-Identifier: Apache-2.0 */
/* read_output: one stream of a command from an offset, waiting for more where asked. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "loop/loop.h"
#include "mcp/tools/output.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"
#include "mcp/tools/workspace.h"

#define WAIT_MAX_MS 60000

/* --- reading a journal from an offset */

static size_t clip_to_character(const struct journal_event *ev, size_t room)
{
    if (ev->len <= room)
        return ev->len;
    return room - utf8_incomplete_suffix(ev->data, room);
}

static uint64_t offset_after(const struct output_range *r)
{
    return r->offset + r->text.len;
}

/* Appends the event; false when nothing more fits or something is missing before it. */
static bool take_event(struct output_range *r, const struct journal_event *ev, size_t max)
{
    if (ev->offset > offset_after(r)) {
        if (r->text.len)
            return false; /* the next call starts behind the gap */
        r->skipped = ev->offset - r->offset;
        r->offset = ev->offset;
    }
    size_t n = clip_to_character(ev, max - r->text.len);
    strbuf_append(&r->text, ev->data, n);
    return n == ev->len;
}

int output_read(struct exec *e, uint8_t stream, uint64_t offset, size_t max,
                struct output_range *ret)
{
    struct journal *j = exec_journal(e);
    struct output_range r = {.offset = offset, .total = journal_stream_end(j, stream)};
    struct journal_reader reader = {.from = {UINT64_MAX, UINT64_MAX}};
    struct journal_event ev;
    _cleanup_strbuf_ struct strbuf scratch = STRBUF_INIT(JOURNAL_EVENT_MAX);
    int found = 0;
    reader.from[output_index(stream)] = offset;
    strbuf_init(&r.text, max);
    while (r.text.len < max && (found = journal_read(j, &reader, &ev, &scratch)) > 0)
        if (ev.type == JOURNAL_OUTPUT && ev.stream == stream && !take_event(&r, &ev, max))
            break;
    r.next = offset_after(&r);
    r.at_end = exec_is_done(e) && r.next >= r.total;
    *ret = r;
    return found < 0 ? found : 0;
}

void output_range_done(struct output_range *r)
{
    strbuf_done(&r->text);
}

/* --- the tool */

struct read_call {
    struct mcp_call *call;
    struct exec *exec;
    uint8_t stream;
    uint64_t offset;
    size_t max;
    struct journal_reader reader;
    struct exec_waiter done;
    struct loop_timer timer;
};

static void on_closed(void *data)
{
    free(data);
}

static void finish_text(struct strbuf *text, const struct output_range *r, const struct exec *e)
{
    if (r->skipped)
        strbuf_printf(text, "[%llu bytes are no longer kept]\n", (unsigned long long)r->skipped);
    strbuf_append(text, r->text.data ? r->text.data : "", r->text.len);
    if (r->text.len && r->text.data[r->text.len - 1] != '\n')
        strbuf_puts(text, "\n");
    if (!r->at_end)
        strbuf_printf(text, "[%s; read on with offset %llu]\n",
                      exec_is_done(e) ? "there is more" : "it is running",
                      (unsigned long long)r->next);
    else if (exec_result(e)->has_exit_code)
        strbuf_printf(text, "[that is all; exit code %d]\n", exec_result(e)->exit_code);
    else
        strbuf_printf(text, "[that is all; %s]\n", exec_status_name(exec_status(e)));
}

static json_t *finish_json(const struct read_call *c, const struct output_range *r)
{
    bool lossy;
    json_t *o = result_of_exec(c->exec);
    json_object_del(o, "started_at");
    json_object_del(o, "finished_at");
    json_object_set_new(o, "stream", json_string(output_name(c->stream)));
    json_object_set_new(
        o, "text", json_string_from_bytes(r->text.data ? r->text.data : "", r->text.len, &lossy));
    json_object_set_new(o, "offset", json_integer((json_int_t)r->offset));
    json_object_set_new(o, "next_offset", json_integer((json_int_t)r->next));
    json_object_set_new(o, "total_bytes", json_integer((json_int_t)r->total));
    json_object_set_new(o, "skipped_bytes", json_integer((json_int_t)r->skipped));
    json_object_set_new(o, "end", json_boolean(r->at_end));
    return o;
}

static void read_finish(struct read_call *c)
{
    struct error err = {0};
    struct output_range r;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    journal_unsubscribe(&c->reader);
    exec_waiter_cancel(&c->done);
    if (output_read(c->exec, c->stream, c->offset, c->max, &r) < 0) {
        error_set(&err, ERROR_INTERNAL, 0, "the output cannot be read");
        result_fail(c->call, &err, NULL);
    } else {
        finish_text(&text, &r, c->exec);
        result_finish(c->call, finish_json(c, &r), text.data);
    }
    output_range_done(&r);
    exec_unref(c->exec);
    loop_timer_close(&c->timer, on_closed, c);
}

static void on_more(struct journal_reader *reader)
{
    struct read_call *c = container_of(reader, struct read_call, reader);
    if (journal_stream_end(exec_journal(c->exec), c->stream) > c->offset)
        read_finish(c);
}

static void on_exec_done(struct exec_waiter *w, struct exec *e)
{
    (void)e;
    read_finish(container_of(w, struct read_call, done));
}

static void on_wait_over(void *data)
{
    read_finish(data);
}

static void on_cancel(struct mcp_call *call)
{
    read_finish(mcp_call_state(call));
}

static struct read_call *read_call_new(struct mcp_call *call, struct exec *e)
{
    const json_t *args = mcp_call_arguments(call);
    const char *stream = json_string_value(json_object_get(args, "stream"));
    const json_t *max = json_object_get(args, "max_bytes");
    struct read_call *c = new0(struct read_call);
    c->call = call;
    c->exec = exec_ref(e);
    c->stream = stream && strcmp(stream, "stderr") == 0 ? 2 : 1;
    c->offset = (uint64_t)json_integer_value(json_object_get(args, "offset"));
    c->max = max ? (size_t)json_integer_value(max) : mcp_call_config(call)->output_bytes;
    list_init(&c->reader.node);
    list_init(&c->done.node);
    c->reader.on_ready = on_more;
    c->done.on_done = on_exec_done;
    loop_timer_init(&c->timer, mcp_call_services(call)->loop, on_wait_over, c);
    return c;
}

void tool_read_output(struct mcp_call *call)
{
    struct error err = {0};
    struct exec *e = workspace_exec(call, &err);
    if (!e || !exec_journal(e)) {
        if (e)
            error_set(&err, ERROR_NOT_FOUND, 0, "the command keeps no output");
        result_fail(call, &err, "exec_id comes from start_command, run_command or run_code.");
        return;
    }
    struct read_call *c = read_call_new(call, e);
    double wait = json_number_value(json_object_get(mcp_call_arguments(call), "wait_s"));
    journal_subscribe(exec_journal(e), &c->reader); /* what was read stays so after a restart */
    if (wait <= 0 || exec_is_done(e) ||
        journal_stream_end(exec_journal(e), c->stream) > c->offset) {
        read_finish(c);
        return;
    }
    mcp_call_set_state(call, c);
    mcp_call_on_cancel(call, on_cancel);
    uint64_t ms = (uint64_t)(wait * 1000);
    loop_timer_start(&c->timer, ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS);
    exec_wait(e, &c->done);
}
