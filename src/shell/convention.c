/* SPDX-License-Identifier: Apache-2.0 */
/* A command's words against the row of its program: where it looks for its files. Rather one place
 * too many than one too few: a file that is compared for nothing does no harm. */
#include "shell/convention.h"

#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/options.h"

#define PLACES_MAX 16
#define START_MAX  4096 /* PATH_MAX: behind a longer one there is nothing to find */
#define TRIES_MAX                                                                                  \
    8192 /* looks that are compared with those before; a line of commands is a caller's */
#define UNKNOWN_LOADS "a program that is not known: which files it reads is not known either"
#define START_LOADS   "what its start files read and run in turn"
#define MODULE_LOADS  "the module, which Python looks for in this directory first, and its imports"

struct places {
    const char *list[PLACES_MAX]; /* borrowed from words, or from owned */
    size_t n;
    char *owned[PLACES_MAX];
    size_t n_owned;
    const char *files[PLACES_MAX]; /* that options name */
    size_t n_files;
    const char *last; /* the directory that an option named */
    bool hidden;      /* one is not known */
};

/* --- rows */

static const struct shell_convention *find_row(const char *name)
{
    for (size_t i = 0; i < shell_convention_count; i++)
        if (shell_in_list(shell_convention_rows[i].names, name, strlen(name)))
            return &shell_convention_rows[i];
    return NULL;
}

const struct shell_convention *shell_convention_find(const char *name)
{
    char plain[64];
    const struct shell_convention *row = find_row(name);
    shell_plain_name(name, plain, sizeof(plain));
    return row ? row : find_row(plain);
}

static bool table_has(const struct shell_table *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (shell_in_list(t->rows[i].names, name, strlen(name)))
            return true;
    return false;
}

bool shell_convention_is_quiet(const char *name)
{
    char plain[64];
    shell_plain_name(name, plain, sizeof(plain));
    return shell_in_list(shell_convention_quiet, name, strlen(name)) ||
           shell_in_list(shell_convention_quiet, plain, strlen(plain)) ||
           table_has(&shell_table_basic, name) || table_has(&shell_table_text, name);
}

/* --- what is found */

static char *join_path(const char *base, const char *path)
{
    if (!*base || *path == '/')
        return xstrdup(path);
    return *path ? xasprintf("%s/%s", base, path) : xstrdup(base);
}

static uint64_t sum_text(uint64_t sum, const char *text)
{
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 1099511628211u;
    return (sum ^ 0xff) * 1099511628211u;
}

static uint64_t sum_look(const struct shell_look *l)
{
    uint64_t kinds = (uint64_t)l->above << 2 | (uint64_t)l->home << 1 | (uint64_t)l->only_inside;
    return sum_text(sum_text(14695981039346656037u ^ kinds, l->name), l->start);
}

static bool same_look(const struct shell_look *a, const struct shell_look *b)
{
    return a->sum == b->sum && a->above == b->above && a->home == b->home &&
           a->only_inside == b->only_inside && strcmp(a->name, b->name) == 0 &&
           strcmp(a->start, b->start) == 0;
}

/* Whether one more look may be tried. What there is no room for is never passed over in silence. */
static bool has_room(struct shell_conventions *c, size_t start_len, size_t name_len)
{
    size_t bytes = start_len + name_len;
    if (c->n_looks < SHELL_LOOKS_MAX && bytes < START_MAX && c->n_tries < TRIES_MAX &&
        c->n_bytes + bytes < SHELL_LOOKS_BYTES)
        return true;
    c->more = true;
    return false;
}

/* Takes what look points to. */
static void add_look(struct shell_conventions *c, struct shell_look look)
{
    bool known = false;
    look.sum = sum_look(&look);
    c->n_tries++;
    for (size_t i = 0; !known && i < c->n_looks; i++)
        known = same_look(&c->looks[i], &look);
    if (known) {
        free(look.program);
        free(look.start);
        free(look.name);
        return;
    }
    c->n_bytes += strlen(look.start) + strlen(look.name);
    c->looks = xrealloc(c->looks, (c->n_looks + 1) * sizeof(*c->looks));
    c->looks[c->n_looks++] = look;
}

