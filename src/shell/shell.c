/* SPDX-License-Identifier: Apache-2.0 */
/* Results of the shell reader: the list of commands, and the look at each of them that finds what
 * it runs in turn. Reading fills the list first, because here-documents come after their commands;
 * looking may append to it, and what it appends is looked at as well. */
#include "shell/shell.h"

#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"

#define SHELL_FORMAT_MAX 4096

void shell_word_done(struct shell_word *w)
{
    free(w->text);
    *w = (struct shell_word){0};
}

struct shell_word shell_word_copy(const struct shell_word *w)
{
    struct shell_word copy = *w;
    copy.text = xstrdup(w->text);
    return copy;
}

static void command_done(struct shell_command *c)
{
    for (size_t i = 0; i < c->n_words; i++)
        shell_word_done(&c->words[i]);
    for (size_t i = 0; i < c->n_redirects; i++)
        shell_word_done(&c->redirects[i].target);
    for (size_t i = 0; i < c->n_assigns; i++)
        shell_word_done(&c->assigns[i]);
    free(c->words);
    free(c->assigns);
    free(c->redirects);
    free(c->here);
}

void shell_done(struct shell *s)
{
    for (size_t i = 0; i < s->n_commands; i++)
        command_done(&s->commands[i]);
    free(s->commands);
    strv_free(s->directories);
    *s = (struct shell){0};
}

/* Room for one more is always kept for the command that says "too many". */
struct shell_command *shell_add(struct shell_build *b, int depth)
{
    struct shell *s = b->out;
    if (s->n_commands >= SHELL_COMMANDS_MAX) {
        b->overflow = true;
        return NULL;
    }
    s->commands = xrealloc(s->commands, (s->n_commands + 1) * sizeof(*s->commands));
    struct shell_command *c = &s->commands[s->n_commands++];
    *c = (struct shell_command){.depth = depth, .kind = SHELL_NAME_UNKNOWN};
    return c;
}

/* The mark that reaches furthest wins: a rule that names the words up to an earlier one would
 * otherwise be taken to know this one as well. */
void shell_mark(struct shell_command *c, const char *why, size_t word)
{
    if (c->opaque && c->opaque_word >= word)
        return;
    c->opaque = why;
    c->opaque_word = word;
}

void shell_add_opaque(struct shell_build *b, const char *why, int depth)
{
    struct shell_command *c = shell_add(b, depth);
    if (c)
        shell_mark(c, why, SHELL_NOT_NAMED);
}

void shell_add_word(struct shell_build *b, struct shell_command *c, struct shell_word *take)
{
    if (b->n_words >= SHELL_WORDS_MAX) {
        b->overflow = true;
        shell_word_done(take);
        return;
    }
    b->n_words++;
    c->words = xrealloc(c->words, (c->n_words + 1) * sizeof(*c->words));
    c->words[c->n_words++] = *take;
    *take = (struct shell_word){0};
}

void shell_define(struct shell_build *b, const char *name)
{
    if (b->n_defined >= SHELL_COMMANDS_MAX) {
        b->overflow = true;
        return;
    }
    b->defined = xrealloc(b->defined, (b->n_defined + 2) * sizeof(char *));
    b->defined[b->n_defined++] = xstrdup(name);
    b->defined[b->n_defined] = NULL;
}

struct shell_command *shell_add_inner(struct shell_build *b, size_t outer, size_t first)
{
    int depth = b->out->commands[outer].depth + 1;
    if (first >= b->out->commands[outer].n_words)
        return NULL;
    if (depth > SHELL_DEPTH_MAX) {
        shell_add_opaque(b, "nested too deeply", depth);
        return NULL;
    }
    struct shell_command *c = shell_add(b, depth);
    if (!c)
        return NULL;
    /* Fetched again by its index: shell_add() may have moved the array. */
    const struct shell_command *o = &b->out->commands[outer];
    for (size_t i = first; i < o->n_words; i++) {
        struct shell_word w = shell_word_copy(&o->words[i]);
        shell_add_word(b, c, &w);
    }
    c->more = o->more;
    c->bash = o->bash;
    c->moved = o->moved;
    c->here = o->here ? xstrdup(o->here) : NULL;
    c->here_live = o->here_live;
    c->here_holes = o->here_holes;
    c->piped = o->piped;
    c->source = o->source;
    return c;
}

/* NULL where a word is not known or the line is too long: what cannot be read must not be taken
 * for an empty script. */
char *shell_join(const struct shell_command *c, size_t first)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SHELL_TEXT_MAX);
    for (size_t i = first; i < c->n_words; i++) {
        if (c->words[i].unknown || (i > first && strbuf_puts(&text, " ") < 0) ||
            strbuf_puts(&text, c->words[i].text) < 0)
            return NULL;
    }
    return strbuf_steal(&text);
}

