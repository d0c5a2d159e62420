/* SPDX-License-Identifier: Apache-2.0 */
/* sbx help: all of it comes from the rows of the commands and their options. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "libsbx/sbx.h"

#define LINE_COLUMNS   96
#define OPTION_COLUMNS 34

static const char *const group_titles[] = {
    [GROUP_EVERYDAY] = "Everyday",
    [GROUP_SANDBOX] = "Sandboxes",
    [GROUP_HOST] = "This host",
};
static_assert(ELEMENTS(group_titles) == _COMMAND_GROUP_MAX, "a title per group");

/* Prints words from column `indent` on, where the cursor is, in as many lines as they need. */
static void print_words(const char *text, size_t indent)
{
    size_t column = indent;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > indent && column + 1 + len > LINE_COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        }
        column += (size_t)printf("%s%.*s", column > indent ? " " : "", (int)len, text);
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

static void print_summary(const struct command *cmd)
{
    printf("  %-14s %s\n", command_last_word(cmd), cmd->summary);
}

void help_print_all(void)
{
    printf("Usage: sbx COMMAND [options] [arguments]\n");
    for (int g = 0; g < _COMMAND_GROUP_MAX; g++) {
        printf("\n%s%s%s\n", colour(COLOUR_BOLD), group_titles[g], colour(COLOUR_OFF));
        for (size_t i = 0; commands[i]; i++)
            if (commands[i]->group == (enum command_group)g)
                print_summary(commands[i]);
    }
    putchar('\n');
    print_words(
        "sbx talks to the daemon mas-sandboxd: to the one that -addr names, else to the one "
        "in $MAS_SANDBOX_URL, else to your own socket (of a daemon that was started with "
        "-listen unix:), else to " SBX_DEFAULT_ADDRESS " if root or you run the daemon "
        "there. 'sbx help COMMAND' describes a command, and sbx(1) the exit codes.",
        0);
}

void help_print_command(const struct command *cmd)
{
    printf("Usage: sbx %s%s", cmd->name, cmd->commands ? " COMMAND" : "");
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        if (o->required)
            printf(" -%s %s", o->name, o->value);
    printf("%s%s%s\n", cmd->commands || cmd->options ? " [options]" : "", cmd->usage ? " " : "",
           cmd->usage ? cmd->usage : "");
    printf("\n%s.\n", cmd->summary);
    if (cmd->details) {
        putchar('\n');
        print_words(cmd->details, 0);
    }
    if (cmd->commands)
        printf("\nCommands ('sbx help %s COMMAND' describes one):\n", cmd->name);
    for (const struct command *c = cmd->commands; c && c->name; c++)
        print_summary(c);
    if (cmd->options)
        printf("\nOptions (with one dash or two):\n");
    for (const struct command_option *o = cmd->options; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof(left), "-%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-*s ", OPTION_COLUMNS, left);
        print_words(o->help, OPTION_COLUMNS + 3);
    }
}

static int run_help(const struct args *a)
{
    const struct command *cmd = a->n_rest ? command_find(a->rest[0]) : NULL;
    if (!a->n_rest)
        help_print_all();
    else if (!cmd)
        return command_fail_unknown(NULL, a->rest[0]);
    else if (a->n_rest == 1)
        help_print_command(cmd);
    else if (!(cmd = command_find_sub(cmd, a->rest[1])))
        return command_fail_unknown(command_find(a->rest[0]), a->rest[1]);
    else
        help_print_command(cmd);
    return 0;
}

const struct command command_help = {
    .name = "help",
    .group = GROUP_HOST,
    .usage = "[COMMAND [SUBCOMMAND]]",
    .summary = "Describe how a command is used",
    .max_rest = 2,
    .run = run_help,
};
