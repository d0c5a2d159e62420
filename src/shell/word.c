/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a shell line: quotes, escapes and expansions. What an expansion becomes is a hole in the
 * word; what it runs goes to the list of commands.
 *
 * A word in which braces or brackets make the shell build other words is a single hole as a whole:
 * guessing which words would be a second shell. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"

struct word_state {
    struct strbuf text;
    struct shell_word *w;
    bool mess;        /* a single hole as a whole */
    bool brace, list; /* saw an unquoted '{', then a ',' or ".." */
};

static void put_char(struct word_state *st, char c)
{
    /* A control byte is nothing that a person wrote: not known, so that none looks like a hole. */
    if (((unsigned char)c < 0x20 && c != '\t' && c != '\n') || c == 0x7f) {
        st->w->unknown = true;
        c = SHELL_ANY;
    }
    if (strbuf_append(&st->text, &c, 1) < 0)
        st->mess = true;
}

static void put_hole(struct word_state *st, char kind, bool quoted)
{
    st->w->unknown = true;
    st->w->splits |= !quoted;
    strbuf_append(&st->text, &kind, 1);
}

/* Something that runs inside a quoted text: of interest if that text is evaluated once more. */
static void note_quoted(struct shell_reader *r, const char *text, size_t len)
{
    if (memmem(text, len, "$(", 2) || memchr(text, '`', len))
        r->b->quoted_run = true;
}

static void read_single(struct shell_reader *r, struct word_state *st)
{
    const char *start = r->s + ++r->pos;
    const char *end = memchr(start, '\'', r->len - r->pos);
    if (!end) {
        r->bad = true;
        return;
    }
    note_quoted(r, start, (size_t)(end - start));
    for (const char *p = start; p < end; p++)
        put_char(st, *p);
    st->w->quoted = true;
    r->pos = (size_t)(end + 1 - r->s);
}

static int digit_value(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = tolower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static unsigned long read_number(struct shell_reader *r, int base, int digits)
{
    unsigned long v = 0;
    for (; digits > 0 && digit_value(shell_peek(r, 0)) < base; digits--)
        v = v * (unsigned long)base + (unsigned long)digit_value((unsigned char)r->s[r->pos++]);
    return v;
}

static void put_utf8(struct word_state *st, unsigned long v)
{
    if (v < 0x80) {
        put_char(st, (char)v);
    } else if (v < 0x800) {
        put_char(st, (char)(0xc0 | v >> 6));
        put_char(st, (char)(0x80 | (v & 0x3f)));
    } else { /* longer ones are not ASCII either: one byte is enough to say so */
        put_char(st, (char)0xef);
    }
}

/* Behind the backslash of $'...'. */
static void read_ansi_escape(struct shell_reader *r, struct word_state *st)
{
    static const char from[] = "abeEfnrtv\\'\"?", to[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
    int c = shell_peek(r, 0);
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (c >= '0' && c <= '7') {
        put_char(st, (char)read_number(r, 8, 3));
        return;
    }
    r->pos++;
    if (found)
        put_char(st, to[found - from]);
    else if (c == 'x')
        put_char(st, (char)read_number(r, 16, 2));
    else if (c == 'u' || c == 'U')
        put_utf8(st, read_number(r, 16, c == 'u' ? 4 : 8));
    else
        put_hole(st, SHELL_ANY, true);
}

static void read_ansi(struct shell_reader *r, struct word_state *st)
{
    size_t start = r->pos;
    r->pos += 2;
    while (!r->bad && shell_peek(r, 0) != '\'') {
        if (shell_peek(r, 0) < 0)
            r->bad = true;
        else if (!r->bash && shell_peek(r, 0) == '\\' && shell_peek(r, 1) == '\'')
            r->bad = true; /* the end of the text to a shell that does not know $'...' */
        else if (r->s[r->pos++] == '\\')
            read_ansi_escape(r, st);
        else
            put_char(st, r->s[r->pos - 1]);
    }
    r->pos++;
    st->w->quoted = st->w->doubt = true;
    if (!r->bad)
        note_quoted(r, st->text.data ? st->text.data : "", st->text.len);
    if (!r->bad && r->pos <= r->len)
        note_quoted(r, r->s + start, r->pos - start);
}

/* `...`: its end is the next one that has no backslash, whatever quotes are around it. */
static void read_backquoted(struct shell_reader *r, struct word_state *st, bool quoted)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SHELL_TEXT_MAX);
    for (r->pos++; shell_peek(r, 0) != '`'; r->pos++) {
        if (shell_peek(r, 0) < 0) {
            r->bad = true;
            return;
        }
        int next = shell_peek(r, 1);
        if (r->s[r->pos] == '\\' && (next == '`' || next == '\\' || next == '$'))
            r->pos++;
        else if (r->s[r->pos] == '\\' && quoted && next == '"')
            r->pos++;
        strbuf_append(&text, r->s + r->pos, 1);
    }
    r->pos++;
    shell_nested(r->b, text.data ? text.data : "", text.len, r->depth + 1, r->bash);
    put_hole(st, SHELL_ANY, quoted);
}

