/* SPDX-License-Identifier: Apache-2.0 */
/* Redirections of a shell line, its here-documents, and the blanks between words: a here-document's
 * text starts behind the newline that ends the line it is in. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"

/* --- here-documents: their bodies start behind the newline that ends the line they are in */

static size_t line_length(const struct shell_reader *r)
{
    const char *end = memchr(r->s + r->pos, '\n', r->len - r->pos);
    return end ? (size_t)(end - r->s) - r->pos : r->len - r->pos;
}

static void read_body(struct shell_reader *r, const char *delimiter, bool strip, bool live,
                      size_t index)
{
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(SHELL_TEXT_MAX);
    while (r->pos < r->len) {
        size_t n = line_length(r);
        const char *line = r->s + r->pos;
        r->pos += n + (r->pos + n < r->len);
        for (; strip && n && *line == '\t'; n--)
            line++;
        if (strlen(delimiter) == n && memcmp(line, delimiter, n) == 0)
            break;
        strbuf_append(&body, line, n);
        strbuf_puts(&body, "\n");
    }
    const char *text = body.data ? body.data : "";
    if (live)
        shell_scan_live(r->b, text, body.len, r->depth + 1, r->bash);
    if (index >= r->b->out->n_commands)
        return;
    struct shell_command *c = &r->b->out->commands[index];
    free(c->here);
    c->here = xstrdup(text);
    c->here_live = live;
    c->here_holes = live && strpbrk(text, "$`\\");
}

static void read_here(struct shell_reader *r)
{
    struct shell_word w;
    bool strip = shell_peek(r, 0) == '-';
    r->pos += strip;
    shell_skip_blanks(r, false);
    if (!shell_read_word(r, &w)) {
        r->bad = true;
        return;
    }
    if (w.unknown || w.doubt || r->n_pending == SHELL_PENDING_MAX) {
        r->bad = true;
        shell_word_done(&w);
        return;
    }
    r->pending[r->n_pending].delimiter = w.text;
    r->pending[r->n_pending].strip = strip;
    r->pending[r->n_pending].live = !w.quoted;
    r->pending[r->n_pending++].command = SIZE_MAX;
}

/* --- blanks */

void shell_skip_blanks(struct shell_reader *r, bool newlines)
{
    for (;;) {
        int c = shell_peek(r, 0);
        if (c == ' ' || c == '\t') {
            r->pos++;
        } else if (c == '\\' && shell_peek(r, 1) == '\n') {
            r->pos += 2;
        } else if (c == '#') {
            r->pos += line_length(r);
        } else if (c == '\n' && newlines) {
            r->pos++;
            for (size_t i = 0; i < r->n_pending; i++) {
                read_body(r, r->pending[i].delimiter, r->pending[i].strip, r->pending[i].live,
                          r->pending[i].command);
                free(r->pending[i].delimiter);
            }
            r->n_pending = 0;
        } else {
            return;
        }
    }
}

/* --- redirections */

static void add_redirect(struct shell_reader *r, struct shell_draft *d, struct shell_word *take,
                         bool write)
{
    struct shell_command *c = &d->c;
    if (r->b->n_words >= SHELL_WORDS_MAX) {
        r->b->overflow = true;
        shell_word_done(take);
        return;
    }
    r->b->n_words++;
    c->redirects = xrealloc(c->redirects, (c->n_redirects + 1) * sizeof(*c->redirects));
    c->redirects[c->n_redirects++] = (struct shell_redirect){.target = *take, .write = write};
}

static bool is_descriptor(const struct shell_word *w)
{
    size_t n = strspn(w->text, "0123456789");
    n += w->text[n] == '-';
    return n && !w->text[n];
}

static void read_here_string(struct shell_reader *r, struct shell_draft *d)
{
    struct shell_word w;
    shell_skip_blanks(r, false);
    if (!shell_read_word(r, &w)) {
        r->bad = true;
        return;
    }
    free(d->c.here);
    d->c.here_live = false;
    d->c.here_holes = w.unknown || w.doubt;
    d->c.here = steal_ptr(w.text);
}

static void read_target(struct shell_reader *r, struct shell_draft *d, bool write, bool dup)
{
    struct shell_word w;
    shell_skip_blanks(r, false);
    if (!shell_read_word(r, &w))
        r->bad = true;
    else if (dup && is_descriptor(&w))
        shell_word_done(&w);
    else
        add_redirect(r, d, &w, write);
}

/* Longest first. */
static const struct redirection {
    const char *text;
    bool write, dup;
} redirections[] = {
    {"&>>", true, false}, {"&>", true, false}, {"<>", true, false},
    {"<&", false, true},  {">&", true, true},  {">>", true, false},
    {">|", true, false},  {"<", false, false}, {">", true, false},
};

bool shell_read_redirection(struct shell_reader *r, struct shell_draft *d)
{
    if (shell_at(r, "<(") || shell_at(r, ">("))
        return false;
    if (shell_at(r, "<<<")) {
        r->pos += 3;
        read_here_string(r, d);
        return d->any = true;
    }
    if (shell_at(r, "<<")) {
        r->pos += 2;
        read_here(r);
        return d->any = true;
    }
    for (size_t i = 0; i < ELEMENTS(redirections); i++) {
        if (!shell_at(r, redirections[i].text))
            continue;
        r->pos += strlen(redirections[i].text);
        read_target(r, d, redirections[i].write, redirections[i].dup);
        return d->any = true;
    }
    return false;
}
