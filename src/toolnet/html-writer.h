/* SPDX-License-Identifier: Apache-2.0 */
/* Flows text: collapses white space, keeps line breaks pending until something follows, and puts
 * the prefix of every open quote and list item at the start of each line.
 *
 * Invariants: a pending space or break is written only before more text; marks opened around
 * nothing leave no trace. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

#define WRITER_PREFIX_MAX 24 /* nested quotes and items; deeper ones add no prefix */
#define WRITER_MARKS_MAX  16 /* opening marks that wait for text */

struct html_writer {
    struct strbuf *out;
    bool full;       /* out reached its limit */
    bool started;    /* something was written */
    bool space;      /* a space is pending */
    bool line_start; /* at the start of a line, after the prefix */
    unsigned breaks; /* pending newlines, 0 to 2 */
    bool fresh;      /* right after an item's marker: its first block starts on the same line */
    bool flat;       /* in a table cell: breaks are spaces */
    const char *prefixes[WRITER_PREFIX_MAX];
    size_t n_prefixes;
    size_t blank_prefixes; /* of the blank lines pending: as many as both sides of them share */
    const char *marks[WRITER_MARKS_MAX];
    size_t n_marks;
};

void writer_init(struct html_writer *w, struct strbuf *out);
/* Asks for n newlines before what follows; more than asked for already stays. */
void writer_break(struct html_writer *w, unsigned n);
void writer_space(struct html_writer *w);
/* Writes what is pending, then bytes as they are (no newline in them). */
void writer_put(struct html_writer *w, const char *data, size_t len);
void writer_puts(struct html_writer *w, const char *text);
/* A newline now, with the prefix of the next line. */
void writer_newline(struct html_writer *w);
/* A mark such as "**" that opens before the next text, and one that closes after the last. */
void writer_open_mark(struct html_writer *w, const char *mark);
void writer_close_mark(struct html_writer *w, const char *mark);
/* "- " of an item: at once, and what follows starts on its line. */
void writer_marker(struct html_writer *w, const char *marker);
/* prefix outlives its pop. */
void writer_push_prefix(struct html_writer *w, const char *prefix);
void writer_pop_prefix(struct html_writer *w);
/* Cuts white space off the end. */
void writer_finish(struct html_writer *w);
/* Text with its own line breaks, such as the inside of <pre>. */
void writer_lines(struct html_writer *w, const char *data, size_t len);
