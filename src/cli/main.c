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

static const char *unaliased(const char *name)
{
    if (strcmp(name, "-h") == 0 || strcmp(name, "-help") == 0 || strcmp(name, "--help") == 0)
        return "help";
    if (strcmp(name, "-version") == 0 || strcmp(name, "--version") == 0)
        return "version";
    return name;
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
    const struct command *cmd = command_find(unaliased(argv[1]));
    if (!cmd) {
        fprintf(stderr, "sbx: no command '%s' (see 'sbx help')\n", argv[1]);
        return EXIT_USAGE;
    }
    struct args a;
    if (args_parse(cmd, argv + 2, &a) < 0)
        return EXIT_USAGE;
    int code = 0;
    if (a.help)
        help_print_command(cmd);
    else
        code = cmd->run(&a);
    args_done(&a);
    return flush_output(code);
}
