/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of options cannot say of a program: whether code in its own language (awk, sed) does
 * more than print, which modules and variables run something. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/options.h"

void shell_plain_name(const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    while (n > 1 && (isdigit((unsigned char)name[n - 1]) || name[n - 1] == '.'))
        n--;
    if (n > 1 && name[n - 1] == '-')
        n--;
    n = n < size ? n : size - 1;
    memcpy(out, name, n);
    out[n] = 0;
}

/* --- awk and sed: the program is read for what starts others */

/* '>' and '|' send what is printed elsewhere; before a print they only compare. ARGV and ARGC say
 * which files are read. */
static bool awk_runs_others(const char *program)
{
    static const char *const words[] = {"system", "getline", "@", "|&", "ARGV", "ARGC", "SYMTAB"};
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strstr(program, words[i]))
            return true;
    for (const char *p = strstr(program, "print"); p && *p; p++) {
        if (p[0] == '|' && p[1] == '|')
            p++;
        else if (*p == '>' || *p == '|')
            return true;
    }
    return false;
}

/* From behind the 's' to behind its flags; NULL when it may write or run. */
static const char *skip_substitution(const char *s)
{
    char d = *s;
    int parts = 0;
    if (!d || isalnum((unsigned char)d) || d == '\\' || d == '\n')
        return NULL;
    for (s++; *s && parts < 2; s++) {
        if (*s == '\n')
            return NULL;
        if (*s == '\\' && s[1])
            s++;
        else
            parts += *s == d;
    }
    return parts == 2 ? s + strspn(s, "gpiI0123456789") : NULL;
}

/* Behind "12", "$", "/text/", two of them with ',' between, and '!'; NULL when one has no end. */
static const char *skip_addresses(const char *s)
{
    for (;;) {
        s += strspn(s, "0123456789,$! ");
        if (*s != '/')
            return s;
        for (s++; *s && *s != '/'; s++)
            if (*s == '\n' || (*s == '\\' && !*++s))
                return NULL;
        if (!*s++)
            return NULL;
    }
}

/* s/a/b/ with harmless flags, or an address and one of p d q =, with ';' between them. */
static bool sed_is_plain(const char *s)
{
    while (s && (s = skip_addresses(s))) {
        if (*s == 's')
            s = skip_substitution(s + 1);
        else if (*s && strchr("pdq=", *s))
            s++;
        else
            return false;
        if (s && !s[strspn(s, " ")])
            return true;
        s = s ? s + strspn(s, " ") : NULL;
        s = s && *s == ';' ? s + 1 : NULL;
    }
    return false;
}

void shell_look_at_code(struct shell_command *c, const struct shell_item *item)
{
    char plain[64];
    shell_plain_name(c->name, plain, sizeof(plain));
    bool sed = strcmp(plain, "sed") == 0 || strcmp(plain, "gsed") == 0;
    if (!item->value || c->words[item->value_word].unknown)
        shell_mark(c, "its program is not known", SHELL_NOT_NAMED);
    else if (sed ? !sed_is_plain(item->value) : awk_runs_others(item->value))
        shell_mark(c, sed ? "its sed script may write or run" : "its awk program may run others",
                   item->word);
}

/* --- modules of Python */

bool shell_look_at_module(struct shell_build *b, size_t index, const struct shell_item *item)
{
    static const char known[] = "pytest unittest doctest json.tool mypy black ruff flake8 pylint "
                                "isort venv compileall py_compile";
    if (!shell_in_list(known, item->value, strlen(item->value)))
        return false;
    /* A copy, because the walk may mark the command by what comes behind the module. */
    _cleanup_free_ char *name = xstrdup(item->value);
    shell_walk_row(b, index, name, item->value_word + 1);
    return true;
}

/* --- NAME=VALUE: variables of make, definitions of cmake, options of meson */

/* Nothing in it that make or a shell would expand, split or run. */
static bool is_plain_value(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_./,:+@%=-", *s))
            return false;
    return true;
}

static bool ends_with(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(name + len - n, end, n) == 0;
}

/* Compilers by their names are what such a variable is for. */
static bool is_compiler(const char *value)
{
    char plain[64];
    static const char names[] = "cc gcc g++ c++ clang clang++ ccache sccache";
    shell_plain_name(value, plain, sizeof(plain));
    return shell_in_list(names, plain, strlen(plain));
}

