/* SPDX-License-Identifier: Apache-2.0 */
/* jansson's integers have 64 bits and an id may have more. Before the text is parsed, every id that
 * may be too big is noted beside it, with the message that it is of, and 0 stands in its place. */
#include "mcp/rpc.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

#define INT64_DIGITS 18 /* so many always fit */

/* --- ids beyond 64 bits */

struct span {
    size_t start, end;
};

static size_t skip_string(const char *s, size_t len, size_t i)
{
    for (i++; i < len && s[i] != '"'; i++)
        if (s[i] == '\\')
            i++;
    return i < len ? i + 1 : len;
}

static size_t skip_space(const char *s, size_t len, size_t i)
{
    while (i < len && strchr(" \t\r\n", s[i]) && s[i])
        i++;
    return i;
}

static bool is_name(const char *s, size_t n, const char *name)
{
    return n == strlen(name) + 2 && memcmp(s + 1, name, n - 2) == 0;
}

/* A whole number of more digits than always fit: true, with its span. */
static bool big_integer(const char *s, size_t len, size_t i, struct span *ret)
{
    size_t start = i;
    if (i < len && s[i] == '-')
        i++;
    size_t digits = i;
    while (i < len && isdigit((unsigned char)s[i]))
        i++;
    if (i - digits <= INT64_DIGITS || s[digits] == '0')
        return false;
    if (i < len && strchr(".eE", s[i]) && s[i])
        return false;
    *ret = (struct span){start, i};
    return true;
}

/* How far a walk over the text has come: where, and in which part of which message. */
struct walk {
    const char *s;
    size_t len, i;
    size_t depth;   /* of objects and arrays */
    size_t object;  /* the depth of messages: 1, or 2 in a batch */
    size_t message; /* the current one's number */
    bool in_params; /* the message's last member is "params" */
};

/* At a string: past it, or past the big id whose name it is. True with the span of that. */
static bool walk_string(struct walk *w, bool *ret_request_id, struct span *ret)
{
    size_t start = w->i, end = skip_string(w->s, w->len, start);
    size_t colon = skip_space(w->s, w->len, end);
    const char *name = w->s + start;
    w->i = end;
    if (colon >= w->len || w->s[colon] != ':')
        return false;
    bool is_id = w->depth == w->object && is_name(name, end - start, "id");
    *ret_request_id =
        w->depth == w->object + 1 && w->in_params && is_name(name, end - start, "requestId");
    if (w->depth == w->object)
        w->in_params = is_name(name, end - start, "params");
    if ((!is_id && !*ret_request_id) ||
        !big_integer(w->s, w->len, skip_space(w->s, w->len, colon + 1), ret))
        return false;
    w->i = ret->end;
    return true;
}

/* The next big id, or false at the end of the text. */
static bool walk_to_big_id(struct walk *w, bool *ret_request_id, struct span *ret)
{
    while (w->i < w->len) {
        char c = w->s[w->i];
        if (c == '"') {
            if (walk_string(w, ret_request_id, ret))
                return true;
            continue;
        }
        if (c == '{' || c == '[')
            w->depth++;
        else if (c == '}' || c == ']')
            w->depth -= w->depth > 0;
        else if (c == ',' && w->depth == 1 && w->object == 2)
            w->message++;
        w->i++;
    }
    return false;
}

static void big_id_note(struct rpc_text *t, size_t message, bool request_id, char *text)
{
    t->big_ids = xrealloc(t->big_ids, (t->n_big_ids + 1) * sizeof(*t->big_ids));
    t->big_ids[t->n_big_ids++] = (struct rpc_big_id){message, request_id, text};
}

/* Fills out where there is a big id, and leaves it empty where there is none. */
static void take_big_ids(struct rpc_text *t, const char *data, size_t len, struct strbuf *out)
{
    size_t copied = 0, first = skip_space(data, len, 0);
    struct walk w = {.s = data, .len = len, .object = first < len && data[first] == '[' ? 2 : 1};
    struct span id;
    bool request_id;
    while (walk_to_big_id(&w, &request_id, &id)) {
        big_id_note(t, w.message, request_id, xstrndup(data + id.start, id.end - id.start));
        strbuf_append(out, data + copied, id.start - copied);
        strbuf_puts(out, "0");
        copied = id.end;
    }
    if (copied)
        strbuf_append(out, data + copied, len - copied);
}

/* --- parsing */

int rpc_text_parse(struct rpc_text *t, const char *data, size_t len, struct error *err)
{
    _cleanup_strbuf_ struct strbuf without = STRBUF_INIT(len + 1);
    *t = (struct rpc_text){0};
    take_big_ids(t, data, len, &without);
    t->json = t->n_big_ids ? json_parse_message(without.data, without.len, err)
                           : json_parse_message(data, len, err);
    if (!t->json) {
        rpc_text_done(t);
        return -EINVAL;
    }
    t->batch = json_is_array(t->json);
    return 0;
}

void rpc_text_done(struct rpc_text *t)
{
    json_decref(t->json);
    for (size_t i = 0; i < t->n_big_ids; i++)
        free(t->big_ids[i].text);
    free(t->big_ids);
    *t = (struct rpc_text){0};
}

size_t rpc_text_count(const struct rpc_text *t)
{
    return t->batch ? json_array_size(t->json) : 1;
}