static void read_commands(struct shell_reader *r)
{
    if (++r->depth > SHELL_DEPTH_MAX)
        r->bad = true;
    else if (!shell_parse_list(r, STOP_PAREN))
        r->bad = true;
    r->depth--;
}

static void read_dollar(struct shell_reader *r, struct word_state *st, bool quoted);
static void read_double(struct shell_reader *r, struct word_state *st);

/* What quoting and substituting a character starts, wherever text is scanned rather than kept. */
static void scan_one(struct shell_reader *r, struct word_state *st, bool quoted)
{
    int c = shell_peek(r, 0);
    if (c == '\\')
        r->pos += shell_peek(r, 1) < 0 ? 1 : 2;
    else if (c == '\'' && !quoted)
        read_single(r, st);
    else if (c == '"')
        read_double(r, st);
    else if (c == '`')
        read_backquoted(r, st, quoted);
    else if (c == '$')
        read_dollar(r, st, quoted);
    else
        r->pos++;
}

/* ${...}: where it ends, and what runs in it. */
static void read_braces(struct shell_reader *r, bool quoted)
{
    struct shell_word scratch = {0};
    struct word_state st = {.w = &scratch, .text = STRBUF_INIT(SHELL_TEXT_MAX)};
    size_t start = r->pos += 2;
    if (++r->depth > SHELL_DEPTH_MAX)
        r->bad = true;
    while (!r->bad && shell_peek(r, 0) != '}') {
        int c = shell_peek(r, 0);
        /* Whether a quote counts inside of quotes depends on the shell and the operator. */
        if (c < 0 || (quoted && (c == '\'' || c == '"')))
            r->bad = true;
        else
            scan_one(r, &st, quoted);
    }
    r->depth--;
    strbuf_done(&st.text);
    if (r->bad)
        return;
    const char *body = r->s + start;
    size_t len = r->pos - start;
    /* ${x@P} expands a value as a prompt, which runs what is in it; an index is arithmetic. */
    if (len >= 2 && memcmp(body + len - 2, "@P", 2) == 0)
        shell_add_opaque(r->b, "runs what a variable contains", r->depth);
    const char *colon = memchr(body, ':', len);
    if (memchr(body, '[', len) || colon)
        r->b->arithmetic = true;
    r->b->evaluates |=
        memchr(body, '[', len) || (colon && colon + 1 < body + len && !strchr("-=?+", colon[1]));
    r->pos++;
}

/* From behind "((" to behind "))". Quotes at this level mean different things to different shells,
 * so they end the reading; inside of substitutions they are theirs. */
bool shell_skip_arithmetic(struct shell_reader *r)
{
    struct shell_word scratch = {0};
    struct word_state st = {.w = &scratch, .text = STRBUF_INIT(SHELL_TEXT_MAX)};
    size_t start = r->pos;
    int depth = 2;
    while (!r->bad && depth > 0) {
        int c = shell_peek(r, 0);
        if (c < 0 || c == '\'' || c == '"' || c == '\\')
            r->bad = true;
        else if (c == '$' || c == '`')
            scan_one(r, &st, true);
        else if (c == ')' && depth == 2 && shell_peek(r, 1) != ')')
            break;
        else
            depth += (c == '(') - (c == ')'), r->pos++;
    }
    strbuf_done(&st.text);
    if (!r->bad && depth == 0) {
        r->b->arithmetic = r->b->evaluates = true;
        return true;
    }
    /* A subshell in a substitution after all: it is read again, which must not double for ever. */
    size_t again = r->pos - start;
    r->pos = start;
    r->bad |= again > r->b->work;
    r->b->work -= r->bad ? 0 : again;
    return false;
}

static bool is_name_char(int c)
{
    return c == '_' || (c > 0 && c < 0x80 && isalnum(c));
}

