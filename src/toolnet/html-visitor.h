/* SPDX-License-Identifier: Apache-2.0 */
/* Between the walk and the two formats. */
#pragma once

#include <libxml/tree.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "toolnet/html-writer.h"

#define HTML_LIST_DEPTH_MAX 16
#define HTML_PRE_MAX        (1024 * 1024) /* bytes of one <pre> or <code> */

/* One conversion under way. */
struct html_state {
    struct html_writer w;
    const char *base_url;
    struct {
        bool ordered;
        unsigned next;
    } lists[HTML_LIST_DEPTH_MAX];
    size_t list_depth;    /* may pass the maximum: deeper lists look like the last one kept */
    const xmlNode *table; /* the data table that is open, if any; no other is inside it */
    unsigned row, column;
    bool plain_tables; /* " | " between cells, and no other lines */
};

struct html_visitor {
    /* false if the subtree is not walked and close is not called for it. */
    bool (*open)(struct html_state *s, const xmlNode *element);
    void (*close)(struct html_state *s, const xmlNode *element);
    void (*word)(struct html_state *s, const char *word, size_t len);
};

extern const struct html_visitor html_visitor_text, html_visitor_markdown;

/* Running text: white space between words is one space, or none at the edge of a line. */
void html_words(const struct html_visitor *v, struct html_state *s, const char *text);

/* What an element means to a converter; both formats share the table (html.c). */
enum html_kind {
    HTML_INLINE, /* no effect of its own; also every unknown element */
    HTML_SKIP,   /* neither it nor what is in it is for readers */
    HTML_BLOCK,  /* a line of its own */
    HTML_PARAGRAPH,
    HTML_HEADING,
    HTML_BREAK,
    HTML_RULE,
    HTML_LIST,
    HTML_ITEM,
    HTML_QUOTE,
    HTML_PRE,
    HTML_CODE,
    HTML_STRONG,
    HTML_EMPHASIS,
    HTML_STRIKE,
    HTML_LINK,
    HTML_IMAGE,
    HTML_TABLE,
    HTML_ROW,
    HTML_CELL,
};

enum html_kind html_kind(const xmlNode *element);
/* "" when absent; borrowed from the tree. */
const char *html_attribute(const xmlNode *element, const char *name);
/* All text below an element as it stands, <br> as a newline. */
void html_raw_text(const xmlNode *element, struct strbuf *out);
/* The inside of <pre>: its raw text without a leading newline and trailing white space. */
void html_pre_text(const xmlNode *element, struct strbuf *out);
/* The absolute form of an http, https or mailto link, or NULL for any other. The caller frees. */
char *html_link(const struct html_state *s, const char *href);

/* Blocks, lists, items and tables, which both formats open and close alike. */
void html_block_open(struct html_state *s, const xmlNode *element, enum html_kind kind,
                     unsigned block_breaks);
void html_block_close(struct html_state *s, const xmlNode *element, enum html_kind kind,
                      unsigned block_breaks);
