/* SPDX-License-Identifier: Apache-2.0 */
/* Every option of every row, in each form that its program takes: alone, in bundles, abbreviated,
 * with its value glued to it or behind it, and behind values that look like options. What the row
 * says of it must be seen in all of them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "shell/options.h"
#include "shell/shell.h"
#include "tests/unit/tap.h"

static const struct shell_program *row;
static char base[64]; /* "git rebase" */
static size_t forms, wrong;

static bool is_single(void)
{
    return row->flags & (PROGRAM_SINGLE | PROGRAM_PREFIX);
}

/* The words of the row's first name, and what has to come before its options. */
static void set_base(const char *names)
{
    size_t n = strcspn(names, " ");
    snprintf(base, sizeof(base), "%.*s", (int)n, names);
    if (strcmp(base, "ld.so") == 0 || strncmp(base, "ld.", 3) == 0 || strcmp(base, ".") == 0 ||
        strcmp(base, "py.test") == 0)
        return;
    for (char *p = base; *p; p++)
        *p = *p == '.' ? ' ' : *p;
}

/* As an argv, so that no word is one of the shell's own. */
static const struct shell_command *parse(struct shell *s, const char *tail)
{
    _cleanup_free_ char *line = xasprintf("%s %s", base, tail);
    char *argv[16] = {NULL}, *rest = NULL;
    size_t n = 0;
    for (char *w = strtok_r(line, " ", &rest); w && n < 15; w = strtok_r(NULL, " ", &rest))
        argv[n++] = w;
    shell_parse_argv(argv, s);
    return &s->commands[0];
}

static bool names_file(const struct shell_command *c, const char *path, bool write)
{
    for (size_t i = 0; i < c->n_redirects; i++)
        if (c->redirects[i].write == write && strcmp(c->redirects[i].target.text, path) == 0)
            return true;
    return false;
}

static bool runs_inner(const struct shell *s, const char *name)
{
    for (size_t i = 1; i < s->n_commands; i++)
        if (s->commands[i].name && strcmp(s->commands[i].name, name) == 0)
            return true;
    return false;
}

static void complain(const char *tail, const char *what, const struct shell_command *c)
{
    if (wrong++ < 40)
        printf("# %s %s: %s (%s)\n", base, tail, what, c && c->opaque ? c->opaque : "known");
}

/* One form of an option of that meaning, whose value is "vv" if it has one. */
static void check_form(char meaning, const char *tail)
{
    struct shell s;
    const struct shell_command *c = parse(&s, tail);
    forms++;
    if ((meaning == '!' || meaning == '~') && !c->opaque)
        complain(tail, "runs others, and that is not seen", c);
    if (meaning == '%' && !c->opaque)
        complain(tail, "runs a module, and that is not seen", c);
    if ((meaning == '|' || meaning == '@' || meaning == '=') && !c->opaque)
        complain(tail, "installs, sets or passes on what it should not, and that is not seen", c);
    if (meaning == '<' && !names_file(c, "vv", false))
        complain(tail, "reads a file, and that is not seen", c);
    if (meaning == '>' && !names_file(c, "vv", true))
        complain(tail, "writes a file, and that is not seen", c);
    if ((meaning == '&' || (meaning == '~' && strstr(tail, "vv"))) && !runs_inner(&s, "vv"))
        complain(tail, "runs a command, and that is not seen", c);
    shell_done(&s);
}

static void check_forms(char meaning, const char *before, const char *option, char values)
{
    char tail[256];
    const char *formats[] = {"%s%s", "%s%s vv", "%s%svv", "%s%s=vv"};
    const char *variables[] = {"%s%s", "%s%s PATH", "%s%sPATH", "%s%s=PATH"};
    const char *passed[] = {"%s%s", "%s%s --eval=x", "%s%s--eval=x", "%s%s=--eval=x"};
    bool is_long = option[1] == '-' || (row->flags & PROGRAM_SINGLE);
    for (size_t i = 0; i < ELEMENTS(formats); i++) {
        bool glued = i >= 2, fits = i == 0   ? !values && meaning != '&'
                                    : i == 1 ? values == ':' || meaning == '&'
                                    : i == 2 ? (values == ':' || values == '?') && !is_long
                                             : (values == ':' || values == '?') && is_long;
        if (!fits || (glued && strcmp(base, "find") == 0))
            continue;
        snprintf(tail, sizeof(tail),
                 meaning == '@'   ? variables[i]
                 : meaning == '=' ? passed[i]
                                  : formats[i],
                 before, option);
        check_form(meaning, tail);
    }
}

