/* SPDX-License-Identifier: Apache-2.0 */
/* Shells, builtins and programs that run a text or put a command together: what they run is put on
 * the list too. Those that run the words behind their options are rows of table-wrap.c. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/options.h"

/* The first operand by the row of that name. False: the words before it are not all known. */
static bool find_operand(const struct shell_command *c, const char *name, size_t *ret)
{
    struct shell_walk w = shell_walk_start(c, shell_find_program(name), 1);
    struct shell_item item;
    *ret = c->n_words;
    while (shell_walk_next(&w, &item)) {
        if (item.kind == ITEM_NOT_KNOWN || item.kind == ITEM_HOLE || item.meaning == '!')
            return false;
        if (item.kind == ITEM_OPERAND) {
            *ret = item.word;
            return true;
        }
    }
    return true;
}

/* --- shells */

static void shell_reads_text(struct shell_build *b, size_t index, const char *text)
{
    const struct shell_command *c = &b->out->commands[index];
    bool own = shell_in_list("eval trap alias", c->name, strlen(c->name));
    bool bash = own ? c->bash : strcmp(c->name, "bash") == 0 || strcmp(c->name, "rbash") == 0;
    _cleanup_free_ char *copy = xstrdup(text); /* the list may move */
    shell_nested(b, copy, strlen(copy), c->depth + 1, bash);
}

static void shell_reads_word(struct shell_build *b, size_t index, size_t word)
{
    struct shell_command *c = &b->out->commands[index];
    if (word >= c->n_words) {
        shell_mark(c, "what it runs is not there", SHELL_NOT_NAMED);
    } else if (c->words[word].unknown || c->words[word].doubt) {
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
    } else {
        c->transparent = true;
        shell_reads_text(b, index, c->words[word].text);
    }
}

/* What `echo` writes or a here-document holds, as far as it is known; NULL when it is not. */
static char *text_of_source(const struct shell_build *b, const struct shell_command *c)
{
    const struct shell_command *from = c->source ? &b->out->commands[c->source - 1] : NULL;
    if (!from || !from->n_words)
        return NULL;
    const char *name = from->words[0].text;
    if (strcmp(name, "cat") == 0 && from->n_words == 1 && from->here)
        return xstrdup(from->here);
    if (strcmp(name, "echo") != 0 && strcmp(name, "printf") != 0)
        return NULL;
    size_t first = from->n_words > 1 && from->words[1].text[0] == '-' ? 2 : 1;
    return shell_join(from, first);
}

/* A shell without a script: what its input holds is run. */
static void shell_reads_input(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    if (c->here) {
        bool holes = c->here_holes;
        if (!holes)
            c->transparent = true;
        else
            shell_mark(c, "runs a here-document with expansions", SHELL_NOT_NAMED);
        shell_reads_text(b, index, b->out->commands[index].here);
        return;
    }
    _cleanup_free_ char *text = text_of_source(b, c);
    shell_mark(c, "runs what it reads", SHELL_NOT_NAMED);
    if (text)
        shell_reads_text(b, index, text);
}

static bool is_input(const char *word)
{
    return strcmp(word, "-") == 0 || strcmp(word, "/dev/stdin") == 0 ||
           strncmp(word, "/dev/fd/", 8) == 0 || strncmp(word, "/proc/self/fd/", 14) == 0;
}

/* A bundle of letters, of which -o and -O have the next words as values. Returns how many. */
static size_t look_at_shell_letters(struct shell_command *c, size_t word)
{
    const char *t = c->words[word].text;
    size_t values = 0;
    for (const char *p = t + 1; *p; p++) {
        if (*p == 'o') {
            const struct shell_word *mode =
                word + ++values < c->n_words ? &c->words[word + values] : NULL;
            if (*t == '-' && mode && (mode->unknown || !shell_is_plain_mode(mode->text)))
                shell_mark(c, "a mode that may change what commands mean", word + values);
        } else if (*p == 'O') {
            shell_mark(c, "a mode that may change what commands mean", word + ++values);
        } else if (*t == '-' && !strchr("bcefhilmnprstuvxBCDEHPT", *p)) {
            shell_mark(c, "an option that is not known", word); /* -k and -a among them */
        }
    }
    return values;
}

