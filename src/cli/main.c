/* SPDX-License-Identifier: Apache-2.0 */
/* sbx: the command line of mas-sandboxd. This file finds the command; cmd-<verb>.c does it. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"

/* Output that could not be written is a failure, unless its reader just had enough. */
static int flush_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE)
        return EXIT_BROKEN_PIPE;
    fprintf(stderr, "sbx: standard output: %s\n", strerror(errno));
    return EXIT_SBX_FAILED;
}

static const char *resolve_alias(const char *name)
{
    if (strcmp(name, "-h") == 0 || strcmp(name, "-help") == 0 || strcmp(name, "--help") == 0)
        return "help";
    if (strcmp(name, "-version") == 0 || strcmp(name, "--version") == 0)
        return "version";
    return name;
}

/* Whether the next argument is the value of this option in one of the sub-commands. */
static bool takes_next(const struct command *verb, const char *arg)
{
    const char *name = arg + 1 + (arg[1] == '-');
    for (const struct command *c = verb->commands; c->name; c++) {
        const struct command_option *o = option_find(c->options, name, strlen(name));
        if (o)
            return o->kind != OPTION_BOOL;
    }
    return false;
}

/* Where the sub-command's name is: options may come before it. The end where there is none. */
static char **find_sub_name(const struct command *verb, char **argv)
{
    for (; *argv && (*argv)[0] == '-'; argv++)
        if (takes_next(verb, *argv) && argv[1])
            argv++;
    return argv;
}

static bool asks_for_help(char **argv, char *const *end)
{
    for (; argv < end; argv++)
        if (strcmp(resolve_alias(*argv), "help") == 0)
            return true;
    return false;
}

/* The sub-command that argv names, which is taken out of it. NULL with an exit code if there is
 * none to run. */
static const struct command *take_sub(const struct command *verb, char **argv, int *ret_code)
{
    char **name = find_sub_name(verb, argv);
    if (asks_for_help(argv, name)) {
        help_print_command(verb);
        *ret_code = 0;
        return NULL;
    }
    *ret_code = EXIT_USAGE;
    if (!*name) {
        fprintf(stderr, "sbx %s: a command is missing; there are", verb->name);
        for (const struct command *c = verb->commands; c->name; c++)
            fprintf(stderr, "%s %s", c == verb->commands ? "" : ",", command_last_word(c));
        fprintf(stderr, " (see 'sbx help %s')\n", verb->name);
        return NULL;
    }
    const struct command *sub = command_find_sub(verb, *name);
    if (!sub) {
        *ret_code = command_fail_unknown(verb, *name);
        return NULL;
    }
    for (; *name; name++)
        name[0] = name[1];
    *ret_code = 0;
    return sub;
}

static int run_command(const struct command *cmd, char **argv)
{
    struct args a;
    int code = 0;
    if (cmd->commands && !(cmd = take_sub(cmd, argv, &code)))
        return code;
    if (args_parse(cmd, argv, &a) < 0)
        return EXIT_USAGE;
    if (a.help)
        help_print_command(cmd);
    else
        code = command_execute(cmd, &a);
    args_done(&a);
    return code;
}

int main(int argc, char **argv)
{
    /* libarchive converts file names by locale; ours are bytes that are usually UTF-8. */
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        help_print_all();
        flush_output(0);
        return EXIT_USAGE;
    }
    const struct command *cmd = command_find(resolve_alias(argv[1]));
    return cmd ? flush_output(run_command(cmd, argv + 2)) : command_fail_unknown(NULL, argv[1]);
}
