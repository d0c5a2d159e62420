/* SPDX-License-Identifier: Apache-2.0 */
/* HTML as markdown (CommonMark with GitHub's tables). Text is escaped where it would otherwise be
 * read as markup, and no further: the reader is as often a model as a renderer. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "toolnet/html-visitor.h"

#define LANG_MAX 24

static const char *mark_of(enum html_kind kind)
{
    return kind == HTML_STRONG ? "**" : kind == HTML_EMPHASIS ? "*" : "~~";
}

static size_t longest_run(const char *text, char c)
{
    size_t longest = 0, run = 0;
    for (; *text; text++) {
        run = *text == c ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* n backticks, more than stand together in the text. */
static char *fence_for(const char *text, size_t least)
{
    size_t n = longest_run(text, '`') + 1;
    n = n < least ? least : n;
    char *fence = xcalloc(1, n + 1);
    memset(fence, '`', n);
    return fence;
}

/* Code inside a line: a newline would end it, and a backtick at its edge needs a space, or a reader
 * would take it for a part of the fence. */
static void put_code(struct html_state *s, const xmlNode *element)
{
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(HTML_PRE_MAX);
    html_raw_text(element, &raw);
    for (size_t i = 0; i < raw.len; i++)
        if (raw.data[i] == '\n' || raw.data[i] == '\r')
            raw.data[i] = ' ';
    if (!raw.len || strspn(raw.data, " \t") == raw.len)
        return;
    _cleanup_free_ char *fence = fence_for(raw.data, 1);
    bool pad = raw.data[0] == '`' || raw.data[raw.len - 1] == '`';
    writer_puts(&s->w, fence);
    writer_puts(&s->w, pad ? " " : "");
    writer_puts(&s->w, raw.data);
    writer_puts(&s->w, pad ? " " : "");
    writer_puts(&s->w, fence);
}

/* From class="language-c" or "lang-c" on <pre> or the <code> in it. */
static void find_language(const xmlNode *pre, char out[LANG_MAX])
{
    const xmlNode *code = xmlFirstElementChild((xmlNode *)pre);
    const char *class = html_attribute(pre, "class");
    if (code && !strstr(class, "lang"))
        class = html_attribute(code, "class");
    const char *p = strstr(class, "lang");
    p = p ? strchr(p, '-') : NULL;
    size_t n = 0;
    for (p = p ? p + 1 : ""; n < LANG_MAX - 1 && (isalnum((unsigned char)*p) || strchr("+#", *p));
         p++) {
        if (!*p)
            break;
        out[n++] = *p;
    }
    out[n] = 0;
}

static void put_pre(struct html_state *s, const xmlNode *element)
{
    char lang[LANG_MAX];
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(HTML_PRE_MAX);
    html_pre_text(element, &raw);
    if (!raw.len)
        return;
    _cleanup_free_ char *fence = fence_for(raw.data, 3);
    find_language(element, lang);
    writer_break(&s->w, 2);
    writer_puts(&s->w, fence);
    writer_puts(&s->w, lang);
    writer_newline(&s->w);
    writer_lines(&s->w, raw.data, raw.len);
    writer_newline(&s->w);
    writer_puts(&s->w, fence);
    writer_break(&s->w, 2);
}

static void put_image(struct html_state *s, const xmlNode *element)
{
    const char *alt = html_attribute(element, "alt");
    _cleanup_free_ char *src = html_link(s, html_attribute(element, "src"));
    if (!src) {
        html_words(&html_visitor_markdown, s, alt);
        return;
    }
    writer_puts(&s->w, "![");
    html_words(&html_visitor_markdown, s, alt);
    s->w.space = false;
    writer_puts(&s->w, "](");
    writer_puts(&s->w, src);
    writer_puts(&s->w, ")");
}

/* A link without an address that may be shown is only its text: both ends ask html_link() and so
 * agree. */
static void link_open(struct html_state *s, const xmlNode *element)
{
    _cleanup_free_ char *url = html_link(s, html_attribute(element, "href"));
    if (url)
        writer_open_mark(&s->w, "[");
}

static void link_close(struct html_state *s, const xmlNode *element)
{
    _cleanup_free_ char *url = html_link(s, html_attribute(element, "href"));
    if (!url)
        return;
    _cleanup_free_ char *end = xasprintf("](%s)", url);
    writer_close_mark(&s->w, end);
}