/* bash takes these with one dash, too, where others see letters. */
bool shell_is_long_name(const char *option)
{
    static const char names[] = "debug debugger dump-po-strings dump-strings help init-file login "
                                "noediting noprofile norc posix pretty-print rcfile restricted "
                                "verbose version wordexp protected";
    return option[0] == '-' && shell_in_list(names, option + 1, strlen(option + 1));
}

static void look_through_shell(struct shell_build *b, size_t index)
{
    static const char plain[] =
        "--login --noediting --noprofile --norc --posix --restricted --verbose";
    struct shell_command *c = &b->out->commands[index];
    bool string = false, input = false;
    size_t i = 1;
    for (; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        if (c->words[i].unknown) {
            shell_mark(c, "its options or script are not known", SHELL_NOT_NAMED);
            return;
        }
        if ((t[0] != '-' && t[0] != '+') || !t[1])
            break;
        if (strcmp(t, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(t, "--version") == 0 || strcmp(t, "--help") == 0)
            return;
        if (strncmp(t, "--rcfile", 8) == 0 || strncmp(t, "--init", 6) == 0) {
            shell_mark(c, "reads a file of commands", i);
            i += !strchr(t, '=');
        }
        if (t[1] == '-') {
            if (!shell_in_list(plain, t, strlen(t)))
                shell_mark(c, "an option that is not known", i);
            continue;
        }
        if (shell_is_long_name(t)) {
            shell_mark(c, "an option that shells read differently", SHELL_NOT_NAMED);
            if (shell_in_list("sh bash rbash", c->name, strlen(c->name))) {
                i += strcmp(t, "-rcfile") == 0 || strcmp(t, "-init-file") == 0;
                continue;
            }
        }
        string |= strchr(t, 'c') != NULL;
        input |= strchr(t, 's') != NULL;
        i += look_at_shell_letters(c, i);
    }
    if (string)
        shell_reads_word(b, index, i);
    else if (input || i >= c->n_words || is_input(c->words[i].text))
        shell_reads_input(b, index);
    else if (c->words[i].unknown)
        shell_mark(c, "its script is not known", SHELL_NOT_NAMED);
    else
        c->chosen = i;
}

/* --- builtins that run text */

static void look_through_eval(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    _cleanup_free_ char *text = shell_join(c, 1);
    if (!text || c->more) {
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
        return;
    }
    c->transparent = true;
    shell_reads_text(b, index, text);
}

static void look_through_trap(struct shell_build *b, size_t index)
{
    size_t word = 1;
    const struct shell_command *c = &b->out->commands[index];
    if (c->n_words > 1 && strcmp(c->words[1].text, "--") == 0)
        word++;
    if (c->n_words <= word || c->words[word].text[0] == '-')
        return;
    shell_reads_word(b, index, word);
}

static void look_through_alias(struct shell_build *b, size_t index)
{
    for (size_t i = 1; i < b->out->commands[index].n_words; i++) {
        const struct shell_word *w = &b->out->commands[index].words[i];
        const char *equals = strchr(w->text, '=');
        if (w->unknown || !equals)
            continue;
        _cleanup_free_ char *name = xstrndup(w->text, (size_t)(equals - w->text));
        shell_define(b, name);
        _cleanup_free_ char *value = xstrdup(equals + 1);
        shell_reads_text(b, index, value);
    }
    shell_mark(&b->out->commands[index], "gives names another meaning", SHELL_NOT_NAMED);
}

/* Below /proc and /dev names may be links to anywhere. */
static bool is_made_up_directory(const char *path)
{
    for (const char *p = path; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n && shell_in_list("proc fd", p, n))
            return true;
        p += n;
    }
    return strncmp(path, "/dev", 4) == 0;
}

/* Directories that a line may change to are kept as far as they are plain. */
bool shell_enter(struct shell_build *b, const char *to)
{
    struct shell *s = b->out;
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (strpbrk(to, holes) || strchr("-~", *to) || strstr(to, "..") || is_made_up_directory(to) ||
        s->n_directories == SHELL_DIRECTORIES_MAX)
        return false;
    s->directories = xrealloc(s->directories, (s->n_directories + 2) * sizeof(char *));
    s->directories[s->n_directories++] = xstrdup(to);
    s->directories[s->n_directories] = NULL;
    return true;
}