/* Reads a text that one of the commands would give to a shell. */
void shell_nested(struct shell_build *b, const char *text, size_t len, int depth, bool bash)
{
    struct shell_reader r = {.b = b, .s = text, .len = len, .depth = depth, .bash = bash};
    if (depth > SHELL_DEPTH_MAX || len > b->work || memchr(text, 0, len)) {
        shell_add_opaque(b, "too long or nested too deeply", depth);
        return;
    }
    b->work -= len;
    b->sets_place |= shell_text_sets_place(text, len);
    if (!shell_parse_list(&r, STOP_END) || r.bad)
        shell_add_opaque(b, "cannot be read as a shell line", depth);
    for (size_t i = 0; i < r.n_pending; i++)
        free(r.pending[i].delimiter);
}

static bool in_system_directory(const char *path, size_t len)
{
    static const char *const directories[] = {"/bin/",      "/usr/bin/",       "/sbin/",
                                              "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"};
    for (size_t i = 0; i < ELEMENTS(directories); i++)
        if (strlen(directories[i]) == len && strncmp(path, directories[i], len) == 0)
            return true;
    return false;
}

bool shell_is_system_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && in_system_directory(path, (size_t)(slash + 1 - path));
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

static void classify_name(struct shell_command *c)
{
    const char *text = c->words[0].text;
    const char *slash = strrchr(text, '/');
    c->name = slash ? slash + 1 : text;
    if (c->words[0].unknown || !*c->name || !is_plain(text))
        c->kind = SHELL_NAME_UNKNOWN;
    else if (slash && !shell_is_system_path(text))
        c->kind = SHELL_NAME_PATH;
    else
        c->kind = SHELL_NAME_KNOWN;
}

static void look_at(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    shell_look_at_env(b, index);
    c = &b->out->commands[index];
    if (!c->n_words) {
        c->transparent = !c->opaque;
        return;
    }
    classify_name(c);
    if (c->kind == SHELL_NAME_UNKNOWN) {
        shell_mark(c, "the command's name is not known before it runs", SHELL_NOT_NAMED);
        return;
    }
    shell_look_at_program(b, index);
    shell_look_through(b, index);
}

/* Marks of direction and width that a person who reads the command would not see. */
static bool has_invisible(const char *text)
{
    for (const char *p = text; (p = strpbrk(p, "\xe2\xef")); p++) {
        unsigned char b = (unsigned char)p[1], c = b ? (unsigned char)p[2] : 0;
        if ((unsigned char)*p == 0xef
                ? b == 0xbb && c == 0xbf
                : (b == 0x80 && ((c >= 0x8b && c <= 0x8f) || (c >= 0xaa && c <= 0xae))) ||
                      (b == 0x81 && c >= 0xa0 && c <= 0xaf))
            return true;
    }
    return false;
}

/* Does a path lead through a link that the kernel makes up, so that its text does not say where it
 * ends? "/proc/self/root/x" is "/x", and "/dev/fd" is "/proc/self/fd". */
static bool is_made_up(const char *part, const char *rest)
{
    static const char links[] = "root cwd exe fd map_files task ..";
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    size_t n = strcspn(part, "/"), digits = strspn(part, "0123456789");
    bool process =
        digits == n || shell_in_list("self thread-self ..", part, n) || strcspn(part, holes) < n;
    size_t last = strcspn(rest, "/");
    return process && (shell_in_list(links, rest, last) || strcspn(rest, holes) < last);
}

bool shell_is_made_up_path(const char *text)
{
    if (!strstr(text, "proc") && !strstr(text, "fd"))
        return false;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(SHELL_TEXT_MAX + 2);
    for (const char *p = text; *p;) {
        p += strspn(p, "/=:@");
        size_t n = strcspn(p, "/=:@");
        if (n && !(n == 1 && *p == '.'))
            strbuf_printf(&path, "/%.*s", (int)n, p);
        p += n;
    }
    const char *whole = path.data ? path.data : "";
    const char *fd = strstr(whole, "/dev/fd/");
    if ((fd && fd[8 + strspn(fd + 8, "0123456789")]) || strstr(whole, "/fd/../"))
        return true;
    for (const char *p = whole; (p = strstr(p, "/proc/")); p++) {
        const char *part = p + 6, *rest = strchr(part, '/');
        if (rest && is_made_up(part, rest + 1))
            return true;
    }
    return false;
}

static bool is_defined(const struct shell_build *b, const char *word)
{
    for (size_t i = 0; i < b->n_defined; i++)
        if (strcmp(b->defined[i], word) == 0)
            return true;
    return false;
}

