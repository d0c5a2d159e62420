/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/nearest.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

/* clang-format off */
/* In the order in which help lists them. */
#define EACH_VERB(verb)                                                                            \
    verb(run) verb(shell) verb(cp) verb(ls) verb(logs)                                             \
    verb(create) verb(exec) verb(status) verb(pause) verb(resume) verb(snapshot) verb(fork)       \
    verb(restore) verb(port_forward) verb(delete)                                                  \
    verb(exec_status) verb(exec_cancel) verb(net)                                                  \
    verb(validate) verb(image) verb(keys) verb(policy) verb(audit) verb(mcp) verb(hook)            \
    verb(approvals) verb(events) verb(doctor) verb(setup) verb(upgrade) verb(completion)           \
    verb(version) verb(help)
/* clang-format on */

#define DECLARE(verb) extern const struct command command_##verb;
#define ROW(verb)     &command_##verb,
EACH_VERB(DECLARE)
const struct command *const commands[] = {EACH_VERB(ROW) NULL};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *command_last_word(const struct command *cmd)
{
    const char *space = strrchr(cmd->name, ' ');
    return space ? space + 1 : cmd->name;
}

const struct command *command_find_sub(const struct command *verb, const char *name)
{
    for (const struct command *c = verb->commands; c && c->name; c++)
        if (strcmp(command_last_word(c), name) == 0)
            return c;
    return NULL;
}

int command_fail_unknown(const struct command *verb, const char *name)
{
    struct nearest n = {.word = name};
    for (size_t i = 0; !verb && commands[i]; i++)
        nearest_add(&n, commands[i]->name);
    for (const struct command *c = verb ? verb->commands : NULL; c && c->name; c++)
        nearest_add(&n, command_last_word(c));
    const char *space = verb ? " " : "", *prefix = verb ? verb->name : "";
    fprintf(stderr, "sbx%s%s: there is no command '%s'", space, prefix, name);
    if (n.name)
        fprintf(stderr, "; did you mean '%s'?", n.name);
    fprintf(stderr, " (see 'sbx help%s%s')\n", space, prefix);
    return EXIT_USAGE;
}

int command_execute(const struct command *cmd, const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    if (cmd->run)
        return cmd->run(a);
    int r = session_open(a, false, &s, &err) < 0 ? -1 : cmd->run_connected(a, &s, &err);
    return r < 0 ? cli_fail(&err) : r;
}