/* --- what may stand before an option */

/* A letter without a value and without a meaning, to bundle with; 0: the row has none. */
static char plain_letter(size_t nth)
{
    struct shell_option o;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        for (size_t i = 1; o.name[1] != '-' && !o.values && !o.meaning && i < o.len; i++)
            if (nth-- == 0)
                return o.name[i];
    return 0;
}

/* A letter whose value is only data; 0: the row has none. */
static char value_letter(void)
{
    struct shell_option o;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        if (o.name[1] != '-' && o.values == ':' && !o.meaning)
            return o.name[1];
    return 0;
}

static void check_letter(char letter, const struct shell_option *o)
{
    char option[16], before[32], value = value_letter();
    for (size_t n = 0; n <= 3; n++) {
        char plain = n ? plain_letter(n - 1) : 0;
        if (n && !plain)
            break;
        if (plain)
            snprintf(option, sizeof(option), "-%c%c", plain, letter);
        else
            snprintf(option, sizeof(option), "-%c", letter);
        check_forms(o->meaning, "", option, o->values);
        if (!value)
            continue;
        /* Values that hold the letters of other options. */
        snprintf(before, sizeof(before), "-%cmcx ", value);
        check_forms(o->meaning, before, option, o->values);
        snprintf(before, sizeof(before), "-%c -z ", value);
        check_forms(o->meaning, before, option, o->values);
    }
}

static bool is_exact(const char *name, size_t len)
{
    struct shell_option o;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        if (o.len == len && memcmp(o.name, name, len) == 0)
            return true;
    return len == 6 && memcmp(name, "--help", 6) == 0;
}

/* Does any other option start so? Then a program would refuse it, or mean the other one. */
static bool is_unique(const struct shell_option *mine, size_t len)
{
    struct shell_option o;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        if (o.name != mine->name && o.len >= len && memcmp(o.name, mine->name, len) == 0)
            return false;
    return !is_exact(mine->name, len) || len == mine->len;
}

static void check_long(const struct shell_option *o)
{
    char option[64];
    size_t least = row->flags & PROGRAM_SINGLE ? o->len : 3;
    for (size_t len = o->len; len >= least; len--) {
        if (len < o->len && !is_unique(o, len))
            continue;
        snprintf(option, sizeof(option), "%.*s", (int)len, o->name);
        check_forms(o->meaning, "", option, o->values);
        if ((is_single() || (row->flags & PROGRAM_ENDLESS)) && !(row->flags & PROGRAM_SCRIPT))
            /* "--" is no end */
            check_forms(o->meaning, "vv -- ", option, o->values);
        if (plain_letter(0) && !is_single()) {
            char before[8];
            snprintf(before, sizeof(before), "-%c ", plain_letter(0));
            check_forms(o->meaning, before, option, o->values);
        }
    }
}

/* --- what is plain stays known, and what is in no row does not */

static void check_known(const struct shell_option *o, char letter)
{
    char tail[96];
    const char *end = row->flags & (PROGRAM_SCRIPT | PROGRAM_RUNS) ? " vv" : "";
    const char *value = o->values == ':' ? " vv" : o->values == '2' ? " a vv" : "";
    if (letter)
        snprintf(tail, sizeof(tail), "-%c%s%s", letter, value, end);
    else
        snprintf(tail, sizeof(tail), "%.*s%s%s", (int)o->len, o->name, value, end);
    struct shell s;
    const struct shell_command *c = parse(&s, tail);
    forms++;
    if (c->opaque && strstr(c->opaque, "option"))
        complain(tail, "is in the row, and not known", c);
    shell_done(&s);
}

