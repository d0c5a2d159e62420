/* SPDX-License-Identifier: Apache-2.0 */
/* A command by the row of its program: which options run others, which files they name, where the
 * command of a wrapper or the script of an interpreter is. Which word says so is kept, so that a
 * rule which names it ("python3 -c *") knows what it allows. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/options.h"

struct look {
    struct shell_build *b;
    size_t index; /* of the command */
    const struct shell_program *p;
    size_t operands;  /* seen */
    size_t inner;     /* word at which another command starts; 0 if there is none */
    const char *line; /* for a shell, in an option */
    bool shows;       /* an option that only shows something */
    bool code;        /* an option brought code */
    bool script;      /* an operand that is run */
    bool hides;       /* it is not known where its command starts */
    bool exports;     /* variables that it sets are for other programs, too */
};

static struct shell_command *command_of(const struct look *l)
{
    return &l->b->out->commands[l->index];
}

/* --- files that options name */

static bool is_stream(const char *path)
{
    return !*path || strcmp(path, "-") == 0;
}

void shell_add_file(struct shell_build *b, size_t index, const struct shell_program *p,
                    const struct shell_item *item)
{
    struct shell_command *c = &b->out->commands[index];
    bool write = item->meaning == '>';
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (!item->value || is_stream(item->value))
        return;
    if (b->n_words >= SHELL_WORDS_MAX) {
        b->overflow = true;
        return;
    }
    b->n_words++;
    /* A wrapper needs no leave to run, so there is none that its own files could come with. */
    bool covered = write ? p->flags & PROGRAM_WRITES : !(p->flags & (PROGRAM_RUNS | PROGRAM_FIRST));
    c->redirects = xrealloc(c->redirects, (c->n_redirects + 1) * sizeof(*c->redirects));
    c->redirects[c->n_redirects++] = (struct shell_redirect){
        .target = {.text = xstrdup(item->value), .unknown = strpbrk(item->value, holes) != NULL},
        .write = write,
        .inside = covered};
}

/* --- options */

/* Is there an option that does more than leave to run the program says? */
static bool row_runs_others(const struct shell_program *p)
{
    const char *more = p->flags & PROGRAM_WRITES ? "!&$%~|=" : "!&$%~|=>";
    return strpbrk(p->options, more) || ((p->flags & PROGRAM_FIRST) && strchr(p->options, '@'));
}

/* The rows that words are passed on to; NULL at the end. */
static const struct shell_program *next_passed(const char **names)
{
    size_t n = *names ? strcspn(*names, " ") : 0;
    _cleanup_free_ char *name = xstrndup(n ? *names : "", n);
    if (n)
        *names += n + ((*names)[n] == ' ');
    return n ? shell_find_program(name) : NULL;
}

