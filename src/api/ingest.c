/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandboxes/{id}/ingest: a sandbox's stream container brings the output of commands, one event
 * per text frame, as the sbx contract has them: "start" says nothing new, "output" has data of a
 * stream, "exit" says that there is no more output; the exit code is the runner's to say. Nothing
 * is sent back. An event that does not fit ends the connection: the container connects again, and
 * begins where the files begin. A sandbox has one such connection, the newest.
 *
 * Our own container adds "offset", of the first byte in its stream, and has "data_base64" for what
 * is no text. One that does not is taken at its word that each event continues the one before. Such
 * containers replace each byte that is no UTF-8 by U+FFFD, which counts as the one byte that it
 * stands for: it becomes 0xff, which readers are shown as U+FFFD again. One that the command itself
 * wrote looks the same, and its two other bytes are not missed at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/members.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define CLOSE_BAD   1008
#define CLOSE_LATER 1013
#define OFFSET_MAX  (1ll << 60)

struct ingest {
    struct sandbox *sandbox;
    struct ws *ws;
};

int ingest_identify(struct api_request *req, struct error *err)
{
    const char *token = http_request_query(req->http, "token");
    if (!token)
        return 0;
    if (!sandbox_find_streamed(req->services->manager, NULL, token))
        return error_set(err, ERROR_UNAUTHORIZED, 0,
                         "the token is not that of a sandbox's stream container");
    req->identity = (struct identity){.key = IDENTITY_STREAM,
                                      .name = IDENTITY_STREAM,
                                      .roles = ROLE_AGENT,
                                      .authenticated = true};
    return 1;
}

/* Returns the length that is left. */
static size_t take_replaced(char *data, size_t len, size_t *ret_n)
{
    size_t out = 0;
    *ret_n = 0;
    for (size_t i = 0; i < len; out++) {
        bool replaced = len - i >= 3 && memcmp(data + i, REPLACEMENT, 3) == 0;
        data[out] = replaced ? '\xff' : data[i];
        i += replaced ? 3 : 1;
        *ret_n += replaced;
    }
    return out;
}

static int ingest_output(struct exec *e, const json_t *event, struct error *err)
{
    const char *stream = "", *encoded = NULL;
    const json_t *data = json_object_get(event, "data");
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0, n_replaced = 0;
    int64_t offset = -1;
    int r = json_member_string(event, "stream", &stream, err);
    if (r < 0)
        return r;
    r = json_member_string(event, "data_base64", &encoded, err);
    if (r < 0)
        return r;
    r = json_member_int(event, "offset", 0, OFFSET_MAX, &offset, err);
    if (r < 0)
        return r;
    uint8_t which = strcmp(stream, "stdout") == 0   ? OUTPUT_STDOUT
                    : strcmp(stream, "stderr") == 0 ? OUTPUT_STDERR
                                                    : 0;
    if (!which)
        return error_field(err, "stream", "'%.40s' is neither stdout nor stderr", stream);
    if (encoded && base64_decode(encoded, strlen(encoded), &bytes, &len) < 0)
        return error_field(err, "data_base64", "'data_base64' is no base64");
    if (!encoded && data && !json_is_string(data))
        return error_field(err, "data", "'data' is no string");
    if (!encoded && data) {
        len = json_string_length(data);
        bytes = xcalloc(len + 1, 1);
        memcpy(bytes, json_string_value(data), len);
        len = offset < 0 ? take_replaced(bytes, len, &n_replaced) : len;
    }
    return len ? exec_ingest(e, which, offset, bytes, len, n_replaced, err) : 0;
}

/* A command that the runner has told of is known. One that is not known has ended, and only FORGET
 * has not reached its runner; or that runner has yet to tell of it. */
static int ingest_event(struct ingest *in, const json_t *event, struct error *err)
{
    const char *type = "", *id = "";
    int r = json_member_string(event, "type", &type, err);
    if (r < 0)
        return r;
    r = json_member_string(event, "exec_id", &id, err);
    if (r < 0)
        return r;
    struct exec *e = exec_find(in->sandbox, id);
    if (!e && !sandbox_is_reached(in->sandbox))
        return error_set(err, ERROR_UNAVAILABLE, 0, "the sandbox's runner is not reached yet");
    if (strcmp(type, "output") == 0)
        return e ? ingest_output(e, event, err) : 0;
    if (strcmp(type, "exit") == 0) {
        if (e)
            exec_ingest_end(e);
        return 0;
    }
    return strcmp(type, "start") == 0
               ? 0
               : error_field(err, "type", "'%.40s' is none of start, output, exit", type);
}

static void on_ingest_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    struct ingest *in = ws_data(ws);
    struct error err = {0};
    _cleanup_json_ json_t *event = binary ? NULL : json_parse_message(data, len, &err);
    if (binary)
        error_set(&err, ERROR_INVALID, 0, "an event is a text frame");
    else if (event && !json_is_object(event))
        error_set(&err, ERROR_INVALID, 0, "an event is an object");
    if (!error_is_set(&err) && sandbox_state(in->sandbox) == SANDBOX_GONE)
        error_set(&err, ERROR_INVALID, 0, "the sandbox is gone");
    if (error_is_set(&err) || ingest_event(in, event, &err) < 0)
        ws_close(ws, err.code == ERROR_UNAVAILABLE ? CLOSE_LATER : CLOSE_BAD, err.message);
}

static void on_ingest_drain(struct ws *ws)
{
    (void)ws;
}

static void on_ingest_close(struct ws *ws)
{
    struct ingest *in = ws_data(ws);
    sandbox_end_stream(in->sandbox, in);
    sandbox_unref(in->sandbox);
    free(in);
}

static void on_ingest_replaced(void *data)
{
    struct ingest *in = data;
    ws_close(in->ws, CLOSE_BAD, "a newer connection brings the output of this sandbox");
}

int handle_sbx_ingest(struct api_request *req)
{
    /* Containers of the sbx project never read: a ping that they do not answer says nothing. */
    static const struct ws_handlers handlers = {on_ingest_message, on_ingest_drain, on_ingest_close,
                                                .peer_never_reads = true};
    const char *token = http_request_query(req->http, "token");
    struct sandbox *sb = token
                             ? sandbox_find_streamed(req->services->manager, req->params[0], token)
                             : api_lookup_sandbox(req, req->params[0]);
    if (!api_found(req, sb, "sandbox"))
        return 0;
    if (!sandbox_is_streamed(sb))
        return error_set(req->err, ERROR_CONFLICT, 0,
                         "sandbox %s has a runner of its own: events from a sidecar are not taken",
                         sandbox_id(sb));
    /* Not even the sandbox's owner makes up what its commands print. */
    if (!token)
        return error_set(req->err, ERROR_UNAUTHORIZED, 0,
                         "only the token of the sandbox's stream container brings output");
    struct ingest *in = new0(struct ingest);
    in->sandbox = sandbox_ref(sb);
    in->ws = http_upgrade_ws(api_take(req), NULL, &handlers, in);
    if (in->ws) {
        sandbox_begin_stream(sb, on_ingest_replaced, in);
        return 0;
    }
    sandbox_unref(in->sandbox);
    free(in);
    return 0;
}
