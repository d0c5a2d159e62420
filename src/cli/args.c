#include "cli/args.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/command.h"

static const struct flag_entry flags[] = {
    [FLAG_ADDR] = {"addr", FLAG_KIND_TEXT, "ADDRESS",
                   "the daemon: http://HOST:PORT, https://HOST:PORT or unix:PATH"},
    [FLAG_TOKEN] = {"token", FLAG_KIND_TEXT, "TOKEN", "bearer token (default $MAS_SANDBOX_TOKEN)"},
    [FLAG_CA_FILE] = {"ca-file", FLAG_KIND_TEXT, "FILE", "certificate authorities for https"},
    [FLAG_ID] = {"id", FLAG_KIND_TEXT, "ID", "the sandbox"},
    [FLAG_EXEC_ID] = {"exec-id", FLAG_KIND_TEXT, "E", "the exec"},
    [FLAG_IMAGE] = {"image", FLAG_KIND_TEXT, "IMAGE",
                    "image of the sandbox: a name, reference or digest"},
    [FLAG_VOLUME] = {"volume", FLAG_KIND_TEXT, "MODE", "volume of /workspace: emptydir or pvc"},
    [FLAG_CACHE_MODE] = {"cache-mode", FLAG_KIND_TEXT, "MODE",
                         "volume of /cache: emptydir, hostpath or pvc"},
    [FLAG_CACHE_PVC_SIZE] = {"cache-pvc-size", FLAG_KIND_TEXT, "SIZE", "size of a pvc cache"},
    [FLAG_CACHE_PVC_STORAGE_CLASS] = {"cache-pvc-storage-class", FLAG_KIND_TEXT, "CLASS",
                                      "storage class of a pvc cache"},
    [FLAG_CACHE_PVC_ACCESS_MODE] = {"cache-pvc-access-mode", FLAG_KIND_TEXT, "MODE",
                                    "access mode of a pvc cache"},
    [FLAG_ENV] = {"env", FLAG_KIND_LIST, "K=V", "environment variable (may be repeated)"},
    [FLAG_ALLOW_HOST] = {"allow-host", FLAG_KIND_LIST, "HOST",
                         "host the sandbox may reach (may be repeated)"},
    [FLAG_DENY_HOST] = {"deny-host", FLAG_KIND_LIST, "HOST",
                        "host the sandbox may not reach (may be repeated)"},
    [FLAG_CMD] = {"cmd", FLAG_KIND_TEXT, "'A B C'",
                  "the command, split at spaces; '-- argv...' for anything else"},
    [FLAG_TIMEOUT] = {"timeout", FLAG_KIND_NUMBER, "SECONDS", "ends the command after this long"},
    [FLAG_SYNC] = {"sync", FLAG_KIND_BOOL, NULL, "wait; print the output; exit as the command did"},
    [FLAG_STREAM] = {"stream", FLAG_KIND_BOOL, NULL, "print the output as it comes"},
    [FLAG_STREAM_RAW] = {"stream-raw", FLAG_KIND_BOOL, NULL, "print each event as JSON"},
    [FLAG_RUNTIME] = {"runtime", FLAG_KIND_TEXT, "NAME", "what isolates the sandbox (see doctor)"},
    [FLAG_LIMIT] = {"limit", FLAG_KIND_LIST, "NAME=N",
                    "cpu_cores, memory_mb, disk_mb, max_processes or io_mb_per_s (may be "
                    "repeated)"},
    [FLAG_ACCEPT_WEAKER] = {"accept-weaker", FLAG_KIND_LIST, "NAME",
                            "a limit that may be left out where it cannot be enforced"},
    [FLAG_FILE] = {"file", FLAG_KIND_LIST, "LOCAL:PATH",
                   "copy a local file into the sandbox first (may be repeated)"},
    [FLAG_CWD] = {"cwd", FLAG_KIND_TEXT, "DIR", "directory the command starts in"},
    [FLAG_KEEP] = {"keep", FLAG_KIND_BOOL, NULL, "do not delete the sandbox at the end"},
    [FLAG_FOLLOW] = {"f", FLAG_KIND_BOOL, NULL, "go on as more comes"},
    [FLAG_RECURSIVE] = {"r", FLAG_KIND_BOOL, NULL, "with what is in directories"},
    [FLAG_JSON] = {"json", FLAG_KIND_BOOL, NULL, "print the daemon's JSON"},
    [FLAG_CLEAN] = {"clean", FLAG_KIND_BOOL, NULL, "remove what a killed daemon left behind"},
    [FLAG_ROLES] = {"roles", FLAG_KIND_TEXT, "A,B",
                    "of agent, operator, approver, auditor, admin (default agent)"},
    [FLAG_EXPIRES] = {"expires", FLAG_KIND_TEXT, "DURATION", "the key ends after this long: 720h"},
    [FLAG_QUOTA] = {"quota", FLAG_KIND_LIST, "NAME=N",
                    "max_sandboxes, max_execs or requests_per_minute; 0: any number (may be "
                    "repeated)"},
    [FLAG_STATE_DIR] = {"state-dir", FLAG_KIND_TEXT, "DIR",
                        "work on the state directory of a daemon that is not running"},
    [FLAG_SHOW] = {"show", FLAG_KIND_BOOL, NULL,
                   "print the text with <U+202E> for what is invisible"},
    [FLAG_STRIP] = {"strip", FLAG_KIND_BOOL, NULL, "print the text without what is invisible"},
    [FLAG_TOOL] = {"tool", FLAG_KIND_TEXT, "TOOL", "the tool that is called"},
    [FLAG_LINE] = {"line", FLAG_KIND_TEXT, "LINE", "a shell line"},
    [FLAG_PATH] = {"path", FLAG_KIND_TEXT, "PATH", "a file that is read"},
    [FLAG_WRITE] = {"write", FLAG_KIND_TEXT, "PATH", "a file that is written"},
    [FLAG_HOST] = {"host", FLAG_KIND_TEXT, "HOST[:PORT]", "a host that is asked for"},
    [FLAG_KEY] = {"key", FLAG_KIND_TEXT, "NAME", "name of the caller's key"},
    [FLAG_CHECKPOINT] = {"checkpoint", FLAG_KIND_TEXT, "FILE",
                         "checkpoints of the audit that were kept elsewhere"},
    [FLAG_AUDIT_KEY] = {"key", FLAG_KIND_TEXT, "FILE",
                        "public key of the daemon's audit: PEM, or 64 hexadecimal digits"},
    [FLAG_PRINT] = {"print", FLAG_KIND_BOOL, NULL, "print it; change nothing"},
    [FLAG_OUT] = {"out", FLAG_KIND_TEXT, "FILE", "write there instead of the client's own place"},
    [FLAG_POLICY] = {"policy", FLAG_KIND_TEXT, "FILE",
                     "the policy (default: as the daemon's configuration has it)"},
    [FLAG_APPROVAL] =
        {"approval", FLAG_KIND_TEXT, "wait|return|ID",
         "where a person has to approve: wait for that, fail (the default of exec and cp), or the "
         "approval this call was given"},
    [FLAG_REASON] = {"reason", FLAG_KIND_TEXT, "TEXT", "why, for whoever asked"},
    [FLAG_STATUS] = {"status", FLAG_KIND_TEXT, "NAME",
                     "pending (default), approved, rejected, expired, used, void or all"},
    [FLAG_SESSION] = {"session", FLAG_KIND_TEXT, "COUNT,DURATION",
                      "allow the same call so often, for so long: 20,1h; never for critical"},
    [FLAG_FORMAT] = {"format", FLAG_KIND_TEXT, "NAME",
                     "what the tar is: rootfs-tar, docker-archive, oci-archive (default: looks)"},
    [FLAG_SINCE] = {"since", FLAG_KIND_TEXT, "N", "go on after the event with this number"},
    [FLAG_TYPE] = {"type", FLAG_KIND_TEXT, "A,B",
                   "only these: exec.ended, or a first word for all of it: approval"},
};
static_assert(ELEMENTS(flags) == _FLAG_MAX, "a row per flag");
static_assert(_FLAG_MAX <= 64, "flags of a command are a 64-bit mask");

