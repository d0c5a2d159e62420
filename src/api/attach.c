/* SPDX-License-Identifier: Apache-2.0 */
/* An interactive terminal (or raw pipes) over one WebSocket. Client to server: binary frames are
 * stdin bytes, text frames are control objects {"type":"resize"|"stdin_close"|"signal",…}. Server
 * to client: binary frames are one stream number byte (1, 2) and output bytes; the last frame is a
 * text frame with the exit event. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/members.h"
#include "api/signal-name.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "tool/run.h"
#include "base/strbuf.h"

#define ATTACH_FRAME_MAX (1024 * 1024)
#define ATTACH_STDIN_MAX (256 * 1024) /* queued before the client is held back */

struct attach {
    struct journal_reader reader;
    struct exec_drain drain;
    struct exec *exec;
    struct ws *ws;
    bool full, finished;
    struct identity who;
    struct audit *audit;
    struct audit_stream *input;
    struct strbuf scratch, frame;
};

static void attach_free(struct attach *a)
{
    journal_unsubscribe(&a->reader);
    exec_unwatch_stdin(&a->drain);
    run_record_input(a->audit, a->exec, &a->who, a->input);
    sandbox_release(exec_sandbox(a->exec));
    exec_unref(a->exec);
    strbuf_done(&a->scratch);
    strbuf_done(&a->frame);
    free(a);
}

static bool send_event(struct attach *a, const struct journal_event *ev)
{
    strbuf_reset(&a->frame);
    if (ev->type == JOURNAL_OUTPUT) {
        char stream = (char)ev->stream;
        strbuf_append(&a->frame, &stream, 1);
        strbuf_append(&a->frame, ev->data, ev->len);
        return ws_send(a->ws, true, a->frame.data, a->frame.len);
    }
    _cleanup_json_ json_t *o = view_event(a->exec, ev);
    json_format(o, &a->frame);
    return ws_send(a->ws, false, a->frame.data, a->frame.len);
}

static void pump_output(struct attach *a)
{
    struct journal *j = exec_journal(a->exec);
    struct journal_event ev;
    int r;
    while (!a->full && !a->finished && (r = journal_read(j, &a->reader, &ev, &a->scratch)) != 0) {
        if (r > 0)
            a->full = !send_event(a, &ev);
        else
            a->reader.next_seq++; /* a record that cannot be read back any more */
    }
    if (!a->finished && journal_ended(j) && a->reader.next_seq > journal_last_seq(j)) {
        a->finished = true;
        ws_close(a->ws, 1000, "");
    }
}

static void on_ready(struct journal_reader *r)
{
    pump_output(container_of(r, struct attach, reader));
}

/* --- from the client */

static int note_attach(struct attach *a, const char *what, json_t *details, struct error *err)
{
    return run_record_steer(a->audit, a->exec, &a->who, what, details, err);
}

static int attach_on_control(struct attach *a, const char *text, size_t len, struct error *err)
{
    static const struct members_check all_known = {0};
    const char *type = "";
    _cleanup_json_ json_t *o = json_parse_request(text, len, err);
    if (!o || members_check(&all_known, o, body_attach, "", err) < 0 ||
        json_member_string(o, "type", &type, err) < 0)
        return -1;
    if (strcmp(type, "resize") == 0) {
        int64_t rows = 24, cols = 80;
        if (json_member_int(o, "rows", 1, 10000, &rows, err) < 0 ||
            json_member_int(o, "cols", 1, 10000, &cols, err) < 0)
            return -1;
        if (note_attach(a, "resize",
                        json_pack("{s:I, s:I}", "rows", (json_int_t)rows, "cols", (json_int_t)cols),
                        err) < 0)
            return -1;
        return exec_resize(a->exec, (uint16_t)rows, (uint16_t)cols, err);
    }
    if (strcmp(type, "stdin_close") == 0)
        return exec_close_stdin(a->exec, err);
    if (strcmp(type, "signal") == 0) {
        int signo;
        int r = signal_parse(json_object_get(o, "signal"), &signo, err);
        if (r < 0)
            return r;
        r = note_attach(a, "signal", json_pack("{s:i}", "signal", signo), err);
        if (r < 0)
            return r;
        return exec_signal(a->exec, signo, err);
    }
    return error_field(err, "type", "'type' must be resize, stdin_close or signal, not '%.40s'",
                       type);
}

static void send_error(struct attach *a, const struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    _cleanup_json_ json_t *o =
        json_pack("{s:s, s:s, s:o}", "type", "error", "code", error_code_name(err->code), "message",
                  json_message(err->message));
    json_format(o, &b);
    if (!ws_send(a->ws, false, b.data, b.len)) {
        a->full = true;
        ws_pause(a->ws);
    }
}

/* Held back while the command does not read, and while the client does not read its errors. */
static void resume_attach(struct attach *a)
{
    if (!a->finished && !a->full && exec_stdin_queued(a->exec) <= ATTACH_STDIN_MAX)
        ws_resume(a->ws);
}

static void on_stdin_drain(struct exec_drain *w)
{
    resume_attach(container_of(w, struct attach, drain));
}

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    struct attach *a = ws_data(ws);
    struct error err = {0};
    if (a->finished)
        return;
    int r = binary ? exec_write(a->exec, data, len, &err) : attach_on_control(a, data, len, &err);
    if (binary && r >= 0)
        audit_stream_add(&a->input, data, len);
    if (r < 0)
        send_error(a, &err);
    else if (exec_stdin_queued(a->exec) > ATTACH_STDIN_MAX)
        ws_pause(ws);
}

static void on_drain(struct ws *ws)
{
    struct attach *a = ws_data(ws);
    a->full = false;
    pump_output(a);
    resume_attach(a);
}

static void on_close(struct ws *ws)
{
    attach_free(ws_data(ws));
}

int handle_attach(struct api_request *req)
{
    static const struct ws_handlers handlers = {on_message, on_drain, on_close};
    struct sandbox *sb = api_find_sandbox(req);
    struct exec *e = sb ? api_find_exec(req, sb) : NULL;
    uint64_t since;
    if (!e)
        return 0;
    if (api_check_stream(req, &since, req->err) < 0 ||
        run_record_steer(req->services->audit, e, req->who, "attach", NULL, req->err) < 0)
        return -1;
    struct attach *a = new0(struct attach);
    a->exec = exec_ref(e);
    a->who = *req->who;
    a->audit = req->services->audit;
    strbuf_init(&a->scratch, ATTACH_FRAME_MAX);
    strbuf_init(&a->frame, ATTACH_FRAME_MAX);
    list_init(&a->reader.node);
    sandbox_hold(sb);
    a->reader.next_seq = since + 1;
    a->ws = http_upgrade_ws(api_take(req), NULL, &handlers, a);
    if (!a->ws) {
        attach_free(a);
        return 0;
    }
    a->reader.on_ready = on_ready;
    a->drain.on_drain = on_stdin_drain;
    exec_watch_stdin(e, &a->drain);
    journal_subscribe(exec_journal(e), &a->reader);
    pump_output(a);
    return 0;
}
