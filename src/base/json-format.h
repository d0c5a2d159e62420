/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text. json_format() (base/json.h) writes a tree; what is written often is written here
 * without making a tree first: values are appended to a buffer in their order.
 *
 *   struct json_text t = json_text_begin(&b, '{');
 *   json_text_int(&t, "n", 3);
 *   int r = json_text_end(&t, '}');
 *
 * The result is what the library's compact form would be. key is NULL inside an array; keys are
 * ours and written as they are. Strings are UTF-8, or of any bytes where the name says so. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

struct json_text {
    struct strbuf *out;
    int error; /* the first one; nothing is written after it */
    bool more; /* a comma is due before the next value */
};

struct json_text json_text_begin(struct strbuf *out, char bracket);
/* 0, or negative when something did not fit: then the buffer holds a part. */
int json_text_end(struct json_text *t, char bracket);

void json_text_int(struct json_text *t, const char *key, int64_t value);
void json_text_bool(struct json_text *t, const char *key, bool value);
void json_text_string(struct json_text *t, const char *key, const char *value);
/* Bytes that are no UTF-8 become U+FFFD, as in json_string_from_bytes(). */
void json_text_bytes(struct json_text *t, const char *key, const char *data, size_t len);
void json_text_value(struct json_text *t, const char *key, const json_t *value);
/* An object or array inside: goes on until json_text_close(). */
void json_text_open(struct json_text *t, const char *key, char bracket);
void json_text_close(struct json_text *t, char bracket);

enum {
    JSON_REPLACE_BYTES = 1,       /* what is no UTF-8 becomes U+FFFD */
    JSON_CONTROLS_AS_NUMBERS = 2, /* \u000a, never \n; U+007F, too */
};

/* The inside of a string. -EILSEQ when it is not UTF-8 and how does not say to replace it. */
int json_format_inside(struct strbuf *out, const char *data, size_t len, unsigned how);
int json_format_int(struct strbuf *out, int64_t value);
