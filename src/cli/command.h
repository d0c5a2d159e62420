/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of sbx. Each verb has a file (cmd-<verb>.c) that ends with its row: name, help,
 * options, number of arguments and function. A verb with sub-commands has a row for each of them
 * instead of a function. Parsing, help and the completions of shells come from these rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct args;
struct command_option;
struct sbx_error;
struct session;

enum command_group { GROUP_EVERYDAY, GROUP_SANDBOX, GROUP_HOST, _COMMAND_GROUP_MAX };

struct command {
    const char *name;               /* with the verb before it: "image ls"; NULL ends a table */
    const char *usage;              /* the arguments behind the options; NULL for none */
    const char *summary;            /* one sentence without its full stop */
    const char *details;            /* further sentences for 'help NAME'; NULL for none */
    enum command_group group;       /* of a verb */
    const struct command *commands; /* the sub-commands; NULL for none */
    const struct command_option *options; /* NULL for none */
    int min_rest;                         /* arguments behind the options */
    int max_rest;                         /* -1 means any number */
    bool rest_is_argv;                    /* the first argument ends the options */
    /* One of these two returns the exit code. The second gets a connection to the daemon, and may
     * return -1 with an error instead. */
    int (*run)(const struct args *a);
    int (*run_connected)(const struct args *a, struct session *s, struct sbx_error *err);
};

extern const struct command *const commands[]; /* the verbs, up to NULL */

const struct command *command_find(const char *name); /* a verb, or NULL */
const struct command *command_find_sub(const struct command *verb, const char *name); /* or NULL */
/* The name without the verb before it. */
const char *command_last_word(const struct command *cmd);
/* Says on stderr that there is no such verb, or sub-command of verb unless that is NULL, and which
 * name is near. Returns the exit code. */
int command_fail_unknown(const struct command *verb, const char *name);
int command_execute(const struct command *cmd, const struct args *a);

/* Help on everything, or on one command, to stdout. */
void help_print_all(void);
void help_print_command(const struct command *cmd);