/* The text of an id of the i-th message; NULL when it is not an id. */
static char *id_text(const struct rpc_text *t, size_t message, bool request_id, const json_t *id)
{
    char *text = NULL;
    for (size_t i = 0; i < t->n_big_ids && !text; i++)
        if (t->big_ids[i].message == message && t->big_ids[i].request_id == request_id)
            text = xstrdup(t->big_ids[i].text);
    if (!text && (json_is_string(id) || json_is_integer(id)))
        text = json_dumps(id, JSON_ENCODE_ANY);
    if (text && strlen(text) > RPC_ID_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

char *rpc_request_id(const struct rpc_text *t, size_t i, const struct rpc_message *m)
{
    return id_text(t, i, true, json_object_get(m->params, "requestId"));
}

static void message_set_invalid(struct rpc_message *m, int code, const char *why)
{
    m->kind = RPC_INVALID;
    m->code = code;
    snprintf(m->why, sizeof(m->why), "%s", why);
}

static void parse_call(struct rpc_message *m, const json_t *json, const json_t *id)
{
    const json_t *method = json_object_get(json, "method");
    const json_t *params = json_object_get(json, "params");
    m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    if (!json_is_string(method) || strlen(json_string_value(method)) != json_string_length(method))
        message_set_invalid(m, RPC_INVALID_REQUEST, "'method' must be a string");
    else if (id && !m->id)
        message_set_invalid(m, RPC_INVALID_REQUEST, "'id' must be a string or a whole number");
    else if (params && !json_is_object(params))
        message_set_invalid(m, RPC_INVALID_PARAMS, "'params' must be an object");
    m->method = json_string_value(method);
    m->params = params;
}

static void parse_response(struct rpc_message *m, const json_t *json)
{
    m->kind = RPC_RESPONSE;
    m->result = json_object_get(json, "result");
    m->error = json_object_get(json, "error");
    if (!m->result == !m->error)
        message_set_invalid(m, RPC_INVALID_REQUEST, "a message has a method, a result or an error");
    else if (m->error && !json_is_object(m->error))
        message_set_invalid(m, RPC_INVALID_REQUEST, "'error' must be an object");
    else if (!m->id)
        message_set_invalid(m, RPC_INVALID_REQUEST, "a response needs the id of its request");
}

void rpc_message_init(struct rpc_message *m, const struct rpc_text *t, size_t i)
{
    const json_t *json = t->batch ? json_array_get(t->json, i) : t->json;
    *m = (struct rpc_message){0};
    if (!json_is_object(json)) {
        message_set_invalid(m, RPC_INVALID_REQUEST, "a message must be an object");
        return;
    }
    const char *version = json_string_value(json_object_get(json, "jsonrpc"));
    const json_t *id = json_object_get(json, "id");
    m->id = id ? id_text(t, i, false, id) : NULL;
    if (!version || strcmp(version, "2.0") != 0)
        message_set_invalid(m, RPC_INVALID_REQUEST, "'jsonrpc' must be \"2.0\"");
    else if (json_object_get(json, "method"))
        parse_call(m, json, id);
    else
        parse_response(m, json);
}

void rpc_message_done(struct rpc_message *m)
{
    free(m->id);
    m->id = NULL;
}

size_t rpc_count_answers(const struct rpc_text *t)
{
    size_t n = 0;
    for (size_t i = 0; i < rpc_text_count(t); i++) {
        struct rpc_message m;
        rpc_message_init(&m, t, i);
        n += m.kind == RPC_REQUEST || m.kind == RPC_INVALID;
        rpc_message_done(&m);
    }
    return n;
}

/* --- formatting */

static int append_value(struct strbuf *out, const char *name, const json_t *value)
{
    int r = strbuf_printf(out, ",\"%s\":", name);
    if (r < 0)
        return r;
    return json_format(value, out);
}

static int append_head(struct strbuf *out, const char *id)
{
    int r = strbuf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    if (r < 0)
        return r;
    return strbuf_puts(out, id ? id : "null");
}

static int append_end(struct strbuf *out, int r)
{
    if (r < 0)
        return r;
    return strbuf_puts(out, "}");
}

int rpc_format_result(struct strbuf *out, const char *id, const json_t *result)
{
    int r = append_head(out, id);
    return append_end(out, r < 0 ? r : append_value(out, "result", result));
}

int rpc_format_error(struct strbuf *out, const char *id, int code, const char *message)
{
    _cleanup_json_ json_t *e =
        json_pack("{s:i, s:o}", "code", code, "message", json_message(message));
    int r = append_head(out, id);
    return append_end(out, r < 0 ? r : append_value(out, "error", e));
}

int rpc_format_notification(struct strbuf *out, const char *method, const json_t *params)
{
    int r = strbuf_printf(out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\"", method);
    return append_end(out, r < 0 || !params ? r : append_value(out, "params", params));
}

int rpc_format_request(struct strbuf *out, const char *id, const char *method, const json_t *params)
{
    int r = append_head(out, id);
    if (r < 0)
        return r;
    r = strbuf_printf(out, ",\"method\":\"%s\"", method);
    if (r < 0)
        return r;
    return append_end(out, params ? append_value(out, "params", params) : 0);
}
