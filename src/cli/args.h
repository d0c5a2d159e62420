/* Flags and arguments of one command. Flags are Go style: one dash or two, "-id X" or "-id=X",
 * boolean ones alone or "=false"; names are never abbreviated, so that a new flag cannot change
 * what an old script means. "--" ends them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct command;

enum flag {
    FLAG_ADDR,
    FLAG_TOKEN,
    FLAG_CA_FILE,
    FLAG_ID,
    FLAG_EXEC_ID,
    FLAG_IMAGE,
    FLAG_VOLUME,
    FLAG_CACHE_MODE,
    FLAG_CACHE_PVC_SIZE,
    FLAG_CACHE_PVC_STORAGE_CLASS,
    FLAG_CACHE_PVC_ACCESS_MODE,
    FLAG_ENV,
    FLAG_ALLOW_HOST,
    FLAG_DENY_HOST,
    FLAG_CMD,
    FLAG_TIMEOUT,
    FLAG_SYNC,
    FLAG_STREAM,
    FLAG_STREAM_RAW,
    FLAG_RUNTIME,
    FLAG_LIMIT,
    FLAG_ACCEPT_WEAKER,
    FLAG_FILE,
    FLAG_CWD,
    FLAG_KEEP,
    FLAG_FOLLOW,
    FLAG_RECURSIVE,
    FLAG_JSON,
    FLAG_CLEAN,
    FLAG_ROLES,
    FLAG_EXPIRES,
    FLAG_QUOTA,
    FLAG_STATE_DIR,
    FLAG_SHOW,
    FLAG_STRIP,
    FLAG_TOOL,
    FLAG_LINE,
    FLAG_PATH,
    FLAG_WRITE,
    FLAG_HOST,
    FLAG_CHECKPOINT,
    FLAG_AUDIT_KEY,
    FLAG_KEY,
    FLAG_PRINT,
    FLAG_OUT,
    FLAG_POLICY,
    FLAG_APPROVAL,
    FLAG_REASON,
    FLAG_STATUS,
    FLAG_SESSION,
    FLAG_FORMAT,
    FLAG_SINCE,
    FLAG_TYPE,
    _FLAG_MAX,
};
#define FLAG_BIT(f)      (UINT64_C(1) << (FLAG_##f))
#define FLAGS_CONNECTION (FLAG_BIT(ADDR) | FLAG_BIT(TOKEN) | FLAG_BIT(CA_FILE))

enum flag_kind { FLAG_KIND_TEXT, FLAG_KIND_LIST, FLAG_KIND_NUMBER, FLAG_KIND_BOOL };

struct flag_entry {
    const char *name;
    enum flag_kind kind;
    const char *value; /* what help calls the value */
    const char *help;
};
const struct flag_entry *flag_find_entry(enum flag f);

struct args {
    const char *text[_FLAG_MAX]; /* NULL when not given */
    char **list[_FLAG_MAX];      /* NULL when not given; borrowed strings */
    long number[_FLAG_MAX];      /* 0 when not given */
    bool on[_FLAG_MAX];
    char **rest; /* what follows the flags, NULL-terminated */
    int n_rest;
    bool help; /* -h or -help was there; the rest is not checked */
};

/* Reads what follows the command's name. Says what is wrong on stderr and returns -1. */
int args_parse(const struct command *cmd, char **argv, struct args *ret);
void args_done(struct args *a);