/* A word that another program gets as an operand. Which one of them it will be is not known. */
static void look_at_passed_word(struct look *l, const struct shell_item *item)
{
    struct shell_item operand = *item;
    operand.kind = ITEM_OPERAND;
    const char starts[] = {'-', SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (!item->value || (*item->value && strchr(starts, *item->value)))
        shell_mark(command_of(l), "an option of the program that it starts", item->word);
    if (!item->value)
        return;
    const struct shell_program *q;
    for (const char *names = l->p->passes; (q = next_passed(&names));)
        shell_look_at_value(l->b, l->index, q, &operand);
}

/* What another program gets, from the word `first` on: only what none of them takes for more than
 * a plain option or operand is known. */
static void look_at_passed(struct look *l, size_t first)
{
    const struct shell_program *q;
    for (const char *names = l->p->passes; (q = next_passed(&names));) {
        shell_look_at_raw_words(command_of(l), q, first);
        struct shell_walk w = shell_walk_start(command_of(l), q, first);
        struct shell_item item;
        while (shell_walk_next(&w, &item)) {
            bool plain = item.kind == ITEM_OPERAND ||
                         (item.kind == ITEM_OPTION && (!item.meaning || item.meaning == '.'));
            if (!plain)
                shell_mark(command_of(l), "an option of the program that it starts", item.word);
            shell_look_at_value(l->b, l->index, q, &item);
            w.c = command_of(l);
        }
    }
}

/* Not a file whose text stays what it is. */
static bool reads_stream(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, "/dev/", 5) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static void look_at_option(struct look *l, const struct shell_item *item)
{
    struct shell_command *c = command_of(l);
    switch (item->meaning) {
    case '~':
        l->line = item->value;
        /* fall through */
    case '!':
        shell_mark(c, "an option that runs code or other programs", item->word);
        l->code = true;
        break;
    case '$':
        c->chosen = item->value_word;
        shell_look_at_code(c, item);
        l->code = true;
        break;
    case '%':
        if (!item->value || !shell_look_at_module(l->b, l->index, item))
            shell_mark(c, "runs a module that is not known",
                       item->value ? item->value_word : item->word);
        c->chosen = item->value_word;
        l->script = true;
        break;
    case '&':
        l->inner = item->value ? item->value_word : item->word + 1;
        break;
    case '<':
        /* A file of what is to be run, as "make -f -" */
        if ((l->p->flags & PROGRAM_TARGETS) && item->value && reads_stream(item->value))
            shell_mark(c, "what it runs is not known", SHELL_NOT_NAMED);
        /* fall through */
    case '>':
        shell_add_file(l->b, l->index, l->p, item);
        break;
    case '/':
        if (!item->value || !*item->value || !shell_enter(l->b, item->value))
            c->moved = true;
        break;
    case '.':
        l->shows = true;
        break;
    case '|':
        shell_mark(c, "installs files, and where is not known", item->word);
        break;
    case '@':
        l->b->arithmetic = true; /* an index of the variable is */
        l->b->evaluates |= item->value && strchr(item->value, '[');
        if (item->value)
            shell_look_at_name(c, item->value, false);
        else
            shell_mark(c, "sets a variable by another name", SHELL_NOT_NAMED);
        break;
    case '^':
        l->exports = true;
        break;
    case '=':
        look_at_passed_word(l, item);
        break;
    default:
        break;
    }
    shell_look_at_value(l->b, l->index, l->p, item);
}

/* --- operands */

static bool is_assignment(const struct shell_word *w)
{
    return strchr(w->text, '=') && w->text[0] != '=';
}

static void look_at_script(struct look *l, const struct shell_item *item)
{
    struct shell_command *c = command_of(l);
    /* A word in a script's place that makes node read commands. */
    bool stream = reads_stream(item->value) || strcmp(item->value, "inspect") == 0;
    if (c->words[item->word].unknown || stream)
        shell_mark(c, "what it runs is not known", SHELL_NOT_NAMED);
    c->chosen = item->word;
    l->script = true;
}

/* The words before a wrapper's command. */
static void look_at_before(struct look *l, const struct shell_item *item)
{
    struct shell_command *c = command_of(l);
    const struct shell_word *w = &c->words[item->word];
    if ((l->p->flags & PROGRAM_ASSIGNS) && is_assignment(w)) {
        if (shell_env_changes_meaning(w->text, strcspn(w->text, "="), true))
            shell_mark(c, "sets a variable that may change what a command means", SHELL_NOT_NAMED);
    } else if (l->operands++ < l->p->operands) {
        if (w->unknown && w->splits)
            l->hides = true;
    } else {
        l->inner = item->word;
    }
}

static void look_at_operand(struct look *l, const struct shell_item *item)
{
    if (l->p->flags & PROGRAM_RUNS) {
        look_at_before(l, item);
        return;
    }
    bool first = l->operands++ == 0;
    if (l->p->flags & PROGRAM_SETS) {
        shell_look_at_name(command_of(l), item->value,
                           l->exports || (l->p->flags & PROGRAM_EXPORTS));
        l->b->evaluates |= strchr(item->value, '[') != NULL;
    }
    if (l->p->passes)
        look_at_passed_word(l, item);
    if ((l->p->flags & PROGRAM_SECOND) && l->operands == 2) {
        struct shell_item file = *item;
        file.meaning = '>';
        shell_add_file(l->b, l->index, l->p, &file);
    }
    if ((l->p->flags & PROGRAM_TARGETS) || ((l->p->flags & PROGRAM_CODE) && first && !l->code))
        command_of(l)->chosen = item->word;
    if ((l->p->flags & PROGRAM_SCRIPT) && !l->code)
        look_at_script(l, item);
    else if ((l->p->flags & PROGRAM_CODE) && first && !l->code)
        shell_look_at_code(command_of(l), item);
    else
        shell_look_at_value(l->b, l->index, l->p, item);
}

/* "-vPATH" has only a name behind its letter, which "${x} done" cannot become. */
static bool may_name_variable(const struct shell_word *w)
{
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    size_t n = strlen(w->text);
    if (w->splits || w->text[n - 1] == ']')
        return true;
    for (const char *p = w->text; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && !strchr(holes, *p))
            return false;
    return true;
}

static void look_at_hole(struct look *l, const struct shell_item *item)
{
    struct shell_command *c = command_of(l);
    unsigned runs = PROGRAM_RUNS | PROGRAM_SCRIPT | PROGRAM_SUBS | PROGRAM_CODE;
    if (l->p->flags & runs)
        shell_mark(c, "it is not known what it runs", SHELL_NOT_NAMED);
    else if (l->p->flags & PROGRAM_SETS)
        shell_mark(c, "sets variables of names that are not known", SHELL_NOT_NAMED);
    else if (row_runs_others(l->p) &&
             (!strchr(l->p->options, '@') || may_name_variable(&c->words[item->word])))
        shell_mark(c, "a word may become an option that runs others or writes", SHELL_NOT_NAMED);
    if (l->p->flags & PROGRAM_RUNS) /* a command may start here */
        l->inner = l->operands >= l->p->operands ? item->word : 0;
    l->operands++;
    shell_look_at_value(l->b, l->index, l->p, item);
}

/* --- all of it */

static void look_at_item(struct look *l, const struct shell_item *item)
{
    switch (item->kind) {
    case ITEM_OPTION:
        look_at_option(l, item);
        break;
    case ITEM_OPERAND:
        look_at_operand(l, item);
        break;
    case ITEM_NOT_KNOWN:
        if (!(l->p->flags & PROGRAM_OPAQUE))
            shell_mark(command_of(l), "an option that is not known", item->word);
        l->hides |= (l->p->flags & (PROGRAM_RUNS | PROGRAM_SCRIPT)) != 0;
        break;
    case ITEM_HOLE:
        look_at_hole(l, item);
        break;
    }
}

/* Index of "--" from a word on, or of the last word. */
static size_t find_dashes(const struct shell_command *c, size_t i)
{
    while (i < c->n_words && strcmp(c->words[i].text, "--") != 0)
        i++;
    return i;
}

static void add_inner(struct look *l, size_t first)
{
    struct shell_command *inner = shell_add_inner(l->b, l->index, first);
    if (inner && (l->p->flags & PROGRAM_NAMED))
        inner->transparent = true; /* naming it in a rule for the wrapper is leave enough */
    if (inner)
        command_of(l)->transparent = !(l->p->flags & (PROGRAM_SELF | PROGRAM_NAMED));
}

/* It is marked already: reading it can only show more that runs. */
static void read_line(struct look *l)
{
    _cleanup_free_ char *copy = xstrdup(l->line); /* the list may move */
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (!strpbrk(copy, holes))
        shell_nested(l->b, copy, strlen(copy), command_of(l)->depth + 1, false);
}

static void conclude_look(struct look *l)
{
    struct shell_command *c = command_of(l);
    if (l->p->flags & PROGRAM_OPAQUE)
        shell_mark(c, "a program that can run others", 0);
    if ((l->p->flags & PROGRAM_INSTALLS) && !l->shows)
        shell_mark(c, "installs files, and where is not known", c->chosen);
    if (l->p->flags & PROGRAM_SETS)
        l->b->arithmetic = true; /* values and indexes may be evaluated */
    if (l->hides)
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    if ((l->p->flags & PROGRAM_SCRIPT) && !l->script && !l->code && (!l->shows || c->more))
        shell_mark(c, "runs a program that it reads", SHELL_NOT_NAMED);
    if (c->more && row_runs_others(l->p) && !l->inner && !l->script)
        shell_mark(c, "an argument that comes later may be an option", SHELL_NOT_NAMED);
    if (l->line)
        read_line(l);
    if (!l->inner || l->shows)
        return;
    c = command_of(l);
    if (l->inner < c->n_words && c->words[l->inner].text[0] == '-')
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    if (l->p->flags & PROGRAM_NAMED)
        shell_mark(c, "runs a program that may come from elsewhere", l->inner);
    c->chosen = l->inner;
    add_inner(l, l->inner);
    if (l->p->flags & PROGRAM_NAMED) /* "exec node@20 -- node": versions may come before it */
        add_inner(l, find_dashes(command_of(l), l->inner) + 1);
}

/* The row of a subcommand; NULL when what it does is not known. */
static const struct shell_program *find_sub(struct shell_command *c, const struct shell_item *item,
                                            const char *name, char *key, size_t size)
{
    c->chosen = item->word;
    if (c->words[item->word].unknown) {
        shell_mark(c, "its subcommand is not known", SHELL_NOT_NAMED);
        return NULL;
    }
    size_t len = strlen(name) + 1 + strlen(item->value);
    const struct shell_program *p = NULL;
    if (len < size) {
        memcpy(key, name, strlen(name));
        key[strlen(name)] = '.';
        memcpy(key + strlen(name) + 1, item->value, strlen(item->value) + 1);
        p = shell_find_program(key);
    }
    if (!p)
        shell_mark(c, "a subcommand that is not known", item->word);
    return p;
}

static void walk_row(struct shell_build *b, size_t index, const struct shell_program *p,
                     const char *name, size_t first)
{
    struct look l = {.b = b, .index = index, .p = p};
    shell_look_at_raw_words(command_of(&l), p, first);
    struct shell_walk w = shell_walk_start(command_of(&l), p, first);
    struct shell_item item;
    while (!l.inner && shell_walk_next(&w, &item)) {
        if (item.kind == ITEM_OPERAND && (p->flags & PROGRAM_SUBS)) {
            char key[64];
            const struct shell_program *sub =
                find_sub(command_of(&l), &item, name, key, sizeof(key));
            if (sub)
                walk_row(b, index, sub, key, item.word + 1);
            return;
        }
        if (p->passes && w.dashes && item.word > w.dashes) {
            look_at_passed(&l, w.dashes + 1);
            break;
        }
        look_at_item(&l, &item);
        if (l.script || (l.code && (p->flags & PROGRAM_SCRIPT)))
            break;
    }
    conclude_look(&l);
}

void shell_walk_row(struct shell_build *b, size_t index, const char *name, size_t first)
{
    const struct shell_program *p = shell_find_program(name);
    if (p)
        walk_row(b, index, p, name, first);
}
