/* SPDX-License-Identifier: Apache-2.0 */
/* The two sources that start a process: flags as Go programs take them (-name value, --name=value;
 * a bool needs no value) and SANDBOX_* variables. */
#include "config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define FLAG_NAME_MAX  64
#define ENV_PREFIX     "SANDBOX_"
#define ENV_MAP_PREFIX "ENV_" /* SANDBOX_ENV_NAME=value is an item of the key env */
#define ENV_CONFIG     "CONFIG"

/* What is not a setting. */
enum action {
    ACTION_CONFIG,
    ACTION_CHECK,
    ACTION_PRINT,
    ACTION_CLEAN,
    ACTION_HELP,
    ACTION_VERSION,
};

static const struct {
    const char *name;
    enum action action;
} actions[] = {
    {"config", ACTION_CONFIG},   {"check_config", ACTION_CHECK}, {"print_config", ACTION_PRINT},
    {"clean", ACTION_CLEAN},     {"help", ACTION_HELP},          {"h", ACTION_HELP},
    {"version", ACTION_VERSION},
};

/* One argument, taken apart. key and action: exactly one is found, or the flag is unknown. */
struct flag {
    char name[FLAG_NAME_MAX];
    const struct config_key *key;
    int action; /* -1: none */
    const char *value;
};

struct walk {
    int argc;
    char *const *argv;
    int at;
};

static void unknown_flag(const struct flag *f, struct config_problems *p)
{
    const char *near = config_suggest(f->name);
    for (size_t i = 0; !near && i < ELEMENTS(actions); i++)
        if (strncmp(actions[i].name, f->name, 4) == 0)
            near = actions[i].name;
    char spelled[FLAG_NAME_MAX], meant[FLAG_NAME_MAX];
    snprintf(spelled, sizeof(spelled), "%s", f->name);
    snprintf(meant, sizeof(meant), "%s", near ? near : "");
    for (char *s = spelled; *s; s++)
        *s = *s == '_' ? '-' : *s;
    for (char *s = meant; *s; s++)
        *s = *s == '_' ? '-' : *s;
    config_error(p, "unknown flag --%s%s%s%s", spelled, near ? "; did you mean --" : "", meant,
                 near ? "?" : "");
}

/* Splits argv[at] into name and attached value. False when it is not a flag. */
static bool split_flag(const char *arg, struct flag *f, struct config_problems *p)
{
    if (arg[0] != '-' || !arg[1]) {
        config_error(p, "unexpected argument '%s'", arg);
        return false;
    }
    arg += arg[1] == '-' ? 2 : 1;
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    if (len == 0 || len >= sizeof(f->name)) {
        config_error(p, "'%s' is not a flag", arg);
        return false;
    }
    memcpy(f->name, arg, len);
    f->name[len] = 0;
    for (char *s = f->name; *s; s++)
        *s = *s == '-' ? '_' : *s;
    f->value = equals ? equals + 1 : NULL;
    return true;
}

static bool takes_value(const struct flag *f)
{
    return f->action == ACTION_CONFIG || (f->action < 0 && f->key && f->key->type != CONFIG_BOOL);
}

/* The next flag; false at the end. Problems are noted and passed over. */
static bool next_flag(struct walk *w, struct flag *f, struct config_problems *p)
{
    while (w->at < w->argc && strcmp(w->argv[w->at], "--") != 0) {
        if (!split_flag(w->argv[w->at++], f, p))
            continue;
        f->key = NULL;
        f->action = -1;
        for (size_t i = 0; i < ELEMENTS(actions); i++)
            if (strcmp(actions[i].name, f->name) == 0)
                f->action = (int)actions[i].action;
        const struct config_key *key = config_key_find(f->name);
        if (key && !(key->flags & KEY_INTERNAL))
            f->key = key;
        if (f->action < 0 && !f->key) {
            unknown_flag(f, p);
            /* Its value, if it has one, is not another problem. */
            if (!f->value && w->at < w->argc && w->argv[w->at][0] != '-')
                w->at++;
            continue;
        }
        if (takes_value(f) && !f->value) {
            if (w->at >= w->argc) {
                config_error(p, "--%s needs a value", f->name);
                continue;
            }
            f->value = w->argv[w->at++];
        }
        return true;
    }
    if (w->at < w->argc - 1)
        config_error(p, "unexpected argument '%s'", w->argv[w->at + 1]);
    return false;
}

