/* SPDX-License-Identifier: Apache-2.0 */
/* Whether leave for how an argv begins can be leave for all of it. A session approval names the
 * first words; what comes behind them may only be arguments of the program that they name, never
 * another command, code, or what chooses between the things the program can do. */
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/options.h"

static bool names_program(const char *text, size_t len)
{
    _cleanup_free_ char *word = xstrndup(text, len);
    char plain[64];
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    if (slash && !shell_is_system_path(word))
        return false;
    shell_plain_name(name, plain, sizeof(plain));
    return *plain && (shell_knows_program(name) || shell_knows_program(plain));
}

/* The word, or what is behind its '=', is or starts with the name of a program that is known. */
static bool may_be_command(const char *text)
{
    const char *equals = strchr(text, '=');
    return names_program(text, strcspn(text, " \t\n;|&")) ||
           (equals && names_program(equals + 1, strcspn(equals + 1, " \t\n;|&")));
}

static const char *look_at_command(const struct shell_command *c, size_t n)
{
    if (c->opaque)
        return c->opaque;
    if (c->transparent)
        return "another command is behind it";
    if (c->chosen >= n)
        return "a later argument chooses what it does";
    for (size_t i = 0; i < c->n_redirects; i++)
        if (c->redirects[i].write && !c->redirects[i].inside)
            return "an option has it write a file";
    if (c->kind == SHELL_NAME_KNOWN && !shell_is_foreign(c->name))
        return NULL;
    /* Of a program that is in no table it is not known whether it runs its arguments. */
    for (size_t i = 1; i < c->n_words; i++)
        if (may_be_command(c->words[i].text))
            return "a later argument may be a command";
    return NULL;
}

const char *shell_hides_behind(char *const *argv, size_t n)
{
    struct shell s;
    if (n >= strv_length(argv))
        return NULL;
    shell_parse_argv(argv, &s);
    const char *why = s.n_commands == 1 && s.commands[0].n_words
                          ? look_at_command(&s.commands[0], n)
                          : "another command is behind it";
    shell_done(&s);
    return why;
}
