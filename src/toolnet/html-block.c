/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, tables and other blocks, as both formats see them.
 *
 * A table is a data table unless it holds what cannot stand in one line of cells (another table, a
 * list, a heading, preformatted text): then it only lays out a page, and its cells are blocks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "toolnet/html-visitor.h"

#define TABLE_SCAN_MAX 20000 /* nodes; a larger table counts as layout */
#define ORDERED_MAX    999999

/* Lists that are nested deeper than there are places share the last one: their numbers may be
 * wrong, and nothing else is. */
static size_t list_index(const struct html_state *s)
{
    return (s->list_depth < HTML_LIST_DEPTH_MAX ? s->list_depth : HTML_LIST_DEPTH_MAX) - 1;
}

static void list_open(struct html_state *s, const xmlNode *element)
{
    writer_break(&s->w, s->list_depth ? 1 : 2);
    s->list_depth++;
    size_t i = list_index(s);
    s->lists[i].ordered = strcmp((const char *)element->name, "ol") == 0;
    s->lists[i].next = 1;
}

static void list_close(struct html_state *s)
{
    s->list_depth--;
    writer_break(&s->w, s->list_depth ? 1 : 2);
}

/* Lines of an item that follow its first are indented as far as its marker is wide. */
static void item_open(struct html_state *s)
{
    char marker[16] = "- ";
    writer_break(&s->w, 1);
    if (s->list_depth && s->lists[list_index(s)].ordered) {
        unsigned *next = &s->lists[list_index(s)].next;
        snprintf(marker, sizeof(marker), "%u. ", *next % (ORDERED_MAX + 1));
        ++*next;
    }
    writer_marker(&s->w, marker);
    writer_push_prefix(&s->w, marker[0] == '-' ? "  " : "   ");
}

static void item_close(struct html_state *s)
{
    writer_pop_prefix(&s->w);
    s->w.fresh = false;
    writer_break(&s->w, 1);
}

static bool breaks_tables(const xmlNode *n)
{
    enum html_kind kind = n->type == XML_ELEMENT_NODE ? html_kind(n) : HTML_INLINE;
    return kind == HTML_TABLE || kind == HTML_LIST || kind == HTML_PRE || kind == HTML_HEADING;
}

/* Walks the tree without recursion, because its depth is the page's choice. */
static bool is_data_table(const xmlNode *table)
{
    const xmlNode *n = table->children;
    for (size_t seen = 0; n; seen++) {
        if (seen > TABLE_SCAN_MAX || breaks_tables(n))
            return false;
        if (n->children && n->type == XML_ELEMENT_NODE) {
            n = n->children;
            continue;
        }
        while (n != table && !n->next)
            n = n->parent;
        n = n == table ? NULL : n->next;
    }
    return true;
}

/* A data table holds no other one, and in a layout table s->table stays NULL: so rows and cells are
 * those of s->table wherever it is set. */
static void table_open(struct html_state *s, const xmlNode *element)
{
    writer_break(&s->w, 2);
    if (!s->table && is_data_table(element)) {
        s->table = element;
        s->row = s->column = 0;
    }
}

static void cell_open(struct html_state *s)
{
    s->w.space = false;
    writer_puts(&s->w, s->column ? " | " : s->plain_tables ? "" : "| ");
    s->w.line_start = s->w.flat = true;
    s->column++;
}

/* Markdown knows a table by the line under its first row. */
static void row_close(struct html_state *s)
{
    s->w.space = false;
    if (!s->column || s->plain_tables) {
        writer_break(&s->w, 1);
        return;
    }
    writer_puts(&s->w, " |");
    if (s->row++ == 0) {
        writer_break(&s->w, 1);
        for (unsigned i = 0; i < s->column; i++)
            writer_puts(&s->w, i ? " --- |" : "| --- |");
    }
    writer_break(&s->w, 1);
}

void html_block_open(struct html_state *s, const xmlNode *element, enum html_kind kind,
                     unsigned block_breaks)
{
    if (kind == HTML_LIST)
        list_open(s, element);
    else if (kind == HTML_ITEM)
        item_open(s);
    else if (kind == HTML_TABLE)
        table_open(s, element);
    else if (kind == HTML_ROW && s->table) {
        writer_break(&s->w, 1);
        s->column = 0;
    } else if (kind == HTML_CELL && s->table)
        cell_open(s);
    else
        writer_break(&s->w, kind == HTML_PARAGRAPH ? 2 : block_breaks);
}

void html_block_close(struct html_state *s, const xmlNode *element, enum html_kind kind,
                      unsigned block_breaks)
{
    if (kind == HTML_LIST)
        list_close(s);
    else if (kind == HTML_ITEM)
        item_close(s);
    else if (kind == HTML_TABLE) {
        s->table = s->table == element ? NULL : s->table;
        writer_break(&s->w, 2);
    } else if (kind == HTML_ROW && s->table)
        row_close(s);
    else if (kind == HTML_CELL && s->table)
        s->w.flat = false;
    else
        writer_break(&s->w, kind == HTML_PARAGRAPH ? 2 : block_breaks);
}
