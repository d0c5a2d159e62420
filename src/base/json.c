/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/utf8.h"

/* jansson recurses as deep as its own compiled limit (2048); ours is smaller and counted here
 * without recursion, before it runs. So are the parts that cost it memory and time. */
static int check_shape(const char *data, size_t len, size_t parts_max, struct error *err)
{
    size_t depth = 0, parts = 0;
    bool string = false;
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                string = false;
        } else if (c == '"') {
            string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return error_set(err, ERROR_INVALID, 0,
                                 "invalid JSON: nested deeper than %d at byte %zu", JSON_DEPTH_MAX,
                                 i + 1);
            parts++;
        } else if (c == ':') {
            parts++;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    if (parts > parts_max)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the JSON has %zu objects, arrays and members, at most %zu are taken",
                         parts, parts_max);
    return 0;
}

static json_t *parse_text(const char *data, size_t len, size_t flags, size_t parts_max,
                          struct error *err)
{
    json_error_t je;
    if (len == 0) {
        error_set(err, ERROR_INVALID, 0, "invalid JSON: empty");
        return NULL;
    }
    /* jansson takes it for the end. */
    if (memchr(data, 0, len)) {
        error_set(err, ERROR_INVALID, 0, "invalid JSON: a NUL byte");
        return NULL;
    }
    if (check_shape(data, len, parts_max, err) < 0)
        return NULL;
    json_t *value = json_loadb(data, len, JSON_DECODE_ANY | flags, &je);
    if (!value)
        error_set(err, ERROR_INVALID, 0, "invalid JSON: line %d column %d: %s", je.line, je.column,
                  json_error_code(&je) == json_error_null_character
                      ? "\\u0000 is not allowed in a string"
                      : je.text);
    return value;
}

json_t *json_parse(const char *data, size_t len, struct error *err)
{
    return parse_text(data, len, JSON_REJECT_DUPLICATES, SIZE_MAX, err);
}

/* Duplicate keys are taken here: this is for texts whose writer we do not hold to our rules. */
json_t *json_parse_any(const char *data, size_t len, struct error *err)
{
    return parse_text(data, len, JSON_ALLOW_NUL, SIZE_MAX, err);
}

json_t *json_parse_message(const char *data, size_t len, struct error *err)
{
    return parse_text(data, len, JSON_ALLOW_NUL, JSON_PARTS_MAX, err);
}

static json_t *parse_object(const char *data, size_t len, size_t flags, size_t parts_max,
                            struct error *err)
{
    json_t *value = parse_text(data, len, flags | JSON_REJECT_DUPLICATES, parts_max, err);
    if (value && !json_is_object(value)) {
        error_set(err, ERROR_INVALID, 0, "invalid JSON: an object is expected");
        json_decref(value);
        return NULL;
    }
    return value;
}

json_t *json_parse_object(const char *data, size_t len, struct error *err)
{
    return parse_object(data, len, 0, SIZE_MAX, err);
}

json_t *json_parse_request(const char *data, size_t len, struct error *err)
{
    return parse_object(data, len, 0, JSON_PARTS_MAX, err);
}

json_t *json_parse_answer(const char *data, size_t len, struct error *err)
{
    return parse_object(data, len, JSON_ALLOW_NUL, SIZE_MAX, err);
}

/* null means the same as a member that is missing, as in the Go and Python clients that leave
 * fields unset. */
static json_t *find_member(const json_t *obj, const char *key)
{
    json_t *v = json_object_get(obj, key);
    return json_is_null(v) ? NULL : v;
}

int json_member_string(const json_t *obj, const char *key, const char **ret, struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return error_field(err, key, "'%s' must be a string", key);
    *ret = json_string_value(v);
    return 1;
}

/* 1e3 and 5.0 are whole numbers too. -ERANGE: one beyond those that a double holds exactly. */
int json_whole_number(const json_t *v, int64_t *ret)
{
    if (json_is_integer(v)) {
        *ret = json_integer_value(v);
        return 0;
    }
    double d = json_real_value(v);
    if (!json_is_real(v) || d != floor(d))
        return -EINVAL;
    if (fabs(d) > (double)(1LL << 53))
        return -ERANGE;
    *ret = (int64_t)d;
    return 0;
}

const char *json_member_text(const json_t *obj, const char *key)
{
    const char *text = json_string_value(json_object_get(obj, key));
    return text ? text : "";
}

int json_member_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    int64_t n;
    int r = json_whole_number(v, &n);
    if (r == -EINVAL)
        return error_field(err, key, "'%s' must be a whole number", key);
    if (r < 0 || n < min || n > max)
        return error_field(err, key, "'%s' must be from %lld to %lld", key, (long long)min,
                           (long long)max);
    *ret = n;
    return 1;
}

int json_member_number(const json_t *obj, const char *key, double min, double max, double *ret,
                       struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    if (!json_is_number(v))
        return error_field(err, key, "'%s' must be a number", key);
    double n = json_number_value(v);
    if (!(n >= min && n <= max))
        return error_field(err, key, "'%s' must be from %.15g to %.15g", key, min, max);
    *ret = n;
    return 1;
}

int json_member_bool(const json_t *obj, const char *key, bool *ret, struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return error_field(err, key, "'%s' must be true or false", key);
    *ret = json_is_true(v);
    return 1;
}

int json_member_object(const json_t *obj, const char *key, json_t **ret, struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    if (!json_is_object(v))
        return error_field(err, key, "'%s' must be an object", key);
    *ret = v;
    return 1;
}

int json_member_array(const json_t *obj, const char *key, json_t **ret, struct error *err)
{
    json_t *v = find_member(obj, key);
    if (!v)
        return 0;
    if (!json_is_array(v))
        return error_field(err, key, "'%s' must be an array", key);
    *ret = v;
    return 1;
}

int json_member_strv(const json_t *obj, const char *key, size_t max_items, char ***ret,
                     struct error *err)
{
    json_t *array = NULL;
    int r = json_member_array(obj, key, &array, err);
    if (r <= 0)
        return r;
    size_t n = json_array_size(array);
    if (n > max_items)
        return error_field(err, key, "'%s' has %zu items, at most %zu are taken", key, n,
                           max_items);
    char **v = xcalloc(n + 1, sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (!s) {
            strv_free(v);
            return error_field(err, key, "'%s'[%zu] must be a string", key, i);
        }
        v[i] = xstrdup(s);
    }
    *ret = v;
    return 1;
}

/* name is in lower case and has no underscores, so only the key is folded. */
bool json_key_is(const char *key, const char *name)
{
    for (;; key++, name++) {
        while (*key == '_')
            key++;
        if (tolower((unsigned char)*key) != *name)
            return false;
        if (!*name)
            return true;
    }
}
