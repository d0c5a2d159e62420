/* jansson's integers have 64 bits and an id may have more: before the text is parsed, an id that is
 * too big is turned into a string with a mark, and turned back where it is echoed. Only values of
 * members named "id" and "requestId" are looked at. */
#include "mcp/rpc.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

#define BIG_MARK       "\xee\x80\x80" /* U+E000, private use */
#define INT64_DIGITS   18             /* so many always fit */
#define BIG_IDS_GROWTH 16             /* bytes a marked id adds at most, with room */

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

static bool is_id_name(const char *s, size_t n)
{
    return (n == 4 && memcmp(s, "\"id\"", 4) == 0) ||
           (n == 11 && memcmp(s, "\"requestId\"", 11) == 0);
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

/* The next big id at or after *pos. */
static bool find_big_id(const char *s, size_t len, size_t *pos, struct span *ret)
{
    for (size_t i = *pos; i < len;) {
        if (s[i] != '"') {
            i++;
            continue;
        }
        size_t end = skip_string(s, len, i);
        size_t colon = skip_space(s, len, end);
        bool named = is_id_name(s + i, end - i) && colon < len && s[colon] == ':';
        if (named && big_integer(s, len, skip_space(s, len, colon + 1), ret)) {
            *pos = ret->end;
            return true;
        }
        i = end;
    }
    return false;
}

/* False where there is none. */
static bool mark_big_ids(const char *data, size_t len, struct strbuf *out)
{
    size_t pos = 0, copied = 0;
    struct span id;
    while (find_big_id(data, len, &pos, &id)) {
        strbuf_append(out, data + copied, id.start - copied);
        strbuf_puts(out, "\"" BIG_MARK);
        strbuf_append(out, data + id.start, id.end - id.start);
        strbuf_puts(out, "\"");
        copied = id.end;
    }
    if (copied)
        strbuf_append(out, data + copied, len - copied);
    return copied;
}

/* --- parsing */

int rpc_text_parse(struct rpc_text *t, const char *data, size_t len, struct error *err)
{
    _cleanup_strbuf_ struct strbuf marked = STRBUF_INIT(len + len / INT64_DIGITS * BIG_IDS_GROWTH);
    *t = (struct rpc_text){0};
    t->big_ids = mark_big_ids(data, len, &marked);
    t->json =
        t->big_ids ? json_parse_any(marked.data, marked.len, err) : json_parse_any(data, len, err);
    if (!t->json)
        return -EINVAL;
    t->batch = json_is_array(t->json);
    return 0;
}

void rpc_text_done(struct rpc_text *t)
{
    json_decref(t->json);
    t->json = NULL;
}

size_t rpc_text_count(const struct rpc_text *t)
{
    return t->batch ? json_array_size(t->json) : 1;
}

char *rpc_id_text(const struct rpc_text *t, const json_t *id)
{
    char *text = NULL;
    if (json_is_string(id) && t->big_ids &&
        strncmp(json_string_value(id), BIG_MARK, strlen(BIG_MARK)) == 0)
        text = strdup(json_string_value(id) + strlen(BIG_MARK));
    else if (json_is_string(id) || json_is_integer(id))
        text = json_dumps(id, JSON_ENCODE_ANY);
    if (text && strlen(text) > RPC_ID_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static void invalid(struct rpc_message *m, int code, const char *why)
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
        invalid(m, RPC_INVALID_REQUEST, "'method' must be a string");
    else if (id && !m->id)
        invalid(m, RPC_INVALID_REQUEST, "'id' must be a string or a whole number");
    else if (params && !json_is_object(params))
        invalid(m, RPC_INVALID_PARAMS, "'params' must be an object");
    m->method = json_string_value(method);
    m->params = params;
}

static void parse_response(struct rpc_message *m, const json_t *json)
{
    m->kind = RPC_RESPONSE;
    m->result = json_object_get(json, "result");
    m->error = json_object_get(json, "error");
    if (!m->result == !m->error)
        invalid(m, RPC_INVALID_REQUEST, "a message has a method, a result or an error");
    else if (m->error && !json_is_object(m->error))
        invalid(m, RPC_INVALID_REQUEST, "'error' must be an object");
    else if (!m->id)
        invalid(m, RPC_INVALID_REQUEST, "a response needs the id of its request");
}

void rpc_message_init(struct rpc_message *m, const struct rpc_text *t, size_t i)
{
    const json_t *json = t->batch ? json_array_get(t->json, i) : t->json;
    *m = (struct rpc_message){0};
    if (!json_is_object(json)) {
        invalid(m, RPC_INVALID_REQUEST, "a message must be an object");
        return;
    }
    const char *version = json_string_value(json_object_get(json, "jsonrpc"));
    const json_t *id = json_object_get(json, "id");
    m->id = id ? rpc_id_text(t, id) : NULL;
    if (!version || strcmp(version, "2.0") != 0)
        invalid(m, RPC_INVALID_REQUEST, "'jsonrpc' must be \"2.0\"");
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
    return r < 0 ? r : json_format(value, out);
}

static int append_head(struct strbuf *out, const char *id)
{
    int r = strbuf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    return r < 0 ? r : strbuf_puts(out, id ? id : "null");
}

static int append_end(struct strbuf *out, int r)
{
    return r < 0 ? r : strbuf_puts(out, "}");
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
    if (r >= 0)
        r = strbuf_printf(out, ",\"method\":\"%s\"", method);
    return append_end(out, r < 0 || !params ? r : append_value(out, "params", params));
}