static void heading_open(struct html_state *s, const xmlNode *element)
{
    static const char *const marks[] = {"# ", "## ", "### ", "#### ", "##### ", "###### "};
    writer_break(&s->w, 2);
    if (!s->w.flat)
        writer_open_mark(&s->w, marks[(element->name[1] - '1') % 6]);
}

static void heading_close(struct html_state *s)
{
    if (!s->w.flat)
        writer_close_mark(&s->w, "");
    writer_break(&s->w, 2);
}

static bool markdown_open(struct html_state *s, const xmlNode *element)
{
    enum html_kind kind = html_kind(element);
    switch (kind) {
    case HTML_SKIP:
        return false;
    case HTML_INLINE:
        return true;
    case HTML_BREAK:
        if (s->w.started && !s->w.flat && !s->w.line_start && !s->w.breaks)
            strbuf_puts(s->w.out, "  ");
        writer_newline(&s->w);
        return false;
    case HTML_RULE:
        writer_break(&s->w, 2);
        writer_puts(&s->w, s->w.flat ? "" : "---");
        writer_break(&s->w, 2);
        return false;
    case HTML_IMAGE:
        put_image(s, element);
        return false;
    case HTML_CODE:
        put_code(s, element);
        return false;
    case HTML_PRE:
        (s->w.flat ? put_code : put_pre)(s, element);
        return false;
    case HTML_STRONG:
    case HTML_EMPHASIS:
    case HTML_STRIKE:
        writer_open_mark(&s->w, mark_of(kind));
        return true;
    case HTML_LINK:
        link_open(s, element);
        return true;
    case HTML_HEADING:
        heading_open(s, element);
        return true;
    case HTML_QUOTE:
        writer_break(&s->w, 2);
        writer_push_prefix(&s->w, "> ");
        return true;
    default:
        html_block_open(s, element, kind, 2);
        return true;
    }
}

static void markdown_close(struct html_state *s, const xmlNode *element)
{
    enum html_kind kind = html_kind(element);
    switch (kind) {
    case HTML_INLINE:
        break;
    case HTML_STRONG:
    case HTML_EMPHASIS:
    case HTML_STRIKE:
        writer_close_mark(&s->w, mark_of(kind));
        break;
    case HTML_LINK:
        link_close(s, element);
        break;
    case HTML_HEADING:
        heading_close(s);
        break;
    case HTML_QUOTE:
        writer_pop_prefix(&s->w);
        writer_break(&s->w, 2);
        break;
    default:
        html_block_close(s, element, kind, 2);
        break;
    }
}

/* Would this word be read as markup at the start of a line? "#", "-", "+", ">" and "1." would. */
static bool starts_block(const char *word, size_t len)
{
    size_t digits = strspn(word, "0123456789");
    if (digits && digits < len && digits <= 9)
        return (word[digits] == '.' || word[digits] == ')') && digits + 1 == len;
    size_t hashes = strspn(word, "#");
    return (hashes == len && hashes <= 6) || word[0] == '>' ||
           (len == 1 && (word[0] == '-' || word[0] == '+')) || strncmp(word, "---", 3) == 0;
}

static bool needs_escape(const struct html_state *s, const char *word, size_t i, size_t len)
{
    char c = word[i];
    if (c == '_')
        return i == 0 || i + 1 == len || !isalnum((unsigned char)word[i - 1]) ||
               !isalnum((unsigned char)word[i + 1]);
    if (c == '<')
        return i + 1 < len && (isalpha((unsigned char)word[i + 1]) || strchr("/!?", word[i + 1]));
    return c == '\\' || c == '`' || c == '*' || c == '[' || c == ']' || (c == '|' && s->w.flat);
}

static void put_word(struct html_state *s, const char *word, size_t len)
{
    bool at_start = s->w.breaks || s->w.line_start || !s->w.started;
    size_t from = 0;
    if (at_start && !s->w.n_marks && !s->w.flat && starts_block(word, len)) {
        size_t digits = strspn(word, "0123456789");
        writer_put(&s->w, word, digits);
        writer_puts(&s->w, "\\");
        from = digits;
    }
    for (size_t i = from; i < len; i++) {
        if (!needs_escape(s, word, i, len) || (i == from && from))
            continue;
        writer_put(&s->w, word + from, i - from);
        writer_puts(&s->w, "\\");
        from = i;
    }
    writer_put(&s->w, word + from, len - from);
}

const struct html_visitor html_visitor_markdown = {markdown_open, markdown_close, put_word};