static void settle_words(struct shell_command *c)
{
    static const char made_up[] = "a path leads through a link that the kernel makes up";
    for (size_t k = 0; k < c->n_words; k++) {
        if (has_invisible(c->words[k].text))
            shell_mark(c, "has characters that do not show", SHELL_NOT_NAMED);
        if (shell_is_made_up_path(c->words[k].text))
            shell_mark(c, made_up, SHELL_NOT_NAMED);
    }
    for (size_t k = 0; k < c->n_redirects; k++)
        if (shell_is_made_up_path(c->redirects[k].target.text))
            shell_mark(c, made_up, SHELL_NOT_NAMED);
}

/* What holds for the line as a whole, once all of it is known. */
static void settle_commands(struct shell_build *b)
{
    struct shell *s = b->out;
    for (size_t i = 0; i < s->n_commands; i++) {
        struct shell_command *c = &s->commands[i];
        c->name = NULL;
        c->kind = SHELL_NAME_UNKNOWN;
        if (c->n_words)
            classify_name(c);
        c->foreign = c->kind == SHELL_NAME_KNOWN && shell_is_foreign(c->name);
        c->endless = c->name && shell_is_endless(c->name);
        c->moved |= b->moves || (s->directories && b->loops);
        if (c->n_words && is_defined(b, c->words[0].text)) {
            c->kind = SHELL_NAME_UNKNOWN;
            shell_mark(c, "the line gives this name another meaning", SHELL_NOT_NAMED);
        }
        settle_words(c);
        if (c->opaque)
            c->transparent = false;
    }
    if (b->arithmetic && b->quoted_run)
        shell_add_opaque(b, "arithmetic may run what a quoted text contains", 0);
    if (b->evaluates && b->sets_place)
        shell_add_opaque(b, "arithmetic may set a variable that says where programs are", 0);
    if (b->overflow && !s->n_commands)
        shell_add_opaque(b, "too many definitions", 0);
    if (b->overflow) {
        struct shell_command *last = &s->commands[s->n_commands - 1];
        shell_mark(last, "too many commands or words", SHELL_NOT_NAMED);
        last->transparent = false;
    }
    strv_free(b->defined);
}

static void look_at_all(struct shell_build *b)
{
    for (size_t i = 0; i < b->out->n_commands; i++)
        look_at(b, i);
    settle_commands(b);
}

void shell_parse_line(const char *line, size_t len, struct shell *ret)
{
    *ret = (struct shell){0};
    struct shell_build b = {.out = ret, .work = SHELL_WORK_MAX};
    if (len > SHELL_TEXT_MAX)
        shell_add_opaque(&b, "the line is too long", 0);
    else
        shell_nested(&b, line, len, 0, false);
    look_at_all(&b);
}

void shell_parse_argv(char *const *argv, struct shell *ret)
{
    *ret = (struct shell){0};
    struct shell_build b = {.out = ret, .work = SHELL_WORK_MAX};
    struct shell_command *c = shell_add(&b, 0);
    for (; argv[0] && !b.overflow; argv++) {
        /* Bytes of an argument that would be read as holes: then the argument is one. */
        struct shell_word w = {.quoted = true};
        const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
        w.unknown = strpbrk(argv[0], holes) || strlen(argv[0]) > SHELL_TEXT_MAX;
        w.text = xstrdup(w.unknown ? (const char[]){SHELL_ANY, 0} : argv[0]);
        shell_add_word(&b, c, &w);
    }
    if (!c->n_words)
        shell_mark(c, "there is no command", SHELL_NOT_NAMED);
    look_at_all(&b);
}

static void format_word(const struct shell_word *w, struct strbuf *out)
{
    bool quote = !*w->text || strpbrk(w->text, " \t\n'\"\\;&|<>()");
    if (quote)
        strbuf_puts(out, "'");
    for (const char *p = w->text; *p; p++) {
        if (*p == SHELL_ANY)
            strbuf_puts(out, "<?>");
        else if (*p == SHELL_GLOB)
            strbuf_puts(out, "*");
        else if (*p == SHELL_ONE)
            strbuf_puts(out, "?");
        else if ((unsigned char)*p < 0x20 || *p == 0x7f)
            strbuf_printf(out, "\\x%02x", (unsigned char)*p);
        else
            strbuf_append(out, p, 1);
    }
    if (quote)
        strbuf_puts(out, "'");
}

char *shell_command_format(const struct shell_command *c)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(SHELL_FORMAT_MAX);
    for (size_t i = 0; i < c->n_words; i++) {
        if (i)
            strbuf_puts(&text, " ");
        format_word(&c->words[i], &text);
    }
    if (c->more)
        strbuf_puts(&text, " <more>");
    return strbuf_steal(&text);
}