static bool flags_are_known(const char *value)
{
    const struct shell_program *p = shell_find_program("gcc");
    bool known = true;
    for (const char *s = value; known && *s;) {
        s += strspn(s, " ");
        size_t n = strcspn(s, " ");
        _cleanup_free_ char *text = xstrndup(s, n);
        struct shell_word words[2] = {{.text = (char *)"gcc"}, {.text = text}};
        struct shell_command one = {.words = words, .n_words = 2};
        struct shell_walk w = shell_walk_start(&one, p, 1);
        struct shell_item item;
        known = n == 0 || (is_plain_value(text) && shell_walk_next(&w, &item) &&
                           item.kind == ITEM_OPTION && !item.meaning);
        s += n;
    }
    return known;
}

static bool make_variable_runs(const char *text, size_t len, const char *value)
{
    static const char tools[] = "AR AS CC CXX CPP FC LD LEX YACC RM INSTALL MAKE SHELL PYTHON PERL "
                                "NODE SH BASH RUN EXEC CMD COMMAND WRAPPER LAUNCHER PREFIX_CMD";
    if (!isalnum((unsigned char)text[len - 1]) && text[len - 1] != '_')
        return true; /* != runs its value, := and += are rare */
    if (ends_with(text, len, "FLAGS") && text[0] != 'M' && text[0] != '.')
        return !flags_are_known(value);
    if (shell_in_list("CC CXX LD", text, len))
        return !is_compiler(value);
    return !is_plain_value(value) || shell_in_list(tools, text, len) || text[0] == '.' ||
           shell_env_is_harmful(text, len);
}

static bool cmake_definition_runs(const char *text, size_t len, const char *value)
{
    static const char harmless[] =
        "CMAKE_BUILD_TYPE CMAKE_INSTALL_PREFIX CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_CXX_STANDARD "
        "CMAKE_C_STANDARD CMAKE_VERBOSE_MAKEFILE CMAKE_POSITION_INDEPENDENT_CODE CMAKE_PREFIX_PATH";
    static const char compilers[] = "CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_C_COMPILER_LAUNCHER "
                                    "CMAKE_CXX_COMPILER_LAUNCHER";
    size_t n = 0; /* without ":TYPE" */
    while (n < len && text[n] != ':')
        n++;
    if (shell_in_list(compilers, text, n))
        return !is_compiler(value);
    if (n > 6 && memcmp(text, "CMAKE_", 6) == 0 && ends_with(text, n, "_FLAGS"))
        return !flags_are_known(value);
    if (n > 6 && memcmp(text, "CMAKE_", 6) == 0 && !shell_in_list(harmless, text, n))
        return true;
    return !is_plain_value(value) || ends_with(text, n, "EXECUTABLE") || ends_with(text, n, "_DIR");
}

static bool meson_option_runs(const char *text, size_t len, const char *value)
{
    if (ends_with(text, len, "args"))
        return !flags_are_known(value);
    return !is_plain_value(value) || ends_with(text, len, "path") || ends_with(text, len, "file");
}

/* --- targets that install */

/* Where make has been given places for what it installs, these are what is written. False: there is
 * none, or one is empty. Only operands count: "-W DESTDIR=x" is no place. */
static bool add_install_places(struct shell_build *b, size_t index, const struct shell_program *p,
                               const char *names)
{
    struct shell_walk w = shell_walk_start(&b->out->commands[index], p, 1);
    struct shell_item item;
    bool found = false;
    while (shell_walk_next(&w, &item)) {
        size_t len = item.kind == ITEM_OPERAND ? strcspn(item.value, "=") : 0;
        if (!len || !item.value[len] || !shell_in_list(names, item.value, len))
            continue;
        struct shell_item place = {
            .kind = ITEM_OPTION, .value = item.value + len + 1, .meaning = '>'};
        if (!*place.value)
            return false;
        shell_add_file(b, index, p, &place);
        found = true;
    }
    return found;
}

/* "install", or what may become it. */
static bool is_install_target(const char *text)
{
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    size_t n = strcspn(text, holes);
    bool open = text[n] && (strncmp("install", text, n) == 0 || strncmp("uninstall", text, n) == 0);
    return !strchr(text, '=') && (open || strstr(text, "install"));
}

