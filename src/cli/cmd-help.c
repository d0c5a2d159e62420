/* sbx help: all of it comes from the command and flag tables. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "libsbx/sbx.h"

static const char *const group_titles[] = {
    [GROUP_EVERYDAY] = "Everyday",
    [GROUP_SANDBOX] = "Sandboxes",
    [GROUP_HOST] = "This host",
};
static_assert(ELEMENTS(group_titles) == _COMMAND_GROUP_MAX, "a title per group");

void help_print_all(void)
{
    printf("Usage: sbx COMMAND [flags] [arguments]\n");
    for (int g = 0; g < _COMMAND_GROUP_MAX; g++) {
        printf("\n%s%s%s\n", colour(COLOUR_BOLD), group_titles[g], colour(COLOUR_OFF));
        for (size_t i = 0; i < n_commands; i++)
            if (commands[i].group == (enum command_group)g)
                printf("  %-12s %s\n", commands[i].name, commands[i].summary);
    }
    printf("\nThe daemon is at -addr, else $MAS_SANDBOX_URL, else at your own socket (a daemon "
           "that was\n"
           "started with -listen unix:), else at " SBX_DEFAULT_ADDRESS " if root or you run it.\n"
           "'sbx help COMMAND' says more; exit codes are in sbx(1).\n");
}

static void print_flag(const struct flag_entry *f)
{
    char left[64];
    snprintf(left, sizeof(left), "-%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
    printf("  %-34s %s\n", left, f->help);
}

void help_print_command(const struct command *cmd)
{
    printf("Usage: sbx %s %s\n\n%c%s.\n", cmd->name, cmd->usage, cmd->summary[0] - 'a' + 'A',
           cmd->summary + 1);
    if (cmd->details)
        printf("\n%s\n", cmd->details);
    if (!cmd->flags)
        return;
    printf("\nFlags (one dash or two):\n");
    for (int f = 0; f < _FLAG_MAX; f++)
        if (cmd->flags & (UINT64_C(1) << f))
            print_flag(flag_find_entry((enum flag)f));
}

int cmd_help(const struct args *a)
{
    if (!a->n_rest) {
        help_print_all();
        return 0;
    }
    const struct command *cmd = command_find(a->rest[0]);
    if (!cmd) {
        fprintf(stderr, "sbx: no command '%s' (see 'sbx help')\n", a->rest[0]);
        return EXIT_USAGE;
    }
    help_print_command(cmd);
    return 0;
}