static void check_unknown(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct shell_option o;
    char tail[64];
    check_form('!', "--frobnicate");
    check_form('!', "--frobnicate=x vv");
    for (const char *l = letters; *l && !is_single(); l++) {
        bool known = false;
        for (const char *p = row->options; (p = shell_option_parse(p, &o));)
            known |= o.name[1] != '-' && memchr(o.name + 1, *l, o.len - 1);
        if (known)
            continue;
        snprintf(tail, sizeof(tail), "-%c", *l);
        check_form('!', tail);
        if (plain_letter(0)) {
            snprintf(tail, sizeof(tail), "-%c%c", plain_letter(0), *l);
            check_form('!', tail);
        }
    }
}

/* A value that is not there: the program complains, and reading the line must not fail. */
static void check_missing_value(const struct shell_option *o)
{
    char tail[96];
    struct shell s;
    bool bundled = o->name[1] != '-' && !is_single();
    for (size_t i = 1; i < (bundled ? o->len : 2); i++) {
        if (bundled)
            snprintf(tail, sizeof(tail), "-%c", o->name[i]);
        else
            snprintf(tail, sizeof(tail), "%.*s", (int)o->len, o->name);
        parse(&s, tail);
        forms++;
        shell_done(&s);
    }
}

static void check_row(void)
{
    struct shell_option o;
    bool special = strcmp(base, "xargs") == 0 || strcmp(base, "busybox") == 0;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));) {
        bool seen = o.meaning && strchr("!~<>&%|@=", o.meaning);
        if (o.values)
            check_missing_value(&o);
        if (is_single() || o.name[1] == '-') {
            if (seen && o.values != '*' && !(row->flags & PROGRAM_PREFIX))
                check_long(&o);
            else if (!o.meaning && o.values != '*' && !(row->flags & PROGRAM_OPAQUE) && !special)
                check_known(&o, 0);
            continue;
        }
        for (size_t i = 1; i < o.len; i++)
            if (seen)
                check_letter(o.name[i], &o);
            else if (!o.meaning && !(row->flags & PROGRAM_OPAQUE) && !special)
                check_known(&o, o.name[i]);
    }
    if (!(row->flags & (PROGRAM_OPAQUE | PROGRAM_INERT)))
        check_unknown();
}

/* --- what is said of the row as a whole */

/* "--" and an option that one of the programs behind the row takes for more than a plain one. */
static void check_passed(void)
{
    char tail[128];
    for (const char *name = row->passes; name && *name;) {
        size_t n = strcspn(name, " ");
        _cleanup_free_ char *copy = xstrndup(name, n);
        const struct shell_program *q = shell_find_program(copy);
        struct shell_option o;
        for (const char *p = q->options; (p = shell_option_parse(p, &o));) {
            bool is_long = o.name[1] == '-' || (q->flags & (PROGRAM_SINGLE | PROGRAM_PREFIX));
            if (!o.meaning || o.meaning == '.')
                continue;
            for (size_t i = 1; i < (is_long ? 2 : o.len); i++) {
                const char *value = o.values ? " vv" : "";
                if (is_long)
                    snprintf(tail, sizeof(tail), "vv -- %.*s%s", (int)o.len, o.name, value);
                else
                    snprintf(tail, sizeof(tail), "vv -- -%c%s", o.name[i], value);
                check_form('!', tail);
            }
        }
        check_form('!', "vv -- --frobnicate");
        name += n + (name[n] == ' ');
    }
}

/* Names of variables among the operands, behind every option of the row. */
static void check_names_of_variables(void)
{
    struct shell_option o;
    char tail[64];
    check_form('@', "PATH");
    check_form('@', "PATH=x");
    check_form('@', "PATH+=x");
    check_form('@', "-- PATH");
    check_form('@', "vv PATH");
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        for (size_t i = 1; i < o.len; i++) {
            snprintf(tail, sizeof(tail), "-%c%s PATH", o.name[i], o.values ? " vv" : "");
            check_form('@', tail);
            snprintf(tail, sizeof(tail), "-%c%s -- vv PATH=x", o.name[i], o.values ? "vv" : "");
            check_form('@', tail);
        }
}

