/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/html.h"

#include <assert.h>
#include <errno.h>
#include <libxml/HTMLparser.h>
#include <libxml/SAX2.h>
#include <libxml/uri.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "toolnet/html-visitor.h"

#define LINK_MAX 2048

static const struct html_visitor *const visitors[] = {
    [HTML_TEXT] = &html_visitor_text,
    [HTML_MARKDOWN] = &html_visitor_markdown,
};
static_assert(ELEMENTS(visitors) == _HTML_FORMAT_MAX, "a visitor per format");

/* Sorted by name: html_kind() searches by halves. */
static const struct element {
    const char *name;
    enum html_kind kind;
} elements[] = {
    {"a", HTML_LINK},           {"address", HTML_BLOCK},    {"article", HTML_BLOCK},
    {"aside", HTML_BLOCK},      {"audio", HTML_SKIP},       {"b", HTML_STRONG},
    {"blockquote", HTML_QUOTE}, {"br", HTML_BREAK},         {"canvas", HTML_SKIP},
    {"caption", HTML_BLOCK},    {"center", HTML_BLOCK},     {"code", HTML_CODE},
    {"datalist", HTML_SKIP},    {"dd", HTML_BLOCK},         {"del", HTML_STRIKE},
    {"details", HTML_BLOCK},    {"dialog", HTML_BLOCK},     {"dir", HTML_LIST},
    {"div", HTML_BLOCK},        {"dl", HTML_PARAGRAPH},     {"dt", HTML_BLOCK},
    {"em", HTML_EMPHASIS},      {"embed", HTML_SKIP},       {"fieldset", HTML_BLOCK},
    {"figcaption", HTML_BLOCK}, {"figure", HTML_PARAGRAPH}, {"footer", HTML_BLOCK},
    {"form", HTML_BLOCK},       {"h1", HTML_HEADING},       {"h2", HTML_HEADING},
    {"h3", HTML_HEADING},       {"h4", HTML_HEADING},       {"h5", HTML_HEADING},
    {"h6", HTML_HEADING},       {"head", HTML_SKIP},        {"header", HTML_BLOCK},
    {"hgroup", HTML_BLOCK},     {"hr", HTML_RULE},          {"i", HTML_EMPHASIS},
    {"iframe", HTML_SKIP},      {"img", HTML_IMAGE},        {"input", HTML_SKIP},
    {"kbd", HTML_CODE},         {"legend", HTML_BLOCK},     {"li", HTML_ITEM},
    {"link", HTML_SKIP},        {"listing", HTML_PRE},      {"main", HTML_BLOCK},
    {"map", HTML_SKIP},         {"math", HTML_SKIP},        {"menu", HTML_LIST},
    {"meta", HTML_SKIP},        {"nav", HTML_BLOCK},        {"noframes", HTML_BLOCK},
    {"object", HTML_SKIP},      {"ol", HTML_LIST},          {"option", HTML_BLOCK},
    {"p", HTML_PARAGRAPH},      {"pre", HTML_PRE},          {"s", HTML_STRIKE},
    {"samp", HTML_CODE},        {"script", HTML_SKIP},      {"section", HTML_BLOCK},
    {"strike", HTML_STRIKE},    {"strong", HTML_STRONG},    {"style", HTML_SKIP},
    {"summary", HTML_BLOCK},    {"svg", HTML_SKIP},         {"table", HTML_TABLE},
    {"td", HTML_CELL},          {"template", HTML_SKIP},    {"textarea", HTML_BLOCK},
    {"th", HTML_CELL},          {"title", HTML_SKIP},       {"tr", HTML_ROW},
    {"tt", HTML_CODE},          {"ul", HTML_LIST},          {"video", HTML_SKIP},
    {"xmp", HTML_PRE},
};

static int compare_element(const void *name, const void *element)
{
    return strcmp(name, ((const struct element *)element)->name);
}

enum html_kind html_kind(const xmlNode *element)
{
    const struct element *e =
        bsearch(element->name, elements, ELEMENTS(elements), sizeof(elements[0]), compare_element);
    return e ? e->kind : HTML_INLINE;
}

const char *html_attribute(const xmlNode *element, const char *name)
{
    for (const xmlAttr *a = element->properties; a; a = a->next)
        if (strcmp((const char *)a->name, name) == 0)
            return a->children && a->children->content ? (const char *)a->children->content : "";
    return "";
}

static bool has_attribute(const xmlNode *element, const char *name)
{
    for (const xmlAttr *a = element->properties; a; a = a->next)
        if (strcmp((const char *)a->name, name) == 0)
            return true;
    return false;
}

/* The node after n in document order, not going below n, or NULL at the end of root. */
static const xmlNode *next_outside(const xmlNode *n, const xmlNode *root)
{
    while (n != root && !n->next)
        n = n->parent;
    return n == root ? NULL : n->next;
}

void html_raw_text(const xmlNode *element, struct strbuf *out)
{
    const xmlNode *n = element->children;
    while (n) {
        bool is_element = n->type == XML_ELEMENT_NODE;
        enum html_kind kind = is_element ? html_kind(n) : HTML_INLINE;
        if (n->type == XML_TEXT_NODE && strbuf_puts(out, (const char *)n->content) < 0)
            return;
        if (kind == HTML_BREAK)
            strbuf_puts(out, "\n");
        if (is_element && n->children && kind != HTML_SKIP)
            n = n->children;
        else
            n = next_outside(n, element);
    }
}

