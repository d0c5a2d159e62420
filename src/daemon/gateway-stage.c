#include "daemon/gateway-stage.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/config.h"
#include "daemon/drop.h"
#include "gateway/gateway.h"

static char as_root[] = "root", as_caller[] = "caller";

/* "text:info", "json:debug" */
static char *log_style(const struct config *c)
{
    static char style[32];
    snprintf(style, sizeof(style), "%s:%s", c->log_format, c->log_level);
    return style;
}

static void use_log_style(const char *style)
{
    enum log_level level = LOG_INFO;
    const char *colon = strchr(style, ':');
    if (colon)
        log_level_parse(colon + 1, &level);
    log_setup("mas-sandboxd", level, strncmp(style, "json", 4) == 0);
}

/* The numbers of struct gateway_options, in the order of argv. */
#define NUMBERS_AT 3
static const size_t numbers[] = {
    offsetof(struct gateway_options, request_timeout_ms),
    offsetof(struct gateway_options, resolve_timeout_ms),
    offsetof(struct gateway_options, connect_timeout_ms),
    offsetof(struct gateway_options, idle_timeout_ms),
    offsetof(struct gateway_options, max_connections),
    offsetof(struct gateway_options, max_connections_per_label),
};

/* argv[9] is where the log goes on; the rules follow. */
#define LEVEL_AT (NUMBERS_AT + (int)ELEMENTS(numbers))
static_assert(LEVEL_AT + 1 == GATEWAY_ARGS_FIXED, "a place for everything");

void gateway_stage_argv(char **argv, bool privileged, const struct config *c)
{
    static char name[] = "mas-sandboxd", flag[] = GATEWAY_FLAG;
    static char text[ELEMENTS(numbers)][16];
    const int64_t values[ELEMENTS(numbers)] = {
        c->gateway_request_timeout_ms, c->gateway_resolve_timeout_ms,
        c->gateway_connect_timeout_ms, c->gateway_idle_timeout_ms,
        c->gateway_max_connections,    c->gateway_max_connections_per_sandbox,
    };
    argv[0] = name;
    argv[1] = flag;
    argv[2] = privileged ? as_root : as_caller;
    for (size_t i = 0; i < ELEMENTS(numbers); i++) {
        snprintf(text[i], sizeof(text[i]), "%lld", (long long)values[i]);
        argv[NUMBERS_AT + i] = text[i];
    }
    argv[LEVEL_AT] = log_style(c);
    size_t n = GATEWAY_ARGS_FIXED;
    for (char **rule = c->gateway_allow_private; rule && *rule; rule++)
        argv[n++] = *rule;
    argv[n] = NULL;
}

/* What gateway_main() leaves: it changes the uid itself when root, and stops writing and execution.
 */
static int drop(bool caller, struct error *err)
{
    /* Root goes with the uid; a caller's namespace would leave capabilities. */
    int r = caller ? drop_identity(false, 0, 0, err) : 0;
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set(err, ERROR_INTERNAL, errno, "no_new_privs");
    if (r == 0)
        r = drop_gateway_files(err);
    return r < 0 ? r : drop_syscalls(err);
}

int gateway_stage(int argc, char **argv)
{
    struct error err = {0};
    struct gateway_options options = {.uid = DROP_GATEWAY_UID, .gid = DROP_GATEWAY_UID};
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_NAME, "mas-gateway", 0, 0, 0);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (argc < GATEWAY_ARGS_FIXED)
        return 1;
    use_log_style(argv[LEVEL_AT]);
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        *(uint32_t *)(void *)((char *)&options + numbers[i]) =
            (uint32_t)strtoul(argv[NUMBERS_AT + i], NULL, 10);
    options.allow_private = argv + GATEWAY_ARGS_FIXED;
    if (drop(strcmp(argv[2], as_caller) == 0, &err) < 0) {
        log_error("gateway cannot give up its privileges: %s", err.message);
        return 1;
    }
    return gateway_main(GATEWAY_SOCK, &options);
}