/* $[...], bash's old arithmetic. */
static void read_old_arithmetic(struct shell_reader *r, struct word_state *st, bool quoted)
{
    r->b->arithmetic = r->b->evaluates = true;
    r->bad |= !r->bash; /* just text to others */
    for (r->pos += 2; !r->bad && shell_peek(r, 0) != ']';) {
        if (shell_peek(r, 0) < 0)
            r->bad = true;
        else
            scan_one(r, st, quoted);
    }
    r->pos++;
    st->mess = true;
}

/* "$(cat <<'EOF' ...)" is how a text of several lines is written: then it is known. */
static bool put_here_document(const struct shell_reader *r, struct word_state *st, size_t first)
{
    const struct shell *s = r->b->out;
    const struct shell_command *c = s->n_commands == first + 1 ? &s->commands[first] : NULL;
    if (r->bad || !c || c->n_words != 1 || c->n_redirects || c->n_assigns || !c->here ||
        c->here_live || c->here_holes || strcmp(c->words[0].text, "cat") != 0)
        return false;
    size_t len = strlen(c->here);
    while (len > 0 && c->here[len - 1] == '\n')
        len--;
    for (size_t i = 0; i < len; i++)
        put_char(st, c->here[i]);
    return true;
}

/* True when what it becomes is known and is in the word. */
static bool read_parenthesis(struct shell_reader *r, struct word_state *st, bool quoted)
{
    r->pos += 2;
    if (shell_peek(r, 0) == '(') {
        r->pos++;
        if (shell_skip_arithmetic(r))
            return false;
        r->pos--;
    }
    size_t first = r->b->out->n_commands;
    read_commands(r);
    return quoted && put_here_document(r, st, first);
}

static void read_dollar(struct shell_reader *r, struct word_state *st, bool quoted)
{
    int next = shell_peek(r, 1);
    if (next == '(') {
        if (read_parenthesis(r, st, quoted))
            return;
    } else if (next == '{') {
        read_braces(r, quoted);
    } else if (next == '[') {
        read_old_arithmetic(r, st, quoted);
    } else if (next == '\'' && !quoted) {
        read_ansi(r, st);
        return;
    } else if (next == '"' && !quoted) {
        r->pos++; /* translated text: the same without a catalogue */
        st->w->doubt = true;
        return;
    } else if (is_name_char(next)) {
        r->pos += 2;
        while (!isdigit(next) && is_name_char(shell_peek(r, 0)))
            r->pos++;
    } else if (next > 0 && strchr("@*#?-$!", next)) {
        r->pos += 2;
    } else {
        r->pos++;
        put_char(st, '$');
        return;
    }
    put_hole(st, SHELL_ANY, quoted);
}

static void read_double_escape(struct shell_reader *r, struct word_state *st)
{
    int next = shell_peek(r, 1);
    if (next < 0) {
        r->bad = true;
        return;
    }
    if (next != '\n' && !strchr("$`\"\\", next))
        put_char(st, '\\');
    if (next != '\n')
        put_char(st, (char)next);
    r->pos += 2;
}

static void read_double(struct shell_reader *r, struct word_state *st)
{
    st->w->quoted = true;
    size_t start = ++r->pos;
    if (++r->depth > SHELL_DEPTH_MAX)
        r->bad = true;
    while (!r->bad && shell_peek(r, 0) != '"') {
        int c = shell_peek(r, 0);
        if (c < 0)
            r->bad = true;
        else if (c == '\\')
            read_double_escape(r, st);
        else if (c == '$')
            read_dollar(r, st, true);
        else if (c == '`')
            read_backquoted(r, st, true);
        else
            put_char(st, r->s[r->pos++]);
    }
    r->depth--;
    if (!r->bad && memchr(r->s + start, '\\', r->pos - start))
        note_quoted(r, st->text.data ? st->text.data : "", st->text.len);
    r->pos++;
}

/* A bracket expression of plain characters is one character; any other makes a mess of the word. */
static void read_bracket(struct shell_reader *r, struct word_state *st)
{
    size_t n = 1;
    while (is_name_char(shell_peek(r, n)) || shell_peek(r, n) == '-' || shell_peek(r, n) == '!' ||
           shell_peek(r, n) == '^' || shell_peek(r, n) == '.' || shell_peek(r, n) == '/')
        n++;
    if (n > 1 && shell_peek(r, n) == ']' && !memchr(r->s + r->pos, '/', n)) {
        r->pos += n + 1;
        put_hole(st, SHELL_ONE, false);
        return;
    }
    for (size_t i = r->pos + 1; i < r->len && !strchr(" \t\n;&|", r->s[i]); i++)
        st->mess |= r->s[i] == ']';
    put_char(st, '[');
    r->pos++;
}

