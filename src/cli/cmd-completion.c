/* SPDX-License-Identifier: Apache-2.0 */
/* sbx completion: scripts that complete sbx's commands and options in a shell, made from the same
 * rows as the help.
 *
 * All three work alike. They walk over the words before the cursor, skip options and their values,
 * and append each word to the command's name for as long as that names a command. Then they offer
 * the sub-commands and options of that command, or files where it has no sub-commands. Behind "--"
 * there are only files: what stands there belongs to the command that sbx runs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"

static void for_each_command(void (*emit)(const struct command *cmd))
{
    for (size_t i = 0; commands[i]; i++) {
        emit(commands[i]);
        for (const struct command *c = commands[i]->commands; c && c->name; c++)
            emit(c);
    }
}

/* Prints " 'text'". In single quotes all three shells leave everything alone but single quotes. */
static void print_quoted(const char *text)
{
    printf(" '");
    for (; *text; text++)
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    putchar('\'');
}

/* The same for a word, with what it means behind a colon unless that is NULL. */
static void print_word(const char *dash, const char *name, const char *meaning)
{
    _cleanup_free_ char *text =
        xasprintf("%s%s%s%s", dash, name, meaning ? ":" : "", meaning ? meaning : "");
    print_quoted(text);
}

/* Options that take a value, with their dash. A name means the same kind in all commands. */
static void emit_valued(const struct command *cmd)
{
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        if (o->kind != OPTION_BOOL)
            printf(" -%s", o->name);
}

/* --- bash and zsh: one function that knows the commands, and one that walks */

/* A list of words in one pair of quotes (bash), or an array of described ones (zsh). */
static void emit_case(const struct command *cmd, bool described)
{
    printf("        '%s')\n            subs=(", cmd->name);
    for (const struct command *c = cmd->commands; c && c->name; c++)
        print_word("", command_last_word(c), described ? c->summary : NULL);
    printf(" )\n            options=(");
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        print_word("-", o->name, described ? o->help : NULL);
    print_word("-", "help", described ? "Describe how this command is used." : NULL);
    printf(" ) ;;\n");
}

static void emit_bash_case(const struct command *cmd)
{
    emit_case(cmd, false);
}

static void emit_zsh_case(const struct command *cmd)
{
    emit_case(cmd, true);
}

/* The two functions, which need the array `before` and leave the arrays `subs` and `options`. */
static void print_walk(bool described)
{
    printf("_sbx_command() {\n    case $1 in\n        '')\n            subs=(");
    for (size_t i = 0; commands[i]; i++)
        print_word("", commands[i]->name, described ? commands[i]->summary : NULL);
    printf(" )\n            options=(");
    print_word("-", "help", described ? "List all commands." : NULL);
    printf(" ) ;;\n");
    for_each_command(described ? emit_zsh_case : emit_bash_case);
    printf("        *) return 1 ;;\n    esac\n}\n\n"
           "_sbx_walk() {\n"
           "    local word name= skip= valued='");
    for_each_command(emit_valued);
    printf(" '\n"
           "    _sbx_command ''\n"
           "    for word in \"${before[@]}\"; do\n"
           "        if [[ $skip ]]; then\n"
           "            skip=\n"
           "        elif [[ $word == -- ]]; then\n"
           "            subs=() options=()\n"
           "            return\n"
           "        elif [[ $word == -* ]]; then\n"
           "            word=${word/#--/-}\n"
           "            [[ $valued == *\" $word \"* ]] && skip=yes\n"
           "        elif [[ $name$word != help ]] && _sbx_command \"$name${name:+ }$word\"; then\n"
           "            name=$name${name:+ }$word\n"
           "        fi\n"
           "    done\n"
           "    [[ $skip ]] && subs=() options=()\n"
           "    return 0\n"
           "}\n\n");
}

