/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/keeper-client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "keeper/keeper-proto.h"

#define CALL_KEY_SIZE 24

struct keeper_call {
    struct keeper_client *client;
    char key[CALL_KEY_SIZE];
    int64_t id;
    const struct keeper_handlers *handlers;
    void *data;
};

struct keeper_client {
    uv_poll_t poll;
    int sock;
    int64_t next_id;
    struct map *calls; /* by id, as text */
    json_t *(*in_use)(void *data);
    void *in_use_data;
};

/* --- out */

static int send_record(struct keeper_client *c, json_t *record, int fd, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEEPER_RECORD_MAX - 1);
    int r = json_format(record, &b);
    json_decref(record);
    if (r < 0)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the request is larger than a record to the image keeper may be");
    ssize_t n = c->sock < 0 ? -EPIPE : fd_send_msg(c->sock, b.data, b.len, &fd, fd >= 0);
    if (n < 0)
        return error_set(err, ERROR_UNAVAILABLE, (int)-n, "the image keeper does not answer");
    return 0;
}

void keeper_client_tell(struct keeper_client *c, json_t *record)
{
    send_record(c, record, -1, NULL);
}

struct keeper_call *keeper_call_start(struct keeper_client *c, json_t *request, int fd,
                                      const struct keeper_handlers *handlers, void *data,
                                      struct error *err)
{
    int64_t id = c->next_id++;
    json_object_set_new(request, "id", json_integer(id));
    if (send_record(c, request, fd, err) < 0)
        return NULL;
    struct keeper_call *call = new0(struct keeper_call);
    *call = (struct keeper_call){.client = c, .id = id, .handlers = handlers, .data = data};
    snprintf(call->key, sizeof(call->key), "%" PRId64, id);
    map_put(c->calls, call->key, call);
    return call;
}

int keeper_call_tell(struct keeper_call *call, json_t *record)
{
    json_object_set_new(record, "id", json_integer(call->id));
    return send_record(call->client, record, -1, NULL);
}

static void forget_call(struct keeper_call *call)
{
    map_remove(call->client->calls, call->key);
    free(call);
}

/* The keeper may have answered already. Its record then finds no call under this id and is
 * dropped; ids are never used twice. */
void keeper_call_cancel(struct keeper_call *call)
{
    if (!call)
        return;
    keeper_call_tell(call, json_pack("{s:s}", "op", "cancel"));
    forget_call(call);
}

/* --- in */

/* The call is forgotten first, because on_done may start another one, or close the client. */
static void call_finish(struct keeper_call *call, json_t *result, const struct error *err)
{
    const struct keeper_handlers *handlers = call->handlers;
    void *data = call->data;
    forget_call(call);
    handlers->on_done(data, result, err);
}

/* One after another: what is called back may end others. */
static void fail_all(struct keeper_client *c, enum error_code code, const char *why)
{
    struct error err = {0};
    struct keeper_call *call;
    error_set(&err, code, 0, "%s", why);
    for (size_t cursor = 0; (call = map_next(c->calls, &cursor)); cursor = 0)
        call_finish(call, NULL, &err);
}

static void on_failed(struct keeper_call *call, const json_t *failure)
{
    struct error err = {0};
    const char *code = json_string_value(json_object_get(failure, "code"));
    const char *text = json_string_value(json_object_get(failure, "message"));
    error_set(&err, error_code_find(code ? code : ""), 0, "%s", text ? text : "no reason given");
    call_finish(call, NULL, &err);
}

/* Only the control plane knows which images sandboxes run from, so the keeper asks it before it
 * evicts any. */
static void on_full(struct keeper_client *c, struct keeper_call *call)
{
    struct error err = {0};
    json_t *keep = c->in_use ? c->in_use(c->in_use_data) : json_array();
    if (keeper_call_tell(call, json_pack("{s:s, s:o}", "op", "evict", "keep", keep)) == 0)
        return;
    error_set(&err, ERROR_NO_SPACE, 0, "there are too many images in use to find room for another");
    keeper_call_tell(call, json_pack("{s:s}", "op", "cancel"));
    call_finish(call, NULL, &err);
}

static void on_record(struct keeper_client *c, json_t *record)
{
    char key[CALL_KEY_SIZE];
    json_t *part;
    if (json_object_get(record, "gone")) {
        const char *code = json_string_value(json_object_get(record, "code"));
        const char *why = json_string_value(json_object_get(record, "message"));
        if (code && why)
            fail_all(c, error_code_find(code), why);
        else
            fail_all(c, ERROR_UNAVAILABLE, "the image keeper has died; try again");
        return;
    }
    snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT,
             json_integer_value(json_object_get(record, "id")));
    struct keeper_call *call = map_find(c->calls, key);
    if (!call)
        return; /* canceled, or of another control plane */
    if ((part = json_object_get(record, "progress")) && call->handlers->on_progress)
        call->handlers->on_progress(call->data, part);
    else if ((part = json_object_get(record, "item")) && call->handlers->on_item)
        call->handlers->on_item(call->data, part);
    else if (json_object_get(record, "full"))
        on_full(c, call);
    else if ((part = json_object_get(record, "error")))
        on_failed(call, part);
    else if ((part = json_object_get(record, "done")))
        call_finish(call, part, NULL);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct keeper_client *c = poll->data;
    _cleanup_free_ char *record = xcalloc(1, KEEPER_RECORD_MAX);
    int fds[FD_PASS_MAX];
    (void)events;
    ssize_t n = status < 0 ? status : fd_recv_msg(c->sock, record, KEEPER_RECORD_MAX, fds);
    if (n == -EAGAIN || n == -EINTR || n == -EMSGSIZE)
        return;
    if (n <= 0) {
        log_warn("the image keeper's socket is closed");
        uv_poll_stop(poll);
        fail_all(c, ERROR_UNAVAILABLE, "the image keeper is gone");
        return;
    }
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    struct error err = {0};
    _cleanup_json_ json_t *o = json_parse_object(record, (size_t)n, &err);
    if (o)
        on_record(c, o);
    else
        log_warn("a record of the image keeper cannot be read: %s", err.message);
}

/* --- life */

struct keeper_client *keeper_client_new(uv_loop_t *loop, int sock, uint64_t generation)
{
    struct keeper_client *c = new0(struct keeper_client);
    c->sock = sock;
    /* The keeper outlives a control plane. Ids begin with the generation, so that an answer to
     * an earlier control plane is never taken for one to this. */
    c->next_id = (int64_t)((generation & 0x7fffff) << 32) + 1;
    c->calls = map_new();
    fd_set_nonblock(sock, true);
    uv_poll_init(loop, &c->poll, sock);
    c->poll.data = c;
    uv_poll_start(&c->poll, UV_READABLE, on_readable);
    return c;
}

void keeper_client_on_full(struct keeper_client *c, json_t *(*in_use)(void *data), void *data)
{
    c->in_use = in_use;
    c->in_use_data = data;
}

static void on_closed(uv_handle_t *handle)
{
    struct keeper_client *c = handle->data;
    map_free(c->calls);
    free(c);
}

void keeper_client_close(struct keeper_client *c)
{
    if (!c)
        return;
    fail_all(c, ERROR_UNAVAILABLE, "the daemon is shutting down");
    uv_poll_stop(&c->poll);
    fd_close(&c->sock);
    uv_close((uv_handle_t *)&c->poll, on_closed);
}