/* One of a row's files. operand: start is a word that may be a directory. */
static void add_form(struct shell_conventions *c, const char *program, const char *start,
                     bool operand, const char *form, size_t len)
{
    bool marked = strchr("^~:", form[0]);
    if ((form[0] == ':' && !operand) || !has_room(c, strlen(start), len))
        return;
    if (form[0] == '/') {
        _cleanup_free_ char *path = xstrndup(form, len);
        char *slash = strrchr(path, '/');
        add_look(c, (struct shell_look){.program = xstrdup(program),
                                        .start = xstrndup(path, (size_t)(slash - path)),
                                        .name = xstrdup(slash + 1)});
        return;
    }
    add_look(c, (struct shell_look){.program = xstrdup(program),
                                    .start = xstrdup(form[0] == '~' ? "" : start),
                                    .name = xstrndup(form + marked, len - marked),
                                    .above = form[0] == '^',
                                    .home = form[0] == '~',
                                    .only_inside = form[0] == ':'});
}

static void add_forms(struct shell_conventions *c, const char *program, const char *start,
                      bool operand, const char *files)
{
    for (const char *p = files; *p;) {
        size_t n = strcspn(p, " ");
        add_form(c, program, start, operand, p, n);
        p += n + (p[n] == ' ');
    }
}

static void add_loads(struct shell_conventions *c, const char *program, const char *directory,
                      const char *what)
{
    if (c->n_loads == SHELL_LOADS_MAX) {
        c->more = true;
        return;
    }
    for (size_t i = 0; i < c->n_loads; i++) {
        const struct shell_loads *l = &c->loads[i];
        bool same = directory && l->directory ? strcmp(l->directory, directory) == 0
                                              : directory == l->directory;
        if (same && strcmp(l->program, program) == 0)
            return;
    }
    c->loads = xrealloc(c->loads, (c->n_loads + 1) * sizeof(*c->loads));
    c->loads[c->n_loads++] = (struct shell_loads){
        .program = xstrdup(program),
        .directory = directory ? xstrdup(directory) : NULL,
        .what = what,
    };
}

/* --- places that words name */

static void add_place(struct places *p, const char *dir)
{
    if (p->n < PLACES_MAX)
        p->list[p->n++] = dir;
    else
        p->hidden = true;
}

/* The part of a word before an end, as a place of its own. */
static const char *own_part(struct places *p, const char *text, size_t len)
{
    if (p->n_owned == PLACES_MAX) {
        p->hidden = true;
        return NULL;
    }
    return p->owned[p->n_owned++] = xstrndup(text, len);
}

static void take_value(struct places *p, char kind, const char *value)
{
    if (kind == '/') {
        add_place(p, value);
        p->last = value;
        return;
    }
    const char *slash = strrchr(value, '/');
    const char *dir = slash ? own_part(p, value, (size_t)(slash - value) + (slash == value)) : NULL;
    if (p->n_files < PLACES_MAX)
        p->files[p->n_files++] = value;
    else
        p->hidden = true;
    if (dir) {
        add_place(p, dir);
        p->last = dir;
    }
}

/* The value of an option in a word: glued to it, behind a '=', or "" for the next word. NULL when
 * it is another option. Short ones may stand in a bundle, long ones be abbreviated. */
static const char *option_value(const char *text, const char *option, size_t len)
{
    if (len == 2 && option[1] != '-') {
        const char *at = text[1] == '-' ? NULL : strchr(text + 1, option[1]);
        return !at ? NULL : at[1] == '=' ? at + 2 : at + 1;
    }
    size_t dashes = text[1] == '-' ? 2 : 1, own = option[1] == '-' ? 2 : 1;
    size_t n = strcspn(text + dashes, "=");
    if (n < 2 || n > len - own || memcmp(text + dashes, option + own, n) != 0)
        return NULL;
    return text[dashes + n] ? text + dashes + n + 1 : "";
}

static void take_option(struct places *p, const struct shell_command *c, size_t word,
                        const char *rows_places)
{
    for (const char *o = rows_places; *o;) {
        size_t n = strcspn(o, " ");
        const char *value = o[0] == '-' ? option_value(c->words[word].text, o, n - 1) : NULL;
        const struct shell_word *next = word + 1 < c->n_words ? &c->words[word + 1] : NULL;
        if (value && *value)
            take_value(p, o[n - 1], value);
        else if (value && next && next->unknown)
            p->hidden = true;
        else if (value && next && *next->text)
            take_value(p, o[n - 1], next->text);
        o += n + (o[n] == ' ');
    }
}

