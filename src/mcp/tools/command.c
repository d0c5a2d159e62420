/* SPDX-License-Identifier: Apache-2.0 */
/* run_command, run_code and start_command: a command through the same run_start() as over HTTP,
 * with progress while it runs and an end when the client cancels. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/spec-json.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "mcp/tools/person.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"
#include "mcp/tools/workspace.h"
#include "tool/run.h"

#define PROGRESS_TICK_MS   250
#define PROGRESS_QUIET_MS  5000 /* a command that prints nothing is reported this often */
#define PROGRESS_BYTES_MAX 1000 /* of output in one report: its end */

struct command {
    struct mcp_call *call; /* NULL once answered */
    struct run *run;       /* NULL once done */
    struct exec *exec;     /* referenced, once started */
    size_t max_output;
    struct person *person; /* while one is asked */
    bool background;
    bool recording; /* its row is being written */
    bool has_ticker;
    struct loop_timer ticker;
    struct journal_reader reader;
    int64_t started_ms, told_ms;
};

static void on_ticker_closed(void *data)
{
    free(data);
}

static void command_release(struct command *c)
{
    if (c->call || c->run || c->recording)
        return;
    exec_unref(c->exec);
    if (c->has_ticker)
        loop_timer_close(&c->ticker, on_ticker_closed, c);
    else
        free(c);
}

/* --- progress: what was printed since the last report, and that it still runs */

static void append_tail(struct strbuf *b, const char *data, size_t len)
{
    if (len > PROGRESS_BYTES_MAX) {
        data += len - PROGRESS_BYTES_MAX;
        len = PROGRESS_BYTES_MAX;
    }
    if (b->len + len > PROGRESS_BYTES_MAX)
        strbuf_consume(b, b->len + len - PROGRESS_BYTES_MAX);
    strbuf_append(b, data, len);
}

static void collect_news(struct command *c, struct strbuf *news)
{
    _cleanup_strbuf_ struct strbuf scratch = STRBUF_INIT(JOURNAL_EVENT_MAX);
    struct journal_event ev;
    while (journal_read(exec_journal(c->exec), &c->reader, &ev, &scratch) > 0)
        if (ev.type == JOURNAL_OUTPUT)
            append_tail(news, ev.data, ev.len);
}

static void on_tick(void *data)
{
    struct command *c = data;
    _cleanup_strbuf_ struct strbuf news = STRBUF_INIT(2 * PROGRESS_BYTES_MAX);
    int64_t now = clock_mono_ms();
    if (!c->call)
        return;
    collect_news(c, &news);
    if (!news.len && now - c->told_ms < PROGRESS_QUIET_MS)
        return;
    c->told_ms = now;
    mcp_call_progress(c->call, (double)(now - c->started_ms) / 1000, 0,
                      news.len ? news.data : NULL);
}

/* --- its life */

/* A command that runs ends, and its end ends the call; one that does not run yet never will. */
static void on_cancel(struct mcp_call *call)
{
    struct command *c = mcp_call_state(call);
    if (c->exec) {
        exec_cancel(c->exec, NULL);
        return;
    }
    run_abandon(steal_ptr(c->run));
    person_end(steal_ptr(c->person));
    c->call = NULL;
    mcp_call_finish_text(call, true, "cancelled before it started");
    command_release(c);
}

static void on_recorded(void *data, const struct error *err)
{
    struct command *c = data;
    struct mcp_call *call = steal_ptr(c->call);
    c->recording = false;
    if (err) /* no client will be able to ask for it */
        exec_cancel(c->exec, NULL);
    if (call && err)
        result_fail(call, err, NULL);
    else if (call)
        result_finish(call, result_of_exec(c->exec), NULL);
    command_release(c);
}

static void on_give_up(void *data)
{
    struct command *c = data;
    run_abandon(steal_ptr(c->run));
    c->call = NULL;
    person_finish_pending(steal_ptr(c->person));
    command_release(c);
}

static void on_asked(void *data, struct run *run, struct approval *a)
{
    struct command *c = data;
    c->run = run;
    c->person = person_new(c->call, a, on_give_up, c);
}