const struct flag_entry *flag_find_entry(enum flag f)
{
    return &flags[f];
}

static int find_flag(const struct command *cmd, const char *name, size_t len)
{
    for (int f = 0; f < _FLAG_MAX; f++)
        if ((cmd->flags & (UINT64_C(1) << f)) && strlen(flags[f].name) == len &&
            strncmp(flags[f].name, name, len) == 0)
            return f;
    return -1;
}

static void list_append(char ***list, char *item)
{
    size_t n = *list ? strv_length(*list) : 0;
    *list = xrealloc(*list, (n + 2) * sizeof(char *));
    (*list)[n] = item;
    (*list)[n + 1] = NULL;
}

static int complain(const struct command *cmd, const char *problem, const char *what)
{
    fprintf(stderr, "sbx %s: %s '%s' (see 'sbx help %s')\n", cmd->name, problem, what, cmd->name);
    return -1;
}

static int set_bool(const struct command *cmd, struct args *a, int f, const char *value)
{
    if (!value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
        a->on[f] = true;
    else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
        a->on[f] = false;
    else
        return complain(cmd, "want true or false, not", value);
    return 0;
}

static int set_value(const struct command *cmd, struct args *a, int f, char *value)
{
    char *end;
    switch (flags[f].kind) {
    case FLAG_KIND_LIST:
        list_append(&a->list[f], value);
        return 0;
    case FLAG_KIND_NUMBER:
        errno = 0;
        a->number[f] = strtol(value, &end, 10);
        if (errno || end == value || *end || a->number[f] < 0 || a->number[f] > INT32_MAX)
            return complain(cmd, "not a number:", value);
        return 0;
    default:
        a->text[f] = value;
        return 0;
    }
}

/* One flag, with its value in *next if it is not behind a '='. */
static int parse_flag(const struct command *cmd, char *arg, char ***next, struct args *a)
{
    char *name = arg + 1 + (arg[1] == '-');
    size_t len = strcspn(name, "=");
    char *value = name[len] ? name + len + 1 : NULL;
    if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0) {
        a->help = true;
        return 0;
    }
    int f = find_flag(cmd, name, len);
    if (f < 0)
        return complain(cmd, "no flag", arg);
    if (flags[f].kind == FLAG_KIND_BOOL)
        return set_bool(cmd, a, f, value);
    if (!value && !(value = **next))
        return complain(cmd, "no value for", arg);
    if (value == **next)
        (*next)++;
    return set_value(cmd, a, f, value);
}