static void check_whole_row(void)
{
    check_passed();
    if (row->flags & PROGRAM_SETS)
        check_names_of_variables();
    if (row->flags & PROGRAM_INSTALLS)
        check_form('|', "vv");
    if (row->flags & PROGRAM_FILES) {
        check_form('!', "@vv");
        check_form('!', "vv -- @vv");
    }
    if ((row->flags & PROGRAM_RUNS) && !(row->flags & PROGRAM_OPAQUE)) {
        _cleanup_strbuf_ struct strbuf tail = STRBUF_INIT(256);
        for (size_t i = 0; i < row->operands; i++)
            strbuf_puts(&tail, "1 ");
        strbuf_puts(&tail, "vv x");
        check_form('&', tail.data);
    }
}

/* Compilers glue everything to everything. */
static void check_prefixes(void)
{
    static const char *const runs[] = {"@file",         "-fpass-plugin=x",
                                       "-Wl,-plugin,x", "-Wl,-z,now,-plugin,x",
                                       "-B.",           "-B .",
                                       "-specs=x",      "-wrapper sh",
                                       "-frobnicate",   "-Xlinker -plugin",
                                       "-Wa,-x",        "--frobnicate",
                                       "-- -fplugin=x", "a.c -- -B."};
    static const char *const plain[] = {"-O2",      "-Wall",      "-DX=y",    "-Iinclude", "-I x",
                                        "-std=c17", "-Wl,-z,now", "-fno-lto", "-lm",       "-g3"};
    row = shell_find_program("gcc");
    set_base("gcc");
    for (size_t i = 0; i < ELEMENTS(runs); i++)
        check_form('!', runs[i]);
    for (size_t i = 0; i < ELEMENTS(plain); i++) {
        struct shell s;
        const struct shell_command *c = parse(&s, plain[i]);
        forms++;
        if (c->opaque)
            complain(plain[i], "is plain, and not known", c);
        shell_done(&s);
    }
    check_form('>', "-ovv a.c");
    check_form('>', "a.c -o vv");
}

/* A letter that is twice in a row with different values: the second would never be found. */
static void check_letters(void)
{
    struct shell_option o, first;
    for (const char *p = row->options; (p = shell_option_parse(p, &o));)
        for (size_t i = 1; o.name[1] != '-' && !is_single() && i < o.len; i++)
            for (const char *q = row->options; (q = shell_option_parse(q, &first));) {
                if (first.name[1] == '-' || !memchr(first.name + 1, o.name[i], first.len - 1))
                    continue;
                if ((first.values != o.values || first.meaning != o.meaning) && wrong++ < 40)
                    printf("# %s -%c is in its row with and without a value\n", base, o.name[i]);
                break;
            }
}

/* Two rows of one name: the second would never be found. */
static void check_names(void)
{
    size_t twice = 0;
    for (const struct shell_table *const *t = shell_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++)
            for (const char *p = (*t)->rows[i].names; *p;) {
                size_t n = strcspn(p, " ");
                _cleanup_free_ char *name = xstrndup(p, n);
                if (shell_find_program(name) != &(*t)->rows[i] && ++twice)
                    printf("# %s has two rows\n", name);
                p += n + (p[n] == ' ');
            }
    ok(twice == 0, "each program has one row");
}

int main(void)
{
    size_t rows = 0;
    for (const struct shell_table *const *t = shell_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++, rows++) {
            row = &(*t)->rows[i];
            set_base(row->names);
            check_row();
            check_whole_row();
            check_letters();
        }
    check_prefixes();
    check_names();
    ok(rows > 150 && forms > 20000, "%zu forms of the options of %zu rows", forms, rows);
    ok(wrong == 0, "%zu of them are misread", wrong);
    return tap_done();
}
