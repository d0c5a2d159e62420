/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies as JSON: text in UTF-8 where it is text, base64 where it is not. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

#define BODY_CHARSET_SIZE 40

/* The charset parameter of a Content-Type, lower case, or "". */
void body_charset(const char *content_type, char out[BODY_CHARSET_SIZE]);
/* The charset an HTML document's start declares (byte order mark or <meta>), or "". */
void body_html_charset(const char *data, size_t len, char out[BODY_CHARSET_SIZE]);
/* Appends data as valid UTF-8: from charset where iconv knows it, else as UTF-8, else as
 * windows-1252. Bytes that cannot be converted become U+FFFD. Stops at out's limit: -EFBIG. */
int body_to_utf8(const char *data, size_t len, const char *charset, struct strbuf *out);
/* Valid UTF-8 without control characters other than white space. */
bool body_is_text(const char *data, size_t len);
/* A Content-Type that says text: text/anything, JSON, XML, JavaScript. NULL does not. */
bool body_type_is_text(const char *content_type);
/* Drops control characters other than tab and line ends. */
void body_strip_controls(struct strbuf *b);
/* A JSON string of the body: as text where it is, or where the Content-Type says so and its charset
 * converts; otherwise base64 with *ret_base64 set. truncated: the end was cut off, perhaps inside a
 * character, which is then left out. */
json_t *body_json(const char *data, size_t len, bool truncated, const char *content_type,
                  bool *ret_base64);
