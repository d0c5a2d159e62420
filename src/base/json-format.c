/* SPDX-License-Identifier: Apache-2.0 */
/* See json-format.h. The library's own dumper notes every object it is in in a table of printed
 * addresses, and hands out its text in pieces of a few bytes: several times the work of writing it.
 */
#include "base/json-format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define REPLACEMENT  "\xef\xbf\xbd"
#define INT_TEXT_MAX 24

/* Runs of such bytes are copied whole; nearly all text is one. */
static bool is_plain(unsigned char c, unsigned char end)
{
    return c >= 0x20 && c != '"' && c != '\\' && c < end;
}

static int put_escaped(struct strbuf *out, unsigned char c, unsigned how)
{
    static const char names[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                 ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    const char *hex = how & JSON_CONTROLS_AS_NUMBERS ? "0123456789abcdef" : "0123456789ABCDEF";
    bool named = !(how & JSON_CONTROLS_AS_NUMBERS) || c >= 0x20;
    if (named && c < sizeof(names) && names[c])
        return strbuf_append(out, (char[]){'\\', names[c]}, 2);
    return strbuf_append(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

int json_format_inside(struct strbuf *out, const char *data, size_t len, unsigned how)
{
    unsigned char end = how & JSON_CONTROLS_AS_NUMBERS ? 0x7f : 0x80;
    int r = 0;
    for (size_t n; len && r >= 0; data += n, len -= n) {
        for (n = 0; n < len && is_plain((unsigned char)data[n], end); n++)
            ;
        if (n) {
            r = strbuf_append(out, data, n);
        } else if ((unsigned char)*data < 0x80) {
            n = 1;
            r = put_escaped(out, (unsigned char)*data, how);
        } else {
            n = utf8_sequence(data, len);
            if (!n && !(how & JSON_REPLACE_BYTES))
                return -EILSEQ;
            r = n ? strbuf_append(out, data, n) : strbuf_append(out, REPLACEMENT, 3);
            n = n ? n : 1;
        }
    }
    return r;
}

static int put_quoted(struct strbuf *out, const char *data, size_t len, unsigned how)
{
    int r = strbuf_append(out, "\"", 1);
    if (r < 0)
        return r;
    r = json_format_inside(out, data, len, how);
    if (r < 0)
        return r;
    return strbuf_append(out, "\"", 1);
}

/* One string with its quotes. -EILSEQ when it is not UTF-8. */
static int json_format_string(struct strbuf *out, const char *data, size_t len)
{
    return put_quoted(out, data, len, 0);
}

/* The value is negated as unsigned: INT64_MIN has no positive counterpart. */
int json_format_int(struct strbuf *out, int64_t value)
{
    char digits[INT_TEXT_MAX];
    size_t at = sizeof(digits);
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    if (value < 0)
        digits[--at] = '-';
    return strbuf_append(out, digits + at, sizeof(digits) - at);
}

/* --- trees */

static int put_value(const json_t *value, struct strbuf *out, int depth);

static int put_object(const json_t *value, struct strbuf *out, int depth)
{
    int r = strbuf_append(out, "{", 1);
    bool more = false;
    json_t *object = (json_t *)value;
    if (r < 0)
        return r;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        r = more ? strbuf_append(out, ",", 1) : 0;
        if (r < 0)
            return r;
        r = json_format_string(out, json_object_iter_key(i), json_object_iter_key_len(i));
        if (r < 0)
            return r;
        r = strbuf_append(out, ":", 1);
        if (r < 0)
            return r;
        r = put_value(json_object_iter_value(i), out, depth + 1);
        if (r < 0)
            return r;
        more = true;
    }
    return strbuf_append(out, "}", 1);
}

static int put_array(const json_t *value, struct strbuf *out, int depth)
{
    int r = strbuf_append(out, "[", 1);
    if (r < 0)
        return r;
    for (size_t i = 0, n = json_array_size(value); i < n; i++) {
        r = i ? strbuf_append(out, ",", 1) : 0;
        if (r < 0)
            return r;
        r = put_value(json_array_get(value, i), out, depth + 1);
        if (r < 0)
            return r;
    }
    return strbuf_append(out, "]", 1);
}

static int put_thousandths(struct strbuf *out, int64_t n)
{
    char text[] = {'.', (char)('0' + n / 100 % 10), (char)('0' + n / 10 % 10),
                   (char)('0' + n % 10)};
    size_t len = sizeof(text);
    while (len > 2 && text[len - 1] == '0')
        len--;
    int r = json_format_int(out, n / 1000);
    if (r < 0)
        return r;
    return strbuf_append(out, text, len);
}

/* With 15 digits every decimal that short comes out as it went in (17 would make 0.1 longer); a
 * number that these do not tell from its neighbours gets all 17. Most are times in thousandths,
 * which need no printf. */
static int put_real(const json_t *value, struct strbuf *out)
{
    char text[64];
    double v = json_real_value(value);
    int64_t n = v > 0 && v < 1e9 ? (int64_t)(v * 1000 + 0.5) : 0;
    if (n && (double)n / 1000 == v)
        return put_thousandths(out, n);
    size_t len =
        json_dumpb(value, text, sizeof(text) - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (!len || len >= sizeof(text))
        return -EINVAL;
    text[len] = 0;
    if (strtod(text, NULL) != v)
        len = json_dumpb(value, text, sizeof(text), JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    return len && len <= sizeof(text) ? strbuf_append(out, text, len) : -EINVAL;
}

static int put_value(const json_t *value, struct strbuf *out, int depth)
{
    if (!value || depth > JSON_PARSER_MAX_DEPTH)
        return -EINVAL;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return put_object(value, out, depth);
    case JSON_ARRAY:
        return put_array(value, out, depth);
    case JSON_STRING:
        return json_format_string(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return json_format_int(out, json_integer_value(value));
    case JSON_REAL:
        return put_real(value, out);
    case JSON_TRUE:
        return strbuf_append(out, "true", 4);
    case JSON_FALSE:
        return strbuf_append(out, "false", 5);
    case JSON_NULL:
        return strbuf_append(out, "null", 4);
    }
    return -EINVAL;
}

int json_format(const json_t *value, struct strbuf *out)
{
    return put_value(value, out, 0);
}

/* --- without a tree */

struct json_text json_text_begin(struct strbuf *out, char bracket)
{
    struct json_text t = {.out = out};
    t.error = strbuf_append(out, &bracket, 1);
    return t;
}

/* The comma and the key; false when there was an error before or is now. */
static bool before_value(struct json_text *t, const char *key)
{
    if (t->error >= 0 && t->more)
        t->error = strbuf_append(t->out, ",", 1);
    if (t->error >= 0 && key) {
        t->error = strbuf_append(t->out, "\"", 1);
        t->error = t->error < 0 ? t->error : strbuf_puts(t->out, key);
        t->error = t->error < 0 ? t->error : strbuf_append(t->out, "\":", 2);
    }
    t->more = true;
    return t->error >= 0;
}

void json_text_int(struct json_text *t, const char *key, int64_t value)
{
    if (before_value(t, key))
        t->error = json_format_int(t->out, value);
}

void json_text_bool(struct json_text *t, const char *key, bool value)
{
    if (before_value(t, key))
        t->error = strbuf_puts(t->out, value ? "true" : "false");
}

void json_text_string(struct json_text *t, const char *key, const char *value)
{
    if (before_value(t, key))
        t->error = json_format_string(t->out, value, strlen(value));
}

void json_text_bytes(struct json_text *t, const char *key, const char *data, size_t len)
{
    if (before_value(t, key))
        t->error = put_quoted(t->out, data, len, JSON_REPLACE_BYTES);
}

void json_text_value(struct json_text *t, const char *key, const json_t *value)
{
    if (before_value(t, key))
        t->error = json_format(value, t->out);
}

void json_text_open(struct json_text *t, const char *key, char bracket)
{
    if (before_value(t, key))
        t->error = strbuf_append(t->out, &bracket, 1);
    t->more = false;
}

void json_text_close(struct json_text *t, char bracket)
{
    if (t->error >= 0)
        t->error = strbuf_append(t->out, &bracket, 1);
    t->more = true;
}

int json_text_end(struct json_text *t, char bracket)
{
    json_text_close(t, bracket);
    return t->error < 0 ? t->error : 0;
}