/* A test is in the file before its "::". */
static void take_operand(struct places *p, const char *text)
{
    const char *end = strstr(text, "::");
    const char *part = end ? own_part(p, text, (size_t)(end - text)) : text;
    if (part && *part)
        add_place(p, part);
}

static void find_places(struct places *p, const struct shell_command *c, size_t first,
                        const struct shell_convention *row, bool operands)
{
    bool all = row->places[0] && row->places[strlen(row->places) - 1] == '*';
    for (size_t i = first; i < c->n_words; i++) {
        const struct shell_word *w = &c->words[i];
        bool option = w->text[0] == '-' && w->text[1];
        if (w->unknown)
            p->hidden |= option || (all && operands);
        else if (option && !operands)
            take_option(p, c, i, row->places);
        else if (!option && operands && all)
            take_operand(p, w->text);
    }
}

static void places_done(struct places *p)
{
    for (size_t i = 0; i < p->n_owned; i++)
        free(p->owned[i]);
}

/* --- where a line goes */

struct starts {
    char *list[1 + 2 * SHELL_DIRECTORIES_MAX];
    size_t n;
};

/* Each directory that a line changes to, from where it starts and from the one before. */
static void find_starts(const struct shell *s, struct starts *ret)
{
    _cleanup_free_ char *here = xstrdup("");
    *ret = (struct starts){.list = {xstrdup("")}, .n = 1};
    for (size_t i = 0; i < s->n_directories && i < SHELL_DIRECTORIES_MAX; i++) {
        char *next = join_path(here, s->directories[i]);
        ret->list[ret->n++] = xstrdup(s->directories[i]);
        ret->list[ret->n++] = xstrdup(next);
        free(here);
        here = next;
    }
}

static void starts_done(struct starts *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->list[i]);
}

/* --- one command */

struct look_at {
    const struct shell *s;
    const struct starts *starts;
    struct shell_conventions *out;
    size_t index;
};

static const struct shell_command *command_of(const struct look_at *l)
{
    return &l->s->commands[l->index];
}

/* Where this one runs: what the line does before it is only known for the first. */
static const char *shown_directory(const struct look_at *l, const struct places *p)
{
    if (command_of(l)->moved || p->hidden || (l->index > 0 && l->s->n_directories > 0))
        return NULL;
    return p->last ? p->last : "";
}

static void add_at(const struct look_at *l, const char *program, const char *place, bool operand,
                   const char *files)
{
    for (size_t i = 0; i < l->starts->n; i++) {
        if (!has_room(l->out, strlen(l->starts->list[i]), strlen(place)))
            continue;
        _cleanup_free_ char *start = join_path(l->starts->list[i], place);
        add_forms(l->out, program, start, operand, files);
    }
}

static void add_named_file(const struct look_at *l, const char *program, const char *file)
{
    for (size_t i = 0; i < l->starts->n; i++)
        if (has_room(l->out, strlen(l->starts->list[i]), strlen(file)))
            add_look(l->out, (struct shell_look){.program = xstrdup(program),
                                                 .start = xstrdup(l->starts->list[i]),
                                                 .name = xstrdup(file)});
}

static void use_row(const struct look_at *l, const struct shell_convention *row,
                    const char *program, size_t first)
{
    struct places named = {0}, operands = {0};
    find_places(&named, command_of(l), first, row, false);
    find_places(&operands, command_of(l), first, row, true);
    add_at(l, program, "", false, row->files);
    for (size_t i = 0; i < named.n; i++)
        add_at(l, program, named.list[i], false, row->files);
    for (size_t i = 0; i < operands.n; i++)
        add_at(l, program, operands.list[i], true, row->files);
    for (size_t i = 0; i < named.n_files; i++)
        add_named_file(l, program, named.files[i]);
    named.hidden |= operands.hidden;
    l->out->more |= named.hidden && !row->loads;
    if (row->loads)
        add_loads(l->out, program, shown_directory(l, &named), row->loads);
    places_done(&named);
    places_done(&operands);
}

/* --- start files of shells */