static void take_action(const struct flag *f, struct config_args *ret, struct config_problems *p)
{
    static const enum config_mode modes[] = {
        [ACTION_CHECK] = MODE_CHECK, [ACTION_PRINT] = MODE_PRINT,     [ACTION_CLEAN] = MODE_CLEAN,
        [ACTION_HELP] = MODE_HELP,   [ACTION_VERSION] = MODE_VERSION,
    };
    if (f->action == ACTION_CONFIG)
        ret->config_path = f->value;
    else if (f->value)
        config_error(p, "--%s takes no value", f->name);
    else
        ret->mode = modes[f->action];
}

void config_args_scan(int argc, char *const *argv, struct config_args *ret,
                      struct config_problems *p)
{
    *ret = (struct config_args){.mode = MODE_RUN};
    struct walk w = {argc, argv, 1};
    struct flag f;
    while (next_flag(&w, &f, p))
        if (f.action >= 0)
            take_action(&f, ret, p);
}

void config_load_args(struct config *c, int argc, char *const *argv, struct config_problems *p)
{
    struct config_problems seen; /* config_args_scan() has reported these */
    config_problems_init(&seen);
    struct walk w = {argc, argv, 1};
    struct flag f;
    while (next_flag(&w, &f, &seen)) {
        if (f.action >= 0)
            continue;
        char why[256];
        const char *value = f.value ? f.value : "true";
        if (config_value_set(c, f.key, ORIGIN_FLAG, value, why, sizeof(why)) < 0)
            config_error(p, "--%s: %s", f.name, why);
    }
    config_problems_done(&seen);
}

void config_args_hide(int argc, char *const *argv)
{
    struct config_problems seen;
    config_problems_init(&seen);
    struct walk w = {argc, argv, 1};
    struct flag f;
    while (next_flag(&w, &f, &seen))
        if (f.key && (f.key->flags & KEY_SECRET) && f.value)
            memset((char *)(uintptr_t)f.value, 'x', strlen(f.value));
    config_problems_done(&seen);
}

/* NAME of SANDBOX_NAME=value as a key's name. False when it cannot be one. */
static bool key_name(const char *variable, size_t len, char name[FLAG_NAME_MAX])
{
    if (len == 0 || len >= FLAG_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        name[i] = (char)tolower((unsigned char)variable[i]);
    name[len] = 0;
    return true;
}

/* Other programs have SANDBOX_ variables too: only what looks like a slip is an error. */
static void unknown_variable(const char *name, const char *variable, int len,
                             struct config_problems *p)
{
    const char *near = config_suggest(name);
    if (!near) {
        config_warn(p,
                    "the variable " ENV_PREFIX "%.*s is not a key of this program and is ignored",
                    len, variable);
        return;
    }
    char meant[FLAG_NAME_MAX];
    snprintf(meant, sizeof(meant), "%s", near);
    for (char *s = meant; *s; s++)
        *s = (char)toupper((unsigned char)*s);
    config_error(p, "unknown variable " ENV_PREFIX "%.*s; did you mean " ENV_PREFIX "%s?", len,
                 variable, meant);
}

static void load_variable(struct config *c, const char *variable, struct config_problems *p)
{
    char name[FLAG_NAME_MAX], why[256];
    const char *value = strchr(variable, '=');
    if (!value)
        return;
    size_t len = (size_t)(value - variable);
    value++;
    if (strncmp(variable, ENV_MAP_PREFIX, strlen(ENV_MAP_PREFIX)) == 0) {
        const char *item = variable + strlen(ENV_MAP_PREFIX);
        if (config_value_add(c, config_key_find("env"), ORIGIN_ENV, item, why, sizeof(why)) < 0)
            config_error(p, ENV_PREFIX "%.*s: %s", (int)len, variable, why);
        return;
    }
    if (!key_name(variable, len, name) || strncmp(variable, ENV_CONFIG "=", len + 1) == 0)
        return;
    const struct config_key *key = config_key_find(name);
    if (!key || (key->flags & KEY_INTERNAL) || key->type == CONFIG_MAP) {
        unknown_variable(name, variable, (int)len, p);
        return;
    }
    if (!*value) {
        /* As getenv() users expect, empty is unset; but a lost token must not open the door. */
        if (key->flags & KEY_SECRET)
            config_error(p, ENV_PREFIX "%.*s is empty", (int)len, variable);
        return;
    }
    if (config_value_set(c, key, ORIGIN_ENV, value, why, sizeof(why)) < 0)
        config_error(p, ENV_PREFIX "%.*s: %s", (int)len, variable, why);
}

void config_load_env(struct config *c, char *const *environment, struct config_problems *p)
{
    for (char *const *e = environment; e && *e; e++)
        if (strncmp(*e, ENV_PREFIX, strlen(ENV_PREFIX)) == 0)
            load_variable(c, *e + strlen(ENV_PREFIX), p);
}