static void look_through_cd(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    const char *to = c->n_words == 2 ? c->words[1].text : "-";
    if (strcmp(c->name, "cd") != 0 || c->more || !shell_enter(b, to))
        b->moves = true;
    if (is_made_up_directory(to))
        shell_mark(c, "goes where the kernel makes up links", SHELL_NOT_NAMED);
}

/* The words behind the program as one line, as ssh, watch and su have them. */
static void look_through_joined(struct shell_build *b, size_t index, size_t first)
{
    struct shell_command *c = &b->out->commands[index];
    _cleanup_free_ char *text = shell_join(c, first);
    if (!text)
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
    else if (*text)
        shell_reads_text(b, index, text);
}

static void look_through_watch(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    size_t i;
    if (!find_operand(c, "watch", &i))
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    else
        look_through_joined(b, index, i);
}

static void look_through_ssh(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    size_t i;
    if (!find_operand(c, "ssh", &i))
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    else
        look_through_joined(b, index, i + 1);
    shell_mark(&b->out->commands[index], "runs on another host", 0);
}

/* su, script, runuser, flock: the text behind -c. */
static void look_through_dash_c(struct shell_build *b, size_t index)
{
    shell_mark(&b->out->commands[index], "runs a shell", 0);
    for (size_t i = 1; i < b->out->commands[index].n_words; i++) {
        const struct shell_command *c = &b->out->commands[index];
        const char *t = c->words[i].text;
        bool flag = t[0] == '-' && t[1] != '-' && t[strlen(t) - 1] == 'c';
        if ((flag || strcmp(t, "--command") == 0) && i + 1 < c->n_words && !c->words[i + 1].unknown)
            shell_reads_text(b, index, c->words[i + 1].text);
        else if (strncmp(t, "--command=", 10) == 0 && !c->words[i].unknown)
            shell_reads_text(b, index, t + 10);
    }
}

/* --- find and xargs */

/* Words in which `what` stands for something found at run time become holes. */
static void punch_holes(struct shell_command *c, const char *what)
{
    for (size_t i = 0; i < c->n_words; i++) {
        if (!strstr(c->words[i].text, what))
            continue;
        free(c->words[i].text);
        c->words[i].text = xstrdup((const char[]){SHELL_ANY, 0});
        c->words[i].unknown = true;
        c->words[i].assign = 0;
    }
}

static void cut_words(struct shell_build *b, struct shell_command *c, size_t n)
{
    while (c->n_words > n) {
        shell_word_done(&c->words[--c->n_words]);
        b->n_words--;
    }
}

static bool is_word(const struct shell_command *c, size_t i, const char *text)
{
    return !c->words[i].unknown && strcmp(c->words[i].text, text) == 0;
}

/* The command behind -exec; returns the word that ends it. */
static size_t look_through_exec(struct shell_build *b, size_t index, size_t first)
{
    const struct shell_command *c = &b->out->commands[index];
    size_t end = first;
    while (end < c->n_words && !is_word(c, end, ";") &&
           !(is_word(c, end, "+") && is_word(c, end - 1, "{}")))
        end++;
    struct shell_command *inner = shell_add_inner(b, index, first);
    if (!inner) {
        shell_mark(&b->out->commands[index], "what it runs is not known", SHELL_NOT_NAMED);
        return end;
    }
    cut_words(b, inner, end - first);
    punch_holes(inner, "{}");
    inner->moved = true;
    if (!inner->n_words)
        shell_mark(inner, "what it runs is not known", SHELL_NOT_NAMED);
    return end;
}

