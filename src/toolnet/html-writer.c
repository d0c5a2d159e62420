/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/html-writer.h"

#include <string.h>

void writer_init(struct html_writer *w, struct strbuf *out)
{
    *w = (struct html_writer){.out = out, .line_start = true};
}

/* A full buffer is remembered and not reported: a page that is too long is cut, and is no error. */
static void write_raw(struct html_writer *w, const char *data, size_t len)
{
    if (!w->full && strbuf_append(w->out, data, len) < 0)
        w->full = true;
}

/* Blank lines get only the prefixes that both sides of them have: one between two quotes is in
 * neither. */
void writer_break(struct html_writer *w, unsigned n)
{
    if (w->flat) {
        w->space = true;
        return;
    }
    w->space = false;
    if (w->fresh)
        return;
    if (!w->breaks || w->n_prefixes < w->blank_prefixes)
        w->blank_prefixes = w->n_prefixes;
    if (n > w->breaks)
        w->breaks = n;
}

void writer_space(struct html_writer *w)
{
    w->space = true;
}

static void put_prefix(struct html_writer *w, size_t depth)
{
    for (size_t i = 0; i < depth && i < WRITER_PREFIX_MAX; i++)
        write_raw(w, w->prefixes[i], strlen(w->prefixes[i]));
}

/* Trailing spaces go first: two of them before a newline are a line break in markdown. */
static void put_breaks(struct html_writer *w)
{
    for (unsigned i = 0; w->started && i < w->breaks; i++) {
        struct strbuf *b = w->out;
        while (b->len && b->data[b->len - 1] == ' ')
            b->data[--b->len] = 0;
        write_raw(w, "\n", 1);
        put_prefix(w, i + 1 < w->breaks ? w->blank_prefixes : w->n_prefixes);
    }
    if (!w->started)
        put_prefix(w, w->n_prefixes);
    w->started = w->line_start = true;
    w->breaks = 0;
    w->space = false;
}

void writer_put(struct html_writer *w, const char *data, size_t len)
{
    if (!len || w->full)
        return;
    if (w->breaks || !w->started)
        put_breaks(w);
    else if (w->space && !w->line_start)
        write_raw(w, " ", 1);
    w->space = false;
    for (size_t i = 0; i < w->n_marks && i < WRITER_MARKS_MAX; i++)
        write_raw(w, w->marks[i], strlen(w->marks[i]));
    w->n_marks = 0;
    write_raw(w, data, len);
    w->line_start = w->fresh = false;
}

void writer_puts(struct html_writer *w, const char *text)
{
    writer_put(w, text, strlen(text));
}

void writer_newline(struct html_writer *w)
{
    if (w->flat || !w->started) {
        w->space = true;
        return;
    }
    w->space = false;
    write_raw(w, "\n", 1);
    put_prefix(w, w->n_prefixes);
    w->line_start = true;
}

void writer_open_mark(struct html_writer *w, const char *mark)
{
    /* Marks past the last place are counted although they are not kept: as many are closed. */
    if (w->n_marks < WRITER_MARKS_MAX)
        w->marks[w->n_marks] = mark;
    w->n_marks++;
}

/* A mark that was opened and still waits had no text inside, so neither of the two is written. */
void writer_close_mark(struct html_writer *w, const char *mark)
{
    if (w->n_marks)
        w->n_marks--;
    else
        write_raw(w, mark, strlen(mark));
}

void writer_marker(struct html_writer *w, const char *marker)
{
    writer_puts(w, marker);
    w->line_start = w->fresh = true;
}

/* Prefixes past the last place are counted although they are not kept, as marks are. */
void writer_push_prefix(struct html_writer *w, const char *prefix)
{
    if (w->n_prefixes < WRITER_PREFIX_MAX)
        w->prefixes[w->n_prefixes] = prefix;
    w->n_prefixes++;
}

void writer_pop_prefix(struct html_writer *w)
{
    if (w->n_prefixes)
        w->n_prefixes--;
}

void writer_finish(struct html_writer *w)
{
    struct strbuf *b = w->out;
    while (b->len && strchr(" \n", b->data[b->len - 1]))
        b->data[--b->len] = 0;
}

/* Preformatted text: its line ends are kept, and CRLF counts as one. */
void writer_lines(struct html_writer *w, const char *data, size_t len)
{
    while (len && !w->full) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        size_t shown = n && data[n - 1] == '\r' ? n - 1 : n;
        writer_put(w, data, shown);
        if (end)
            writer_newline(w);
        n += end != NULL;
        data += n;
        len -= n;
    }
}
