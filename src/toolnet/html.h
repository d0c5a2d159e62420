/* SPDX-License-Identifier: Apache-2.0 */
/* HTML to plain text or markdown.
 *
 *   html.c           parses (libxml2), walks the tree without recursion, calls a visitor
 *   html-writer.c    white space, line breaks, line prefixes: what both formats share
 *   html-text.c, html-markdown.c    the visitors
 *
 * Input is UTF-8 (body.h); output is valid UTF-8 of bounded size, whatever the input is. */
#pragma once

#include <stddef.h>

struct strbuf;

#define HTML_DEPTH_MAX 256    /* elements nested deeper are left out */
#define HTML_NODES_MAX 200000 /* elements and attributes; a page with more is cut there */

enum html_format { HTML_TEXT, HTML_MARKDOWN, _HTML_FORMAT_MAX };

/* Appends the document's text. Links and images are resolved against base_url (may be NULL). -EFBIG
 * when out is full or a limit above was reached: what fitted is in it. */
int html_convert(const char *data, size_t len, const char *base_url, enum html_format format,
                 struct strbuf *out);