static void use_start(const struct look_at *l, const struct shell_start_use *u, const char *program)
{
    bool files = (u->login && *u->row->login) || (u->interactive && *u->row->interactive);
    add_forms(l->out, program, "", false, u->row->always);
    if (u->login)
        add_forms(l->out, program, "", false, u->row->login);
    if (u->interactive)
        add_forms(l->out, program, "", false, u->row->interactive);
    if (u->rc_file)
        add_named_file(l, program, u->rc_file);
    if (files || u->rc_file)
        add_loads(l->out, program, NULL, START_LOADS);
}

/* --- python -m */

/* Behind "-m", which may be the last letter of several: the word of its value, and where in it. */
static const char *module_of(const struct shell_command *c, size_t *ret_word)
{
    for (size_t i = 1; i < c->n_words && c->words[i].text[0] == '-'; i++) {
        const char *letters = c->words[i].text + 1;
        size_t n = strspn(letters, "bBdEhiIOPqRsSuvVx");
        if (letters[n] != 'm') {
            i += letters[n] && strchr("WX", letters[n]) && !letters[n + 1];
            continue;
        }
        *ret_word = letters[n + 1] ? i : i + 1;
        if (letters[n + 1])
            return letters + n + 1;
        return i + 1 < c->n_words ? c->words[i + 1].text : NULL;
    }
    return NULL;
}

/* "a.b" is the file b in the directory a, or what a directory of that name starts with; a and b are
 * initialised before. */
static void use_module(const struct look_at *l, const char *module, size_t word)
{
    _cleanup_free_ char *path = xstrdup(module), *program = xasprintf("python -m %s", module);
    struct places none = {.hidden = command_of(l)->words[word].unknown};
    for (char *p = path; *p; p++)
        *p = *p == '.' ? '/' : *p;
    _cleanup_free_ char *top = xstrndup(path, strcspn(path, "/"));
    _cleanup_free_ char *files =
        xasprintf("%s.py %s/__main__.py %s/__init__.py %s/__init__.py", path, path, path, top);
    if (!none.hidden && !strchr(module, ' ') && *module && *module != '.')
        add_at(l, program, "", false, files);
    add_loads(l->out, program, shown_directory(l, &none), MODULE_LOADS);
    const struct shell_convention *row = shell_convention_find(module);
    if (row)
        use_row(l, row, module, word + 1);
}

/* A command in turn is listed by itself, and so is one of which nothing is known. */
static bool is_listed_otherwise(const struct look_at *l)
{
    const struct shell_command *c = command_of(l);
    return l->index > 0 || c->opaque || c->kind != SHELL_NAME_KNOWN;
}

static void look_at_command(const struct look_at *l)
{
    const struct shell_command *c = command_of(l);
    char plain[64];
    size_t word = 0;
    if (!c->name || c->words[0].unknown)
        return;
    const struct shell_convention *row = shell_convention_find(c->name);
    struct shell_start_use start;
    if (shell_start_find(l->s, c, &start))
        use_start(l, &start, c->name);
    shell_plain_name(c->name, plain, sizeof(plain));
    const char *module =
        shell_in_list("python pypy", plain, strlen(plain)) ? module_of(c, &word) : NULL;
    if (row)
        use_row(l, row, c->name, 1);
    else if (!shell_convention_is_quiet(c->name) && !is_listed_otherwise(l))
        add_loads(l->out, c->name, c->moved ? NULL : "", UNKNOWN_LOADS);
    if (module)
        use_module(l, module, word);
}

void shell_conventions_find(const struct shell *s, struct shell_conventions *ret)
{
    struct starts starts;
    *ret = (struct shell_conventions){0};
    find_starts(s, &starts);
    for (size_t i = 0; i < s->n_commands; i++) {
        struct look_at l = {.s = s, .starts = &starts, .out = ret, .index = i};
        look_at_command(&l);
    }
    starts_done(&starts);
}

void shell_conventions_done(struct shell_conventions *c)
{
    for (size_t i = 0; i < c->n_looks; i++) {
        free(c->looks[i].program);
        free(c->looks[i].start);
        free(c->looks[i].name);
    }
    for (size_t i = 0; i < c->n_loads; i++) {
        free(c->loads[i].program);
        free(c->loads[i].directory);
    }
    free(c->looks);
    free(c->loads);
    *c = (struct shell_conventions){0};
}
