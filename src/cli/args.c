/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/command.h"
#include "cli/nearest.h"

const struct command_option *option_find(const struct command_option *options, const char *name,
                                         size_t len)
{
    for (const struct command_option *o = options; o && o->name; o++)
        if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static void list_append(char ***list, char *item)
{
    size_t n = *list ? strv_length(*list) : 0;
    *list = xrealloc(*list, (n + 2) * sizeof(char *));
    (*list)[n] = item;
    (*list)[n + 1] = NULL;
}

static int complain_usage(const struct command *cmd, const char *problem, const char *what)
{
    fprintf(stderr, "sbx %s: %s '%s' (see 'sbx help %s')\n", cmd->name, problem, what, cmd->name);
    return -1;
}

/* Names the option that was probably meant, or all of them where none is near. */
static int complain_unknown(const struct command *cmd, const char *arg, size_t len)
{
    _cleanup_free_ char *name = xstrndup(arg + 1 + (arg[1] == '-'), len);
    struct nearest n = {.word = name};
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        nearest_add(&n, o->name);
    fprintf(stderr, "sbx %s: there is no option '%s'; ", cmd->name, arg);
    if (n.name)
        fprintf(stderr, "did you mean '-%s'?", n.name);
    else
        fprintf(stderr, cmd->options ? "there are" : "it takes none");
    for (const struct command_option *o = cmd->options; !n.name && o && o->name; o++)
        fprintf(stderr, "%s -%s", o == cmd->options ? "" : ",", o->name);
    fprintf(stderr, " (see 'sbx help %s')\n", cmd->name);
    return -1;
}

static int set_bool(const struct command *cmd, bool *member, const char *value)
{
    if (!value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
        *member = true;
    else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
        *member = false;
    else
        return complain_usage(cmd, "the option is true or false, not", value);
    return 0;
}

static int set_number(const struct command *cmd, long *member, const char *value)
{
    char *end;
    errno = 0;
    *member = strtol(value, &end, 10);
    if (errno || end == value || *end || *member < 0 || *member > INT32_MAX)
        return complain_usage(cmd, "not a number:", value);
    return 0;
}

/* One option, with its value in *next if it is not behind a '='. */
static int parse_option(char *arg, char ***next, struct args *a)
{
    char *name = arg + 1 + (arg[1] == '-');
    size_t len = strcspn(name, "=");
    char *value = name[len] ? name + len + 1 : NULL;
    if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0) {
        a->help = true;
        return 0;
    }
    const struct command_option *o = option_find(a->command->options, name, len);
    if (!o)
        return complain_unknown(a->command, arg, len);
    void *member = (char *)a + o->offset;
    if (o->kind == OPTION_BOOL)
        return set_bool(a->command, member, value);
    if (!value && !(value = **next))
        return complain_usage(a->command, "no value for", arg);
    if (value == **next)
        (*next)++;
    if (o->kind == OPTION_NUMBER)
        return set_number(a->command, member, value);
    if (o->kind == OPTION_LIST)
        list_append(member, value);
    else
        *(const char **)member = value;
    return 0;
}

static int check_complete(const struct args *a)
{
    const struct command *cmd = a->command;
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        if (o->required) {
            /* Empty is what a script has whose command before this one failed. */
            const char *value = *(char **)((char *)a + o->offset);
            if (value && *value)
                continue;
            fprintf(stderr, "sbx %s: the option -%s is %s (see 'sbx help %s')\n", cmd->name,
                    o->name, value ? "empty" : "missing", cmd->name);
            return -1;
        }
    if (a->n_rest < cmd->min_rest) {
        fprintf(stderr, "usage: sbx %s %s\n", cmd->name, cmd->usage);
        return -1;
    }
    if (cmd->max_rest >= 0 && a->n_rest > cmd->max_rest)
        return complain_usage(cmd, "unexpected argument", a->rest[cmd->max_rest]);
    return 0;
}

/* Options end at "--", and for a verb that runs a command at its first word: what follows belongs
 * to that command, also where it looks like an option of sbx. */
int args_parse(const struct command *cmd, char **argv, struct args *ret)
{
    struct args a = {.command = cmd};
    char **next = argv;
    while (*next && !a.help) {
        char *arg = *next;
        bool is_option = arg[0] == '-' && arg[1];
        if (is_option && strcmp(arg, "--") != 0) {
            next++;
            if (parse_option(arg, &next, &a) < 0)
                goto fail;
            continue;
        }
        if (is_option || cmd->rest_is_argv) {
            next += is_option; /* what follows belongs to the command that will run */
            break;
        }
        list_append(&a.rest, arg);
        next++;
    }
    while (*next && !a.help)
        list_append(&a.rest, *next++);
    a.n_rest = a.rest ? (int)strv_length(a.rest) : 0;
    if (!a.help && check_complete(&a) < 0)
        goto fail;
    *ret = a;
    return 0;
fail:
    args_done(&a);
    return -1;
}

void args_done(struct args *a)
{
    for (const struct command_option *o = a->command ? a->command->options : NULL; o && o->name;
         o++)
        if (o->kind == OPTION_LIST)
            free(*(char ***)((char *)a + o->offset));
    free(a->rest);
    *a = (struct args){0};
}