static void note_brace(struct shell_reader *r, struct word_state *st, int c)
{
    if (c == '{') {
        st->brace = true;
        st->list = false;
    } else if (c == ',' || (c == '.' && shell_peek(r, 1) == '.')) {
        st->list |= st->brace;
    } else if (c == '}' && st->list) {
        st->mess = true;
    }
}

static bool is_identifier(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_name_char((unsigned char)s[i]) || (i == 0 && isdigit((unsigned char)s[0])))
            return false;
    return len > 0;
}

/* An unquoted '=': is all before it the left side of an assignment? */
static void note_assignment(struct word_state *st)
{
    const char *text = st->text.data ? st->text.data : "";
    size_t len = st->text.len;
    if (st->w->assign || st->w->quoted || !len)
        return;
    if (text[len - 1] == '+')
        len--;
    const char *bracket = memchr(text, '[', len);
    if (bracket)
        len = (size_t)(bracket - text);
    if (is_identifier(text, len))
        st->w->assign = st->text.len;
}

static void read_plain(struct shell_reader *r, struct word_state *st)
{
    int c = shell_peek(r, 0);
    note_brace(r, st, c);
    if (c == '*' || c == '?') {
        put_hole(st, c == '*' ? SHELL_GLOB : SHELL_ONE, false);
        r->pos++;
    } else if (c == '[') {
        read_bracket(r, st);
    } else {
        if (c == '=')
            note_assignment(st);
        put_char(st, r->s[r->pos++]);
    }
}

/* One step of a word; false at its end. */
static bool read_part(struct shell_reader *r, struct word_state *st)
{
    int c = shell_peek(r, 0);
    if (c < 0 || strchr(" \t\n;&|()", c))
        return false;
    if (c == '<' || c == '>') {
        if (shell_peek(r, 1) != '(')
            return false;
        r->pos += 2; /* process substitution: the name of a pipe */
        read_commands(r);
        put_hole(st, SHELL_ANY, true);
    } else if (c == '\\' && shell_peek(r, 1) == '\n') {
        r->pos += 2;
    } else if (c == '\\' && shell_peek(r, 1) < 0) {
        r->bad = true;
    } else if (c == '\\') {
        st->w->quoted = true;
        put_char(st, r->s[r->pos + 1]);
        r->pos += 2;
    } else if (c == '\'') {
        read_single(r, st);
    } else if (c == '"') {
        read_double(r, st);
    } else if (c == '`') {
        read_backquoted(r, st, false);
    } else if (c == '$') {
        read_dollar(r, st, false);
    } else {
        read_plain(r, st);
    }
    return true;
}

/* Of an assignment the name stays. */
static void make_hole(struct shell_word *w)
{
    char *text = w->assign ? xasprintf("%.*s=%c", (int)w->assign, w->text, SHELL_ANY)
                           : xstrdup((const char[]){SHELL_ANY, 0});
    free(w->text);
    w->text = text;
    w->unknown = w->splits = true;
}

int shell_read_word(struct shell_reader *r, struct shell_word *ret)
{
    struct shell_word w = {0};
    struct word_state st = {.w = &w, .text = STRBUF_INIT(SHELL_TEXT_MAX)};
    size_t start = r->pos;
    while (!r->bad && read_part(r, &st))
        ;
    w.text = strbuf_steal(&st.text);
    if (st.mess)
        make_hole(&w);
    if (r->bad || r->pos == start || memchr(r->s + start, 0, r->pos - start)) {
        r->bad |= r->pos != start;
        shell_word_done(&w);
        return 0;
    }
    *ret = w;
    return 1;
}

void shell_scan_live(struct shell_build *b, const char *text, size_t len, int depth, bool bash)
{
    struct shell_reader r = {.b = b, .s = text, .len = len, .depth = depth, .bash = bash};
    struct shell_word scratch = {0};
    struct word_state st = {.w = &scratch, .text = STRBUF_INIT(SHELL_TEXT_MAX)};
    if (depth > SHELL_DEPTH_MAX || len > b->work)
        r.bad = true;
    else
        b->work -= len;
    while (!r.bad && shell_peek(&r, 0) >= 0) {
        int c = shell_peek(&r, 0);
        if (c == '\'' || c == '"')
            r.pos++;
        else
            scan_one(&r, &st, true);
    }
    if (r.bad)
        shell_add_opaque(b, "an expansion cannot be read", depth);
    for (size_t i = 0; i < r.n_pending; i++)
        free(r.pending[i].delimiter);
    strbuf_done(&st.text);
}