static int check_rest(const struct command *cmd, const struct args *a)
{
    if (a->n_rest < cmd->min_rest) {
        fprintf(stderr, "usage: sbx %s %s\n", cmd->name, cmd->usage);
        return -1;
    }
    if (cmd->max_rest >= 0 && a->n_rest > cmd->max_rest)
        return complain(cmd, "unexpected argument", a->rest[cmd->max_rest]);
    return 0;
}

int args_parse(const struct command *cmd, char **argv, struct args *ret)
{
    struct args a = {0};
    char **next = argv;
    while (*next && !a.help) {
        char *arg = *next;
        bool is_flag = arg[0] == '-' && arg[1];
        if (is_flag && strcmp(arg, "--") != 0) {
            next++;
            if (parse_flag(cmd, arg, &next, &a) < 0)
                goto fail;
            continue;
        }
        if (is_flag || cmd->rest_is_argv) {
            next += is_flag; /* a command's own flags are its own */
            break;
        }
        list_append(&a.rest, arg);
        next++;
    }
    while (*next && !a.help)
        list_append(&a.rest, *next++);
    a.n_rest = a.rest ? (int)strv_length(a.rest) : 0;
    if (!a.help && check_rest(cmd, &a) < 0)
        goto fail;
    *ret = a;
    return 0;
fail:
    args_done(&a);
    return -1;
}

void args_done(struct args *a)
{
    for (int f = 0; f < _FLAG_MAX; f++)
        free(a->list[f]);
    free(a->rest);
    *a = (struct args){0};
}
