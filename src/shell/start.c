/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a shell reads its start files: a login shell does, and so does an interactive one. "bash
 * -c TEXT" and "bash SCRIPT" do neither. Where the words do not decide it, it does. */
#include <string.h>

#include "base/alloc.h"
#include "shell/convention.h"
#include "shell/internal.h"
#include "shell/options.h"

static const struct shell_start *find_start_row(const char *name)
{
    char plain[64];
    shell_plain_name(name + (name[0] == '-'), plain, sizeof(plain));
    for (size_t i = 0; i < shell_start_count; i++)
        if (shell_in_list(shell_start_rows[i].names, plain, strlen(plain)))
            return &shell_start_rows[i];
    return NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "exec -l", "exec -a NAME" and "env --argv0=NAME" give a command another name for itself, which
 * begins with a dash for a login shell. */
static bool command_renames_shell(const struct shell_command *c, bool is_env)
{
    bool renames = false;
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        if (find_start_row(base_name(t)))
            return renames;
        renames |= t[0] == '-' && t[1] != '-' && strpbrk(t, is_env ? "a" : "la");
        renames |= is_env && strncmp(t, "--a", 3) == 0;
    }
    return false;
}

static bool line_renames_shell(const struct shell *s)
{
    for (size_t i = 0; i < s->n_commands; i++) {
        const struct shell_command *c = &s->commands[i];
        bool is_env = c->name && strcmp(c->name, "env") == 0;
        bool is_exec = c->name && strcmp(c->name, "exec") == 0;
        if ((is_env || is_exec) && command_renames_shell(c, is_env))
            return true;
    }
    return false;
}

struct start_words {
    bool text;    /* -c */
    bool typed;   /* -s: its input is run, which may be a terminal */
    size_t skips; /* words that are values of options */
};

static void read_start_letters(struct shell_start_use *u, const char *t, struct start_words *w)
{
    for (const char *p = t + 1; *p; p++) {
        w->skips += *p == 'o' || *p == 'O';
        if (*t == '+')
            continue;
        w->text |= *p == 'c';
        w->typed |= *p == 's';
        u->login |= *p == 'l';
        u->interactive |= *p == 'i' || *p == 'E'; /* ksh -E reads what an interactive one does */
    }
}

/* bash takes its long names with one dash as well. */
static void read_start_option(struct shell_start_use *u, const struct shell_command *c, size_t word,
                              struct start_words *w)
{
    static const char harmless[] = "noediting noprofile norc posix restricted verbose version help";
    const char *t = c->words[word].text, *name = t + 1 + (t[1] == '-');
    w->skips = 0;
    if (strcmp(name, "rcfile") == 0 || strcmp(name, "init-file") == 0) {
        u->interactive = true;
        u->rc_file = word + 1 < c->n_words ? c->words[word + 1].text : NULL;
        w->skips = 1;
    } else if (strcmp(name, "login") == 0) {
        u->login = true;
    } else if (t[1] != '-' && !shell_is_long_name(t)) {
        read_start_letters(u, t, w);
    } else if (!shell_in_list(harmless, name, strlen(name))) {
        u->login = u->interactive = true;
    }
}

static void read_start_words(struct shell_start_use *u, const struct shell_command *c)
{
    struct start_words w = {0};
    size_t i = 1;
    for (; i < c->n_words; i += 1 + w.skips) {
        const char *t = c->words[i].text;
        if (c->words[i].unknown) {
            u->login = u->interactive = true;
            return;
        }
        if ((t[0] != '-' && t[0] != '+') || !t[1] || strcmp(t, "--") == 0)
            break;
        read_start_option(u, c, i, &w);
    }
    if (i < c->n_words && (strcmp(c->words[i].text, "--") == 0 || !strcmp(c->words[i].text, "-")))
        i++;
    u->interactive |= w.typed || (!w.text && i >= c->n_words);
}

bool shell_start_find(const struct shell *s, const struct shell_command *c,
                      struct shell_start_use *ret)
{
    *ret = (struct shell_start_use){.row = find_start_row(c->name)};
    if (!ret->row)
        return false;
    ret->login = c->name[0] == '-' || line_renames_shell(s);
    read_start_words(ret, c);
    return true;
}
