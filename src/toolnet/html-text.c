/* SPDX-License-Identifier: Apache-2.0 */
/* HTML as plain text: structure by line breaks, no markup. Links lose their targets. */
#include <string.h>

#include "base/strbuf.h"
#include "toolnet/html-visitor.h"

static void put_pre(struct html_state *s, const xmlNode *element)
{
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(HTML_PRE_MAX);
    html_pre_text(element, &raw);
    writer_break(&s->w, 2);
    if (raw.data)
        writer_lines(&s->w, raw.data, raw.len);
    writer_break(&s->w, 2);
}

static bool text_open(struct html_state *s, const xmlNode *element)
{
    enum html_kind kind = html_kind(element);
    s->plain_tables = true;
    switch (kind) {
    case HTML_SKIP:
        return false;
    case HTML_BREAK:
        writer_newline(&s->w);
        return false;
    case HTML_RULE:
        writer_break(&s->w, 2);
        return false;
    case HTML_IMAGE:
        writer_puts(&s->w, html_attribute(element, "alt"));
        return false;
    case HTML_PRE:
        if (s->w.flat)
            return true;
        put_pre(s, element);
        return false;
    case HTML_QUOTE:
        writer_break(&s->w, 2);
        writer_push_prefix(&s->w, "  ");
        return true;
    case HTML_HEADING:
    case HTML_PARAGRAPH:
        html_block_open(s, element, HTML_PARAGRAPH, 2);
        return true;
    case HTML_BLOCK:
    case HTML_LIST:
    case HTML_ITEM:
    case HTML_TABLE:
    case HTML_ROW:
    case HTML_CELL:
        html_block_open(s, element, kind, 1);
        return true;
    default:
        return true;
    }
}

static void text_close(struct html_state *s, const xmlNode *element)
{
    enum html_kind kind = html_kind(element);
    switch (kind) {
    case HTML_QUOTE:
        writer_pop_prefix(&s->w);
        writer_break(&s->w, 2);
        break;
    case HTML_HEADING:
    case HTML_PARAGRAPH:
        html_block_close(s, element, HTML_PARAGRAPH, 2);
        break;
    case HTML_BLOCK:
    case HTML_LIST:
    case HTML_ITEM:
    case HTML_TABLE:
    case HTML_ROW:
    case HTML_CELL:
        html_block_close(s, element, kind, 1);
        break;
    default:
        break;
    }
}

static void text_word(struct html_state *s, const char *word, size_t len)
{
    writer_put(&s->w, word, len);
}

const struct html_visitor html_visitor_text = {text_open, text_close, text_word};