static void look_through_find(struct shell_build *b, size_t index)
{
    const struct shell_program *p = shell_find_program("find");
    struct shell_walk w = shell_walk_start(&b->out->commands[index], p, 1);
    struct shell_item item;
    while (shell_walk_next(&w, &item)) {
        struct shell_command *c = &b->out->commands[index];
        if (item.kind == ITEM_HOLE && c->words[item.word].text[0] != SHELL_GLOB)
            shell_mark(c, "its expression is not known", SHELL_NOT_NAMED);
        else if (item.kind == ITEM_NOT_KNOWN)
            shell_mark(c, "an option that is not known", item.word);
        else if (item.meaning == '<' || item.meaning == '>')
            shell_add_file(b, index, p, &item);
        else if (item.kind == ITEM_OPTION && strcmp(c->words[item.word].text, "-delete") == 0)
            c->chosen = item.word;
        else if (item.meaning == '&')
            w.next = look_through_exec(b, index, item.word + 1) + 1;
        w.c = &b->out->commands[index]; /* the list may have moved */
    }
}

/* What -I or -i of xargs has replaced; NULL when arguments go to the end. */
static const char *xargs_replacement(const struct shell_command *c, size_t end)
{
    for (size_t i = 1; i < end; i++) {
        const char *t = c->words[i].text;
        if (strncmp(t, "-I", 2) == 0)
            return t[2] ? t + 2 : i + 1 < c->n_words ? c->words[i + 1].text : "";
        if (strncmp(t, "-i", 2) == 0)
            return t[2] ? t + 2 : "{}";
        if (strncmp(t, "--replace", 9) == 0)
            return t[9] == '=' ? t + 10 : "{}";
    }
    return NULL;
}

/* Words of an `echo` before the pipe are arguments that are known. */
static void add_source_words(struct shell_build *b, size_t index, struct shell_command *inner)
{
    _cleanup_free_ char *text = text_of_source(b, &b->out->commands[index]);
    for (const char *p = text; p && *p;) {
        p += strspn(p, " \t\n");
        size_t n = strcspn(p, " \t\n");
        struct shell_word w = {.text = xstrndup(p, n), .quoted = true};
        if (n)
            shell_add_word(b, inner, &w);
        else
            shell_word_done(&w);
        p += n;
    }
}

static void look_through_xargs(struct shell_build *b, size_t index)
{
    size_t i;
    if (!find_operand(&b->out->commands[index], "xargs", &i)) {
        shell_mark(&b->out->commands[index], "an option hides what it runs", SHELL_NOT_NAMED);
        return;
    }
    struct shell_command *inner = shell_add_inner(b, index, i);
    struct shell_command *c = &b->out->commands[index];
    c->transparent = true;
    if (!inner)
        return;
    const char *what = xargs_replacement(c, i);
    free(inner->here); /* the command's own input is empty */
    inner->here = NULL;
    inner->piped = true;
    if (what && *what)
        punch_holes(inner, what);
    else
        inner->more = true;
    if (!what)
        add_source_words(b, index, inner);
    inner->source = 0;
}

static void look_through_parallel(struct shell_build *b, size_t index)
{
    shell_mark(&b->out->commands[index], "runs what it puts together", SHELL_NOT_NAMED);
    struct shell_command *c = &b->out->commands[index];
    size_t i = 1;
    while (i < c->n_words && c->words[i].text[0] == '-')
        i++;
    struct shell_command *inner = shell_add_inner(b, index, i);
    if (inner)
        inner->more = true;
}

/* --- the table */

static const struct {
    const char *names;
    void (*look)(struct shell_build *b, size_t index);
} looks[] = {
    {"sh bash dash zsh ksh ash mksh fish rbash rksh yash posh csh tcsh", look_through_shell},
    {"eval", look_through_eval},
    {"trap", look_through_trap},
    {"alias", look_through_alias},
    {"cd pushd popd chdir", look_through_cd},
    {"watch", look_through_watch},
    {"ssh", look_through_ssh},
    {"su script runuser", look_through_dash_c},
    {"find", look_through_find},
    {"xargs", look_through_xargs},
    {"parallel sem", look_through_parallel},
};

bool shell_knows_program(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(looks); i++)
        if (shell_in_list(looks[i].names, name, strlen(name)))
            return true;
    return shell_find_program(name) != NULL;
}

void shell_look_through(struct shell_build *b, size_t index)
{
    char plain[64];
    shell_plain_name(b->out->commands[index].name, plain, sizeof(plain));
    for (size_t i = 0; i < ELEMENTS(looks); i++)
        if (shell_in_list(looks[i].names, plain, strlen(plain))) {
            looks[i].look(b, index);
            return;
        }
}