static void look_at_target(struct shell_build *b, size_t index, const struct shell_program *p,
                           const struct shell_item *item)
{
    struct shell_command *c = &b->out->commands[index];
    if (b->installs == index + 1 || !is_install_target(item->value))
        return;
    b->installs = index + 1; /* all words are looked at for the first target, and not for each */
    bool make = shell_in_list("make gmake", c->name, strlen(c->name));
    if (!make || !(add_install_places(b, index, p, "DESTDIR") ||
                   add_install_places(b, index, p, "PREFIX prefix")))
        shell_mark(c, "installs files, and where is not known", item->word);
}

/* --- modes of chmod */

#define MODE_READ  4
#define MODE_ENTER 1

/* What of read and execute a symbolic mode leaves the owner, who has both before it. -1: no mode.
 * What is copied from the group or from others is not known, and counts as nothing. */
static int mode_of_owner(const char *s)
{
    static const char bits[] = "xwr";
    int mode = 7;
    if (*s && strspn(s, "01234567") == strlen(s))
        return (int)(strtoul(s, NULL, 8) >> 6) & 7;
    for (;;) {
        size_t who = strspn(s, "ugoa");
        bool owner = !who || strcspn(s, "ua") < who;
        s += who;
        if (!*s || !strchr("+-=", *s))
            return -1;
        while (*s && strchr("+-=", *s)) {
            char how = *s++;
            int named = 0;
            for (; *s && strchr("rwxXstugo", *s); s++) {
                const char *bit = strchr(bits, *s == 'X' ? 'x' : *s);
                named |= bit ? 1 << (bit - bits) : *s == 'u' ? mode : 0;
            }
            if (owner)
                mode = how == '+' ? mode | named : how == '-' ? mode & ~named : named;
        }
        if (*s != ',')
            return *s ? -1 : mode;
        s++;
    }
}

static bool names_directory(const struct shell_command *c)
{
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        size_t n = strlen(t);
        if (n && (t[n - 1] == '/' || (t[n - 1] == '.' && (n == 1 || strchr("/.", t[n - 2])))))
            return true;
    }
    return false;
}

/* The owner of a directory must be able to read and to enter it. Whether an operand is one is not
 * known, unless it is written so; files that cannot be entered are the usual thing. */
static void look_at_mode(struct shell_command *c, const char *mode, size_t word)
{
    int left = mode_of_owner(mode);
    if (left >= 0 && (!(left & MODE_READ) || (!(left & MODE_ENTER) && names_directory(c))))
        shell_mark(c, "its owner cannot get at what it is about any more", word);
}

static void look_at_chmod(struct shell_command *c, const struct shell_item *item)
{
    bool unknown = item->nth == 1 && c->words[item->word].unknown;
    if (unknown || (item->kind == ITEM_OPTION && !item->letter && item->value)) /* --reference */
        shell_mark(c, "its mode is not known", item->word);
    if (item->kind == ITEM_OPTION && item->letter) { /* "-r" is a mode */
        char mode[3] = {'-', item->letter, 0};
        look_at_mode(c, mode, item->word);
    } else if (item->nth == 1) {
        look_at_mode(c, c->words[item->word].text, item->word);
    }
}

/* --- all of them */

static bool is_row(const struct shell_program *p, const char *name)
{
    return p == shell_find_program(name);
}

/* "@FILE" is replaced before anything else is read, also where it is the value of an option; and
 * pytest looks for its plugins in all words, whatever they are. */
void shell_look_at_raw_words(struct shell_command *c, const struct shell_program *p, size_t first)
{
    bool pytest = is_row(p, "pytest");
    for (size_t i = first; i < c->n_words; i++) {
        if ((p->flags & PROGRAM_FILES) && c->words[i].text[0] == '@')
            shell_mark(c, "further words come from a file", i);
        if (pytest && strncmp(c->words[i].text, "-p", 2) == 0)
            shell_mark(c, "loads a plugin", i);
    }
}

