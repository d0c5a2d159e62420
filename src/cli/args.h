/* SPDX-License-Identifier: Apache-2.0 */
/* Options and arguments of one command. Options are written Go style: one dash or two, "-id X" or
 * "-id=X", boolean ones alone or "=false"; names are never abbreviated, so that a new option cannot
 * change what an old script means. "--" ends them.
 *
 * Every command has a table of its options. A row names the member of struct args that takes the
 * value, and the member's type says how the value is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct command;

struct args {
    /* Texts are borrowed from argv, and NULL when not given. */
    const char *addr, *token, *ca_file;
    const char *id, *exec_id, *image, *runtime, *cwd, *cmd, *approval;
    const char *volume, *cache_mode, *cache_pvc_size, *cache_pvc_storage_class,
        *cache_pvc_access_mode;
    const char *roles, *expires, *state_dir, *key, *checkpoint;
    const char *tool, *line, *path, *write, *host, *policy, *out;
    const char *reason, *status, *session, *duration, *name, *format, *since, *type, *user, *root,
        *owner;
    /* Lists are NULL when not given; their strings are borrowed. */
    char **env, **allow_host, **deny_host, **limit, **accept_weaker, **file, **quota, **skip;
    long timeout; /* seconds; 0 when not given */
    long count;   /* 0 when not given */
    bool sync, stream, stream_raw, keep, follow, recursive, json, clean, show, strip, print, yes,
        undo;

    char **rest; /* the arguments that are no options, NULL-terminated */
    int n_rest;
    bool help;                     /* -h or -help was given; nothing else is checked then */
    const struct command *command; /* whose options these are */
};

enum option_kind { OPTION_TEXT, OPTION_LIST, OPTION_NUMBER, OPTION_BOOL };

struct command_option {
    const char *name; /* NULL ends a table */
    enum option_kind kind;
    size_t offset;     /* of the member of struct args */
    const char *value; /* what help calls the value; NULL for a boolean */
    const char *help;  /* a sentence */
    bool required;
};

#define OPTION_KIND(member)                                                                        \
    _Generic(((struct args *)0)->member, const char *: OPTION_TEXT, char **: OPTION_LIST,          \
             long: OPTION_NUMBER, bool: OPTION_BOOL)
#define OPTION(name, member, value, ...)                                                           \
    {                                                                                              \
        name, OPTION_KIND(member), offsetof(struct args, member), value, __VA_ARGS__               \
    }
#define OPTIONS(...) ((const struct command_option[]){__VA_ARGS__, {0}})

/* Rows that more than one command has. */
#define OPTIONS_CONNECTION                                                                         \
    OPTION("addr", addr, "ADDRESS",                                                                \
           "Use the daemon at http://HOST:PORT, https://HOST:PORT or unix:PATH."),                 \
        OPTION("token", token, "TOKEN",                                                            \
               "Send this bearer token. The default is $MAS_SANDBOX_TOKEN."),                      \
        OPTION("ca-file", ca_file, "FILE",                                                         \
               "Check the certificate of an https daemon with the authorities in this PEM file.")
#define OPTION_ID      OPTION("id", id, "ID", "The id of the sandbox.", true)
#define OPTION_EXEC_ID OPTION("exec-id", exec_id, "E", "The id of the exec.", true)
#define OPTION_JSON    OPTION("json", json, NULL, "Print JSON.")
#define OPTION_LIMIT                                                                               \
    OPTION("limit", limit, "NAME=N",                                                               \
           "Limit cpu_cores, memory_mb, disk_mb, max_processes or io_mb_per_s. May be repeated.")
#define OPTION_APPROVAL                                                                            \
    OPTION("approval", approval, "wait|return|ID",                                                 \
           "What to do if a person has to approve this first: wait for it, return with an error "  \
           "(the default of exec and cp), or use the approval with this ID.")
#define OPTION_STATE_DIR                                                                           \
    OPTION("state-dir", state_dir, "DIR",                                                          \
           "Work on the state directory of a daemon that is not running.")

/* Reads what follows the command's name. Says on stderr what is wrong and returns -1. */
int args_parse(const struct command *cmd, char **argv, struct args *ret);
void args_done(struct args *a);

/* The row with that name, which may be longer than len, or NULL. */
const struct command_option *option_find(const struct command_option *options, const char *name,
                                         size_t len);