static void on_started(void *data, struct run *run, struct exec *e)
{
    struct command *c = data;
    person_end(steal_ptr(c->person));
    c->run = run;
    c->exec = exec_ref(e);
    if (!c->background) {
        if (!mcp_call_wants_progress(c->call) || !exec_journal(c->exec))
            return;
        c->has_ticker = true;
        c->told_ms = clock_mono_ms();
        list_init(&c->reader.node);
        loop_timer_init(&c->ticker, mcp_call_services(c->call)->loop, on_tick, c);
        loop_timer_start_every(&c->ticker, PROGRESS_TICK_MS);
        return;
    }
    c->recording = true;
    exec_persist(e, on_recorded, c);
}

static void on_done(void *data, struct run *run, struct exec *e, const struct error *err)
{
    struct command *c = data;
    struct mcp_call *call = c->recording ? NULL : steal_ptr(c->call);
    (void)run;
    person_end(steal_ptr(c->person));
    c->run = NULL;
    if (call && err)
        result_fail(call, err, NULL);
    else if (call)
        result_finish_exec(call, e, c->max_output);
    command_release(c);
}

/* Takes body. */
static void start_exec(struct mcp_call *call, json_t *body, bool background)
{
    static const struct run_events events = {on_started, on_done, on_asked};
    const struct services *o = mcp_call_services(call);
    struct error err = {0};
    struct exec_json x = {0};
    _cleanup_json_ json_t *taken = body;
    struct sandbox *sb = workspace_sandbox(call, &err);
    if (!sb || exec_json_parse(taken, o, &x, &err) < 0) {
        result_fail(call, &err, NULL);
        return;
    }
    struct command *c = new0(struct command);
    c->call = call;
    c->background = background;
    c->started_ms = clock_mono_ms();
    c->max_output = x.max_output_bytes;
    mcp_call_set_state(call, c);
    mcp_call_on_cancel(call, on_cancel);
    struct run_request run = exec_json_request(&x, o, mcp_call_identity(call));
    struct gate_terms terms = person_terms(call);
    run.sandbox = sb;
    run.terms = &terms;
    struct run *started = run_start(&run, &events, c, &err);
    exec_json_done(&x);
    if (started) {
        c->run = started;
        return;
    }
    c->call = NULL;
    result_fail(call, &err, NULL);
    command_release(c);
}

/* --- arguments to the body that HTTP has */

static void copy_members(json_t *body, const json_t *args, const char *const *keys)
{
    for (; *keys; keys++) {
        json_t *v = json_object_get(args, *keys);
        if (v)
            json_object_set(body, *keys, v);
    }
}

static json_t *make_body(struct mcp_call *call, uint64_t default_timeout_ms)
{
    static const char *const same[] = {"cwd", "env", "stdin", "language", "code", "pty", NULL};
    const struct services *o = mcp_call_services(call);
    const json_t *args = mcp_call_arguments(call);
    json_t *body = json_object();
    copy_members(body, args, same);
    const char *line = json_string_value(json_object_get(args, "command"));
    if (line)
        json_object_set_new(body, "command", json_pack("[s, s, s]", "/bin/sh", "-c", line));
    double seconds = json_number_value(json_object_get(args, "timeout_s"));
    uint64_t ms = seconds > 0 ? (uint64_t)(seconds * 1000) : default_timeout_ms;
    uint64_t most = o->config.exec_max_timeout_ms;
    if (most && seconds <= 0 && ms > most)
        ms = most;
    if (ms)
        json_object_set_new(body, "timeout_ms", json_integer((json_int_t)ms));
    const json_t *max = json_object_get(args, "max_output_bytes");
    json_object_set_new(body, "max_output_bytes",
                        json_integer(max ? json_integer_value(max)
                                         : (json_int_t)mcp_call_config(call)->output_bytes));
    return body;
}

void tool_run_command(struct mcp_call *call)
{
    start_exec(call, make_body(call, mcp_call_config(call)->command_timeout_ms), false);
}

void tool_run_code(struct mcp_call *call)
{
    start_exec(call, make_body(call, mcp_call_config(call)->command_timeout_ms), false);
}

void tool_start_command(struct mcp_call *call)
{
    json_t *body = make_body(call, 0);
    json_object_set_new(body, "open_stdin", json_true());
    start_exec(call, body, true);
}