void shell_look_at_value(struct shell_build *b, size_t index, const struct shell_program *p,
                         const struct shell_item *item)
{
    struct shell_command *c = &b->out->commands[index];
    bool make = is_row(p, "make");
    if (item->kind == ITEM_OPERAND && (make || is_row(p, "ninja") || is_row(p, "meson.compile")))
        look_at_target(b, index, p, item);
    if (is_row(p, "chmod"))
        look_at_chmod(c, item);
    /* "declare -i", and "let", whose operands are nothing else */
    b->evaluates |= (is_row(p, "declare") && item->letter == 'i') || strcmp(c->name, "let") == 0;
    if (is_row(p, "set") && item->letter == 'o' && item->value && !shell_is_plain_mode(item->value))
        shell_mark(c, "a mode that may change what commands mean", item->value_word);
    if (item->kind == ITEM_OPERAND && strcmp(c->name, "git") == 0) {
        /* "ext::sh -c x" and "name::address" start a helper of that name. */
        size_t n = 0;
        while (isalnum((unsigned char)item->value[n]))
            n++;
        if (n && strncmp(item->value + n, "::", 2) == 0)
            shell_mark(c, "a remote that is a program", item->word);
    }
    bool defines = item->letter == 'D' && shell_in_list("cmake meson", c->name, strlen(c->name));
    if (!item->value || !(make ? item->kind == ITEM_OPERAND : defines))
        return;
    size_t len = strcspn(item->value, "=");
    const char *value = item->value[len] ? item->value + len + 1 : "";
    bool (*runs)(const char *, size_t, const char *) = make              ? make_variable_runs
                                                       : *c->name == 'c' ? cmake_definition_runs
                                                                         : meson_option_runs;
    if (len && item->value[len] && runs(item->value, len, value))
        shell_mark(c, "a variable that may name a program or hold code", item->value_word);
}

/* --- programs with a row, and all others */

/* Of a compiler for another machine ("aarch64-linux-gnu-gcc") the last part is what it is. */
static const char *compiler_of(const char *plain)
{
    const char *dash = strrchr(plain, '-');
    static const char names[] = "gcc g++ cc c++ clang clang++ cpp gfortran";
    return dash && shell_in_list(names, dash + 1, strlen(dash + 1)) ? "gcc" : plain;
}

/* The dynamic loader: "ld.so", "ld-linux-x86-64.so.2", "ld-musl-aarch64.so.1". */
static bool is_loader(const char *plain)
{
    return strncmp(plain, "ld", 2) == 0 && (plain[2] == '-' || plain[2] == '.') &&
           ends_with(plain, strlen(plain), ".so");
}

bool shell_is_foreign(const char *name)
{
    char plain[64];
    shell_plain_name(name, plain, sizeof(plain));
    return !is_loader(plain) && !shell_knows_program(name) &&
           !shell_knows_program(compiler_of(plain));
}

/* A program in no table that gets "sh -c TEXT" among its words most likely runs it. */
static void look_for_shell(struct shell_build *b, size_t index)
{
    static const char shells[] = "sh bash dash zsh ksh ash mksh fish";
    const struct shell_command *c = &b->out->commands[index];
    for (size_t i = 1; i + 1 < c->n_words; i++) {
        const char *slash = strrchr(c->words[i].text, '/');
        const char *name = slash ? slash + 1 : c->words[i].text;
        if (c->words[i + 1].text[0] == '-' && shell_in_list(shells, name, strlen(name))) {
            shell_add_inner(b, index, i);
            return;
        }
    }
}

void shell_look_at_program(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    char plain[64];
    shell_plain_name(c->name, plain, sizeof(plain));
    const char *name = is_loader(plain)              ? "ld.so"
                       : shell_find_program(c->name) ? c->name
                                                     : compiler_of(plain);
    _cleanup_free_ char *copy = xstrdup(name); /* the list may move */
    if (strcmp(copy, "find") == 0)
        return; /* its expression has commands in the middle */
    const struct shell_program *row = shell_find_program(copy);
    if (row && (row->flags & PROGRAM_INERT))
        return;
    if (row) {
        shell_walk_row(b, index, copy, 1);
    } else {
        for (size_t i = 1; i < c->n_words; i++)
            if (strncmp(c->words[i].text, "-C", 2) == 0 ||
                strncmp(c->words[i].text, "--directory", 8) == 0 ||
                strncmp(c->words[i].text, "--chdir", 6) == 0)
                c->moved = true;
        if (shell_is_foreign(copy))
            look_for_shell(b, index);
    }
}
