/* SPDX-License-Identifier: Apache-2.0 */
/* Events of execs, as lines of NDJSON or as WebSocket messages: parsed once here. */
#include "libsbx/internal.h"

#include <string.h>

#include "base/json.h"

/* Parses one event and hands it on; *ret_exit is set on an exit event. Returns what fn returned, or
 * -1 with err set when the text is no event. */
static int libsbx_event_deliver(const char *json, size_t len, sbx_event_fn *fn, void *data,
                                bool *ret_exit, bool *ret_bad, struct sbx_error *err)
{
    _cleanup_json_ json_t *root = libsbx_parse(json, len, err);
    const char *type = json_string_value(json_object_get(root, "type"));
    if (!type) {
        *ret_bad = true;
        return root ? libsbx_fail(err, "internal", "the daemon sent an event without a type") : -1;
    }
    struct sbx_event ev = {.type = type,
                           .stream = json_member_text(root, "stream"),
                           .status = json_member_text(root, "status"),
                           .error = json_member_text(root, "error"),
                           .seq = -1,
                           .json = json,
                           .json_len = len};
    const json_t *seq = json_object_get(root, "seq");
    if (json_is_integer(seq))
        ev.seq = json_integer_value(seq);
    ev.has_exit_code = libsbx_int_member(root, "exit_code", &ev.exit_code);
    _cleanup_free_ char *bytes = libsbx_bytes_member(root, "data", &ev.data_len);
    ev.data = bytes;
    if (strcmp(type, "exit") == 0)
        *ret_exit = true;
    return fn(data, &ev);
}

struct event_sink {
    sbx_event_fn *fn;
    void *data;
    bool stopped, exited, bad;
    struct sbx_error err;
};

static int on_line(void *opaque, const char *line, size_t len)
{
    struct event_sink *s = opaque;
    int r = libsbx_event_deliver(line, len, s->fn, s->data, &s->exited, &s->bad, &s->err);
    s->stopped = r != 0 && !s->bad;
    return r;
}

/* Whether an exit event must come before the stream's end. */
static int stream_events(struct sbx_client *c, const char *method, const char *path,
                         const char *body, bool need_exit, struct event_sink *s,
                         struct sbx_error *err)
{
    int r = sbx_stream_lines(c, method, path, body, on_line, s, err);
    if (s->stopped)
        return 0;
    if (s->bad) {
        if (err)
            *err = s->err;
        return -1;
    }
    if (r == 0 && need_exit && !s->exited)
        return libsbx_fail(err, "unavailable", "the stream ended before the command did");
    return r;
}

int sbx_run_stream(struct sbx_client *c, const char *request, sbx_event_fn *on_event, void *data,
                   struct sbx_error *err)
{
    struct event_sink s = {.fn = on_event, .data = data};
    return stream_events(c, "POST", "/v1/run", request, true, &s, err);
}

int sbx_exec_logs(struct sbx_client *c, const char *id, const char *exec_id, int follow,
                  long long since, sbx_event_fn *on_event, void *data, struct sbx_error *err)
{
    struct event_sink s = {.fn = on_event, .data = data};
    _cleanup_free_ char *base = sbx_path_format("/v1/sandboxes/%s/execs/%s/logs", id, exec_id);
    _cleanup_free_ char *since_part = since >= 0 ? xasprintf("&since=%lld", since) : xstrdup("");
    _cleanup_free_ char *path = xasprintf("%s?follow=%d%s", base, follow ? 1 : 0, since_part);
    return stream_events(c, "GET", path, NULL, follow, &s, err);
}

int sbx_exec_stream(struct sbx_client *c, const char *id, const char *exec_id,
                    sbx_event_fn *on_event, void *data, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s/stream?exec_id=%s", id, exec_id);
    struct sbx_ws *ws = sbx_ws_open(c, path, err);
    if (!ws)
        return -1;
    int r = 0;
    bool exited = false, bad = false;
    while (r == 0 && !exited) {
        struct sbx_ws_message m;
        enum sbx_ws_result got = sbx_ws_receive(ws, -1, &m, err);
        if (got == SBX_WS_FAILED) {
            bad = true;
        } else if (got == SBX_WS_CLOSED) {
            bad = true;
            libsbx_fail(err, "unavailable", "the stream ended before the command did");
        } else if (got == SBX_WS_MESSAGE) {
            r = libsbx_event_deliver(m.data, m.len, on_event, data, &exited, &bad, err);
        }
        if (bad)
            r = -1;
    }
    sbx_ws_free(ws);
    return bad ? -1 : 0;
}
