/* The commands of sbx: one file a verb (cmd-<verb>.c), one row a verb in command.c. Help and flag
 * checks come from the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args;

enum command_group { GROUP_EVERYDAY, GROUP_SANDBOX, GROUP_HOST, _COMMAND_GROUP_MAX };

struct command {
    const char *name;
    enum command_group group;
    const char *usage;                /* what follows the name */
    const char *summary;              /* one line */
    const char *details;              /* for 'help NAME'; NULL for none */
    uint64_t flags;                   /* FLAG_BIT()s it takes */
    int min_rest;                     /* arguments behind the flags */
    int max_rest;                     /* -1: any number */
    bool rest_is_argv;                /* the first argument ends the flags */
    int (*run)(const struct args *a); /* returns the exit code */
};

extern const struct command commands[];
extern const size_t n_commands;

const struct command *command_find(const char *name); /* or NULL */

int cmd_audit(const struct args *a);
int cmd_approvals(const struct args *a);
int cmd_cp(const struct args *a);
int cmd_create(const struct args *a);
int cmd_delete(const struct args *a);
int cmd_pause(const struct args *a);
int cmd_upgrade(const struct args *a);
int cmd_resume(const struct args *a);
int cmd_doctor(const struct args *a);
int cmd_events(const struct args *a);
int cmd_exec(const struct args *a);
int cmd_exec_cancel(const struct args *a);
int cmd_exec_status(const struct args *a);
int cmd_help(const struct args *a);
int cmd_hook(const struct args *a);
int cmd_image(const struct args *a);
int cmd_keys(const struct args *a);
int cmd_logs(const struct args *a);
int cmd_ls(const struct args *a);
int cmd_policy(const struct args *a);
int cmd_mcp(const struct args *a);
int cmd_run(const struct args *a);
int cmd_shell(const struct args *a);
int cmd_status(const struct args *a);
int cmd_validate(const struct args *a);
int cmd_version(const struct args *a);

/* For main(): help on everything, or on one command, to stdout. */
void help_print_all(void);
void help_print_command(const struct command *cmd);