void html_pre_text(const xmlNode *element, struct strbuf *out)
{
    html_raw_text(element, out);
    while (out->len && strchr(" \t\r\n", out->data[out->len - 1]))
        out->data[--out->len] = 0;
    if (out->len && out->data[0] == '\n')
        strbuf_consume(out, 1);
}

static bool scheme_ok(const char *url)
{
    size_t scheme = strcspn(url, ":/?#");
    if (url[scheme] != ':')
        return true;
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0 ||
           strncasecmp(url, "mailto:", 7) == 0;
}

/* Parentheses are legal in a URL but would end a markdown link early. */
static char *escape_parentheses(const char *url)
{
    size_t n = 0;
    char *out = xcalloc(3, strlen(url) + 1);
    for (; *url; url++) {
        if (*url == '(' || *url == ')')
            n += (size_t)sprintf(out + n, "%%%02X", *url);
        else
            out[n++] = *url;
    }
    return out;
}

char *html_link(const struct html_state *s, const char *href)
{
    while (*href && strchr(" \t\r\n\f", *href))
        href++;
    if (!*href || *href == '#' || strlen(href) > LINK_MAX || !scheme_ok(href))
        return NULL;
    xmlChar *escaped = xmlURIEscapeStr((const xmlChar *)href, (const xmlChar *)":/?#@!$&'*+,;=%~");
    xmlChar *whole =
        escaped && s->base_url ? xmlBuildURI(escaped, (const xmlChar *)s->base_url) : NULL;
    const char *best = whole ? (const char *)whole : (const char *)escaped;
    char *copy = best && scheme_ok(best) ? escape_parentheses(best) : NULL;
    xmlFree(whole);
    xmlFree(escaped);
    return copy;
}

static bool is_hidden(const xmlNode *element)
{
    const char *style = html_attribute(element, "style");
    const char *display = strcasestr(style, "display");
    if (display) {
        display += strlen("display");
        display += strspn(display, " :\t");
    }
    return has_attribute(element, "hidden") || (display && strncasecmp(display, "none", 4) == 0);
}

void html_words(const struct html_visitor *v, struct html_state *s, const char *text)
{
    while (*text) {
        size_t blank = strspn(text, " \t\r\n\f");
        if (blank)
            writer_space(&s->w);
        text += blank;
        size_t word = strcspn(text, " \t\r\n\f");
        if (word)
            v->word(s, text, word);
        text += word;
    }
}

/* Opens a node; true when its children are to be walked before it is closed. */
static bool visit_node(const struct html_visitor *v, struct html_state *s, const xmlNode *n,
                       size_t depth)
{
    if (n->type == XML_TEXT_NODE && n->content)
        html_words(v, s, (const char *)n->content);
    if (n->type != XML_ELEMENT_NODE || depth >= HTML_DEPTH_MAX || is_hidden(n) || !v->open(s, n))
        return false;
    if (n->children)
        return true;
    v->close(s, n);
    return false;
}

static void walk_tree(const struct html_visitor *v, struct html_state *s, const xmlNode *root)
{
    size_t depth = 0;
    const xmlNode *n = root;
    while (n && !s->w.full) {
        if (visit_node(v, s, n, depth)) {
            n = n->children;
            depth++;
            continue;
        }
        while (n != root && !n->next) {
            n = n->parent;
            v->close(s, n);
            depth--;
        }
        n = n == root ? NULL : n->next;
    }
}

/* Counts what the tree is made of, so that a small page cannot become a tree of gigabytes. */
static void on_start_element(void *data, const xmlChar *name, const xmlChar **attributes)
{
    htmlParserCtxtPtr ctxt = data;
    size_t *left = ctxt->_private;
    size_t cost = 1;
    while (attributes && attributes[2 * (cost - 1)])
        cost++;
    if (*left < cost) {
        xmlStopParser(ctxt);
        return;
    }
    *left -= cost;
    xmlSAX2StartElement(data, name, attributes);
}

/* NULL when there is no memory. *ret_cut: the document goes on where a limit was reached. */
static htmlDocPtr parse_document(const char *data, int len, bool *ret_cut)
{
    /* HUGE is not set: the parser's own limits on depth and text stay in force. */
    int options = HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                  HTML_PARSE_NONET | HTML_PARSE_IGNORE_ENC;
    size_t left = HTML_NODES_MAX;
    htmlParserCtxtPtr ctxt = htmlNewParserCtxt();
    if (!ctxt)
        return NULL;
    ctxt->_private = &left;
    ctxt->sax->startElement = on_start_element;
    /* Never shown: scripts, styles, comments. */
    ctxt->sax->cdataBlock = NULL;
    ctxt->sax->comment = NULL;
    ctxt->sax->processingInstruction = NULL;
    htmlDocPtr doc = htmlCtxtReadMemory(ctxt, data, len, NULL, "UTF-8", options);
    *ret_cut = ctxt->disableSAX != 0;
    htmlFreeParserCtxt(ctxt);
    return doc;
}

int html_convert(const char *data, size_t len, const char *base_url, enum html_format format,
                 struct strbuf *out)
{
    bool cut = false;
    struct html_state s = {.base_url = base_url};
    writer_init(&s.w, out);
    if (len > INT_MAX)
        return -EFBIG;
    htmlDocPtr doc = parse_document(data, (int)len, &cut);
    const xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    if (root)
        walk_tree(visitors[format], &s, root);
    writer_finish(&s.w);
    xmlFreeDoc(doc);
    /* The parser checks its input; this checks the parser, and cuts a sequence split by the limit.
     */
    if (out->data)
        out->data[out->len = utf8_valid_prefix(out->data, out->len)] = 0;
    return s.w.full || cut ? -EFBIG : 0;
}
