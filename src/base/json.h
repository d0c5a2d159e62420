/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON on jansson: duplicate keys, bad UTF-8, NUL in strings, trailing bytes and deep
 * nesting are errors that say where. base/members.h is about unknown members. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

#define JSON_DEPTH_MAX 64
#define JSON_PARTS_MAX 10000 /* objects, arrays and members of a request */

static inline void cleanup_json(json_t **j)
{
    json_decref(*j);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

/* A new reference, or NULL with err set ("line 1 column 7: ..."). */
json_t *json_parse(const char *data, size_t len, struct error *err);
/* As json_parse(), and the value must be an object. */
json_t *json_parse_object(const char *data, size_t len, struct error *err);
/* As json_parse_object(), from a caller whose parsing holds others up: ERROR_TOO_LARGE for more
 * than JSON_PARTS_MAX parts. */
json_t *json_parse_request(const char *data, size_t len, struct error *err);
/* As json_parse_object() for what our own programs answer: strings may hold NUL, which a file may.
 */
json_t *json_parse_answer(const char *data, size_t len, struct error *err);
/* Any JSON text of RFC 8259: of members with the same name the last counts, strings may hold NUL.
 */
json_t *json_parse_any(const char *data, size_t len, struct error *err);
/* As json_parse_any(), with the bound of json_parse_request(). */
json_t *json_parse_message(const char *data, size_t len, struct error *err);

/* Member getters: an absent or null member leaves *ret as it was and returns 0; a present one of
 * the right type sets *ret and returns 1; anything else is an error naming the member. Strings are
 * borrowed from obj. Integers outside min..max are errors. */
int json_member_string(const json_t *obj, const char *key, const char **ret, struct error *err);
int json_member_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                    struct error *err);
/* 0; -EINVAL for what is no whole number, -ERANGE for one that does not fit. */
int json_whole_number(const json_t *v, int64_t *ret);
int json_member_number(const json_t *obj, const char *key, double min, double max, double *ret,
                       struct error *err);
int json_member_bool(const json_t *obj, const char *key, bool *ret, struct error *err);
int json_member_object(const json_t *obj, const char *key, json_t **ret, struct error *err);
int json_member_array(const json_t *obj, const char *key, json_t **ret, struct error *err);
/* A string for which absent, null and any other type are the same: "". */
const char *json_member_text(const json_t *obj, const char *key);
/* An array of strings as a NULL-terminated vector that the caller frees with strv_free(). */
int json_member_strv(const json_t *obj, const char *key, size_t max_items, char ***ret,
                     struct error *err);

/* Appends the compact form. */
int json_format(const json_t *value, struct strbuf *out);
/* A JSON string value from bytes: valid UTF-8 stays, every other byte becomes U+FFFD. *ret_lossy is
 * set when that happened. */
json_t *json_string_from_bytes(const char *data, size_t len, bool *ret_lossy);
/* A message of ours as a JSON string, whatever bytes of a caller it quotes or was cut in. */
json_t *json_message(const char *text);
/* A new array of strings from a vector that ends with NULL; NULL is an empty one. Strings are taken
 * as json_message() takes them, so that none is left out. */
json_t *json_from_words(const char *const *words);
static inline json_t *json_from_strv(char *const *v)
{
    return json_from_words((const char *const *)v);
}
/* Whether a key is name (lower case, no underscores) but for case and underscores: "AllowedPaths",
 * "allowed_paths" and "allowedpaths" are the same key. */
bool json_key_is(const char *key, const char *name);
