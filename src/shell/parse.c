/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of shell lines, read laxly: words that only give a line its structure (if, then, do,
 * {,
 * ...) are stepped over, so that what is between them is seen whether or not they fit together. A
 * line that a shell would refuse may so show more commands than would run, never fewer. */
#include <stdint.h>
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"

/* --- simple commands */

static void draft_done(struct shell_draft *d)
{
    for (size_t i = 0; i < d->c.n_words; i++)
        shell_word_done(&d->c.words[i]);
    for (size_t i = 0; i < d->c.n_assigns; i++)
        shell_word_done(&d->c.assigns[i]);
    for (size_t i = 0; i < d->c.n_redirects; i++)
        shell_word_done(&d->c.redirects[i].target);
    free(d->c.words);
    free(d->c.assigns);
    free(d->c.redirects);
    free(d->c.here);
    *d = (struct shell_draft){0};
}

/* Puts the draft on the list; returns 1 + its index, or 0 when there was nothing. */
static size_t draft_finish(struct shell_reader *r, struct shell_draft *d, bool piped, size_t source)
{
    struct shell_command *c = d->any ? shell_add(r->b, r->depth) : NULL;
    if (!c) {
        draft_done(d);
        return 0;
    }
    size_t index = (size_t)(c - r->b->out->commands);
    int depth = c->depth;
    *c = d->c;
    c->depth = depth;
    c->bash = r->bash;
    c->piped = piped;
    c->source = source;
    for (size_t i = d->first_pending; i < r->n_pending; i++)
        if (r->pending[i].command == SIZE_MAX)
            r->pending[i].command = index;
    *d = (struct shell_draft){0};
    return index + 1;
}

static void add_assign(struct shell_reader *r, struct shell_draft *d, struct shell_word *take)
{
    if (r->b->n_words++ >= SHELL_WORDS_MAX) {
        r->b->overflow = true;
        shell_word_done(take);
        return;
    }
    d->c.assigns = xrealloc(d->c.assigns, (d->c.n_assigns + 1) * sizeof(*d->c.assigns));
    d->c.assigns[d->c.n_assigns++] = *take;
    d->any = true;
}

/* a=( ... ): what its words run; the values are not known. */
static void read_array(struct shell_reader *r)
{
    r->pos++;
    for (;;) {
        struct shell_word w;
        shell_skip_blanks(r, true);
        if (shell_peek(r, 0) == ')') {
            r->pos++;
            return;
        }
        if (r->bad || !shell_read_word(r, &w)) {
            r->bad = true;
            return;
        }
        shell_word_done(&w);
    }
}

static bool is_word(const struct shell_word *w, const char *text)
{
    return !w->quoted && !w->unknown && strcmp(w->text, text) == 0;
}

static bool is_fd_word(const struct shell_reader *r, const struct shell_word *w)
{
    size_t n = strlen(w->text);
    if (w->quoted || w->unknown || (shell_peek(r, 0) != '<' && shell_peek(r, 0) != '>'))
        return false;
    return strspn(w->text, "0123456789") == n || (w->text[0] == '{' && w->text[n - 1] == '}');
}

static void skip_words_of_for(struct shell_reader *r)
{
    r->b->loops = true;
    struct shell_word w;
    shell_skip_blanks(r, true);
    if (shell_at(r, "((")) {
        r->pos += 2;
        r->bad |= !shell_skip_arithmetic(r);
        return;
    }
    if (!shell_read_word(r, &w)) { /* the variable */
        r->bad = true;
        return;
    }
    if (w.text && shell_env_changes_meaning(w.text, strlen(w.text), false))
        shell_add_opaque(r->b, "sets a variable that changes what commands mean", r->depth);
    shell_word_done(&w);
    shell_skip_blanks(r, true);
    size_t before = r->pos;
    bool in = shell_read_word(r, &w);
    bool is_in = in && is_word(&w, "in");
    if (in)
        shell_word_done(&w);
    if (!is_in) {
        r->pos = before;
        return;
    }
    for (shell_skip_blanks(r, false); shell_read_word(r, &w); shell_skip_blanks(r, false))
        shell_word_done(&w);
}

static void read_patterns(struct shell_reader *r)
{
    if (shell_peek(r, 0) == '(')
        r->pos++;
    for (;;) {
        struct shell_word w;
        shell_skip_blanks(r, true);
        if (shell_peek(r, 0) == ')') {
            r->pos++;
            return;
        }
        if (shell_peek(r, 0) == '|') {
            r->pos++;
        } else if (shell_read_word(r, &w)) {
            shell_word_done(&w);
        } else {
            r->bad = true;
            return;
        }
    }
}

static bool read_given_word(struct shell_reader *r, const char *text)
{
    struct shell_word w;
    size_t before = r->pos;
    if (!shell_read_word(r, &w))
        return false;
    bool given = is_word(&w, text);
    shell_word_done(&w);
    if (!given)
        r->pos = before;
    return given;
}

static bool starts_with_word(const struct shell_reader *r, const char *text)
{
    size_t n = strlen(text);
    return shell_at(r, text) && (shell_peek(r, n) < 0 || strchr(" \t\n;&|()<>", shell_peek(r, n)));
}

static void read_case(struct shell_reader *r)
{
    struct shell_word w;
    shell_skip_blanks(r, true);
    if (!shell_read_word(r, &w)) {
        r->bad = true;
        return;
    }
    shell_word_done(&w);
    shell_skip_blanks(r, true);
    r->bad |= !read_given_word(r, "in");
    if (++r->depth > SHELL_DEPTH_MAX)
        r->bad = true;
    while (!r->bad) {
        shell_skip_blanks(r, true);
        if (starts_with_word(r, "esac")) {
            r->pos += 4;
            break;
        }
        read_patterns(r);
        if (!r->bad && shell_parse_list(r, STOP_CASE))
            break;
    }
    r->depth--;
}

/* [[ ... ]]: nothing runs but what its words run. */
static void read_condition(struct shell_reader *r)
{
    bool operators = false;
    r->b->arithmetic = true;
    for (;;) {
        struct shell_word w;
        shell_skip_blanks(r, true);
        if (shell_read_word(r, &w)) {
            bool end = is_word(&w, "]]");
            r->b->evaluates |= shell_in_list("-eq -ne -lt -le -gt -ge -v", w.text, strlen(w.text));
            shell_word_done(&w);
            if (end && operators && !r->bash)
                shell_add_opaque(r->b, "[[ with operators is not known to every sh", r->depth);
            if (end)
                return;
        } else if (r->bad || shell_peek(r, 0) < 0 || shell_peek(r, 0) == ';') {
            r->bad = true;
            return;
        } else { /* ( ) < > & | are operators here, and end the command in a shell without [[ */
            operators = true;
            r->pos++;
        }
    }
}

static void define_function(struct shell_reader *r, const struct shell_word *w)
{
    r->b->loops = true;
    if (w->unknown)
        shell_add_opaque(r->b, "defines a function of a name that is not known", r->depth);
    else
        shell_define(r->b, w->text);
}

static void read_function(struct shell_reader *r)
{
    struct shell_word w;
    shell_skip_blanks(r, false);
    if (!shell_read_word(r, &w)) {
        r->bad = true;
        return;
    }
    define_function(r, &w);
    shell_word_done(&w);
    shell_skip_blanks(r, false);
    if (shell_peek(r, 0) == '(') {
        r->pos++;
        shell_skip_blanks(r, false);
        r->bad |= shell_peek(r, 0) != ')';
        r->pos++;
    }
}

static void read_time(struct shell_reader *r)
{
    shell_skip_blanks(r, false);
    if (starts_with_word(r, "-p"))
        r->pos += 2;
}

static void read_coproc(struct shell_reader *r)
{
    shell_add_opaque(r->b, "coproc", r->depth);
}

static void step_over(struct shell_reader *r)
{
    (void)r;
}

static void read_loop(struct shell_reader *r)
{
    r->b->loops = true;
}

static const struct {
    const char *word;
    void (*read)(struct shell_reader *r);
} reserved[] = {
    {"if", step_over},
    {"then", step_over},
    {"else", step_over},
    {"elif", step_over},
    {"fi", step_over},
    {"while", read_loop},
    {"until", read_loop},
    {"do", step_over},
    {"done", step_over},
    {"{", step_over},
    {"}", step_over},
    {"!", step_over},
    {"time", read_time},
    {"coproc", read_coproc},
    {"for", skip_words_of_for},
    {"select", skip_words_of_for},
    {"case", read_case},
    {"[[", read_condition},
    {"function", read_function},
};

/* "time -f ..." is the program of that name where time is no word of the shell. */
static bool is_program_time(struct shell_reader *r)
{
    size_t before = r->pos;
    shell_skip_blanks(r, false);
    bool program = shell_peek(r, 0) == '-' && !starts_with_word(r, "-p");
    r->pos = before;
    return program;
}

static bool read_reserved(struct shell_reader *r, const struct shell_word *w)
{
    for (size_t i = 0; i < ELEMENTS(reserved); i++) {
        if (!is_word(w, reserved[i].word))
            continue;
        if (reserved[i].read == read_time && !r->bash && is_program_time(r)) {
            shell_add_opaque(r->b, "time with options differs from shell to shell", r->depth);
            return false;
        }
        reserved[i].read(r);
        return true;
    }
    return false;
}

static bool at_function_body(struct shell_reader *r)
{
    size_t before = r->pos;
    shell_skip_blanks(r, false);
    if (shell_peek(r, 0) == '(') {
        r->pos++;
        shell_skip_blanks(r, false);
        if (shell_peek(r, 0) == ')') {
            r->pos++;
            return true;
        }
        r->bad = true;
    }
    r->pos = before;
    return false;
}

/* One word of a simple command. False: it ended here because of what the word was. */
static bool take_word(struct shell_reader *r, struct shell_draft *d, struct shell_word *w)
{
    bool first = !d->c.n_words;
    if (is_fd_word(r, w)) {
        shell_word_done(w);
        return true;
    }
    if (first && !d->any && read_reserved(r, w)) {
        shell_word_done(w);
        return false;
    }
    if (first && w->assign) {
        if (shell_peek(r, 0) == '(' && w->text[w->assign + 1] == 0)
            read_array(r);
        add_assign(r, d, w);
        return true;
    }
    if (first && !d->any && at_function_body(r)) {
        define_function(r, w);
        shell_word_done(w);
        return false;
    }
    shell_add_word(r->b, &d->c, w);
    return d->any = true;
}

/* bash stores in NAME which descriptor "{NAME}>file" has got. */
static void look_at_descriptor_name(const struct shell_reader *r, struct shell_command *c)
{
    size_t n = 1;
    if (shell_peek(r, 0) != '{')
        return;
    while (shell_peek(r, n) == '_' || isalnum(shell_peek(r, n)))
        n++;
    if (n == 1 || shell_peek(r, n) != '}' || shell_peek(r, n + 1) < 0 ||
        !strchr("<>", shell_peek(r, n + 1)))
        return;
    _cleanup_free_ char *name = xstrndup(r->s + r->pos + 1, n - 1);
    shell_look_at_name(c, name, false);
}

/* Reads up to what ends a simple command; returns 1 + its index, or 0. *ret_esac: the word that
 * ends a case was there instead. */
static size_t read_simple(struct shell_reader *r, bool piped, size_t source, bool *ret_esac)
{
    struct shell_draft d = {.first_pending = r->n_pending};
    struct shell_word w;
    while (!r->bad && !r->b->overflow) {
        shell_skip_blanks(r, false);
        if (!d.any && starts_with_word(r, "esac")) {
            r->pos += 4;
            *ret_esac = true;
            break;
        }
        look_at_descriptor_name(r, &d.c);
        if (shell_read_redirection(r, &d))
            continue;
        if (!shell_read_word(r, &w) || !take_word(r, &d, &w))
            break;
    }
    return draft_finish(r, &d, piped, source);
}

/* --- lists */

static void read_group(struct shell_reader *r)
{
    if (shell_at(r, "((") && r->bash) {
        r->pos += 2;
        if (shell_skip_arithmetic(r))
            return;
        r->pos -= 2;
    } else if (shell_at(r, "((")) {
        shell_add_opaque(r->b, "(( is arithmetic to some shells, and a subshell to others",
                         r->depth);
    }
    r->pos++;
    if (++r->depth > SHELL_DEPTH_MAX || !shell_parse_list(r, STOP_PAREN))
        r->bad = true;
    r->depth--;
}

struct pipe_state {
    bool piped;    /* what comes next reads what the last one wrote */
    size_t source; /* which is this one, where it is known */
    size_t last;
};

static bool read_operator(struct shell_reader *r, struct pipe_state *ps)
{
    int c = shell_peek(r, 0);
    bool pipe = c == '|' && shell_peek(r, 1) != '|';
    if ((c != '|' && c != '&' && c != ';') || shell_at(r, "&>"))
        return false;
    r->pos += 1 + (shell_peek(r, 1) == c || (pipe && shell_peek(r, 1) == '&'));
    *ps = (struct pipe_state){.piped = pipe, .source = pipe ? ps->last : 0};
    return true;
}

static bool read_case_end(struct shell_reader *r)
{
    if (!shell_at(r, ";;") && !shell_at(r, ";&"))
        return false;
    r->pos += shell_at(r, ";;&") ? 3 : 2;
    return true;
}

bool shell_parse_list(struct shell_reader *r, enum shell_stop stop)
{
    struct pipe_state ps = {0};
    while (!r->bad) {
        size_t before = r->pos;
        shell_skip_blanks(r, true);
        if (memchr(r->s + before, '\n', r->pos - before))
            ps.last = 0;
        int c = shell_peek(r, 0);
        if (c < 0)
            return stop == STOP_END;
        if (c == ')') {
            r->pos += stop == STOP_PAREN;
            return stop == STOP_PAREN;
        }
        if (stop == STOP_CASE && read_case_end(r))
            return false;
        if (read_operator(r, &ps))
            continue;
        if (c == '(') {
            read_group(r);
            ps.last = 0;
            continue;
        }
        bool esac = false;
        before = r->pos;
        ps.last = read_simple(r, ps.piped, ps.source, &esac);
        if (ps.last)
            ps.piped = false, ps.source = 0;
        if (esac && stop == STOP_CASE)
            return true;
        /* Nothing of it can be read, or what more there is has no place. */
        if (r->pos == before || r->b->overflow)
            r->bad = true;
    }
    return false;
}