static int completion_bash(const struct args *a)
{
    (void)a;
    printf("# Completions of sbx for bash, printed by 'sbx completion bash'.\n");
    print_walk(false);
    printf("_sbx() {\n"
           "    local subs options word=${COMP_WORDS[COMP_CWORD]}\n"
           "    local -a before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
           "    _sbx_walk\n"
           "    COMPREPLY=()\n"
           "    if [[ $word == --* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"${options[*]/#/-}\" -- \"$word\"))\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"${options[*]}\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -W \"${subs[*]}\" -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o default -F _sbx sbx\n");
    return 0;
}

static int completion_zsh(const struct args *a)
{
    (void)a;
    printf("#compdef sbx\n# Completions of sbx for zsh, printed by 'sbx completion zsh'.\n");
    print_walk(true);
    printf("_sbx() {\n"
           "    local -a subs options before\n"
           "    before=(\"${(@)words[2,CURRENT-1]}\")\n"
           "    _sbx_walk\n"
           "    if [[ ${words[CURRENT]} == -* && -n $options ]]; then\n"
           "        _describe -o option options\n"
           "    elif (( $#subs )); then\n"
           "        _describe command subs\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "if [[ $funcstack[1] == _sbx ]]; then\n"
           "    _sbx \"$@\"\n"
           "else\n"
           "    compdef _sbx sbx\n"
           "fi\n");
    return 0;
}

/* --- fish: a rule per word, with the condition that the walk ended at its command */

static void emit_fish_name(const struct command *cmd)
{
    print_quoted(cmd->name);
}

static void emit_fish_sub(const char *at, const struct command *cmd)
{
    printf("complete -c sbx -f -n \"__sbx_at '%s'\" -a %s -d", at, command_last_word(cmd));
    print_quoted(cmd->summary);
    putchar('\n');
}

static void emit_fish_rules(const struct command *cmd)
{
    if (!strchr(cmd->name, ' '))
        emit_fish_sub("", cmd);
    for (const struct command *c = cmd->commands; c && c->name; c++)
        emit_fish_sub(cmd->name, c);
    for (const struct command_option *o = cmd->options; o && o->name; o++) {
        printf("complete -c sbx -n \"__sbx_at '%s'\" -o %s%s -d", cmd->name, o->name,
               o->kind == OPTION_BOOL ? "" : " -r");
        print_quoted(o->help);
        putchar('\n');
    }
    printf("complete -c sbx -n \"__sbx_at '%s'\" -o help -d", cmd->name);
    print_quoted("Describe how this command is used.");
    putchar('\n');
}

static int completion_fish(const struct args *a)
{
    (void)a;
    printf("# Completions of sbx for fish, printed by 'sbx completion fish'.\n"
           "set -g __sbx_commands");
    for_each_command(emit_fish_name);
    printf("\nset -g __sbx_valued");
    for_each_command(emit_valued);
    printf("\n"
           "function __sbx_at\n"
           "    set -l name ''\n"
           "    set -l skip no\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        if test $skip = yes\n"
           "            set skip no\n"
           "        else if test \"$word\" = --\n"
           "            return 1\n"
           "        else if string match -q -- '-*' $word\n"
           "            contains -- (string replace -r -- '^--' '-' $word) $__sbx_valued\n"
           "            and set skip yes\n"
           "        else if test \"$name$word\" != help\n"
           "            and contains -- (string trim \"$name $word\") $__sbx_commands\n"
           "            set name (string trim \"$name $word\")\n"
           "        end\n"
           "    end\n"
           "    test \"$name\" = \"$argv[1]\"\n"
           "end\n");
    for_each_command(emit_fish_rules);
    return 0;
}

static const struct command completion_commands[] = {
    {.name = "completion bash", .summary = "Print the script for bash", .run = completion_bash},
    {.name = "completion zsh", .summary = "Print the script for zsh", .run = completion_zsh},
    {.name = "completion fish", .summary = "Print the script for fish", .run = completion_fish},
    {0}};

const struct command command_completion = {
    .name = "completion",
    .group = GROUP_HOST,
    .summary = "Print a script that completes commands and options of sbx in a shell",
    .details =
        "The packages install these scripts. Elsewhere 'source <(sbx completion bash)' loads "
        "the one for bash.",
    .commands = completion_commands,
};
