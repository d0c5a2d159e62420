#include "daemon/gateway-stage.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/drop.h"
#include "daemon/stage.h"
#include "gateway/gateway.h"
#include "proto/handover.h"

#define AS_ROOT   "root"
#define AS_CALLER "caller"

/* The numbers of struct gateway_options, in the order of the list. */
#define RIGHTS_AT  0
#define NUMBERS_AT 1
static const size_t numbers[] = {
    offsetof(struct gateway_options, request_timeout_ms),
    offsetof(struct gateway_options, resolve_timeout_ms),
    offsetof(struct gateway_options, connect_timeout_ms),
    offsetof(struct gateway_options, idle_timeout_ms),
    offsetof(struct gateway_options, max_connections),
    offsetof(struct gateway_options, max_connections_per_label),
};

#define LEVEL_AT (NUMBERS_AT + (int)ELEMENTS(numbers))
#define RULES_AT (LEVEL_AT + 1)

/* A rule is "allow:RULE" and so on. */
static const struct {
    const char *prefix;
    size_t config, options;
} rules[] = {
    {"private:", offsetof(struct config, gateway_allow_private),
     offsetof(struct gateway_options, allow_private)},
    {"allow:", offsetof(struct config, allowed_hosts),
     offsetof(struct gateway_options, allow_hosts)},
    {"deny:", offsetof(struct config, disallowed_hosts),
     offsetof(struct gateway_options, deny_hosts)},
};

int gateway_stage_seal(bool privileged, const struct config *c)
{
    const int64_t values[ELEMENTS(numbers)] = {
        c->gateway_request_timeout_ms, c->gateway_resolve_timeout_ms,
        c->gateway_connect_timeout_ms, c->gateway_idle_timeout_ms,
        c->gateway_max_connections,    c->gateway_max_connections_per_sandbox,
    };
    _cleanup_strv_ char **list = NULL;
    stage_append(&list, xstrdup(privileged ? AS_ROOT : AS_CALLER));
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        stage_append(&list, xasprintf("%lld", (long long)values[i]));
    stage_append(&list, stage_log_style(c->log_format, c->log_level));
    for (size_t i = 0; i < ELEMENTS(rules); i++) {
        char **from = *(char ***)(void *)((char *)(uintptr_t)c + rules[i].config);
        stage_append_list(&list, rules[i].prefix, from);
    }
    return stage_seal("mas-gateway-config", list);
}

static void take_numbers(struct gateway_options *options, char **list)
{
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        *(uint32_t *)(void *)((char *)options + numbers[i]) =
            (uint32_t)strtoul(list[NUMBERS_AT + i], NULL, 10);
}

static void take_rules(struct gateway_options *options, char **list)
{
    for (size_t i = 0; i < ELEMENTS(rules); i++)
        *(char ***)(void *)((char *)options + rules[i].options) =
            stage_take_list(list + RULES_AT, rules[i].prefix);
}

/* What gateway_main() leaves: it changes the uid itself when root, and stops writing and execution.
 */
static int drop(bool caller, struct error *err)
{
    /* Root goes with the uid; a caller's namespace would leave capabilities. */
    int r = caller ? drop_identity(false, 0, 0, err) : drop_bounding_set(0, err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set(err, ERROR_INTERNAL, errno, "no_new_privs");
    if (r == 0)
        r = drop_gateway_files(err);
    return r < 0 ? r : drop_gateway_syscalls(err);
}

int gateway_stage(void)
{
    char **list = stage_take(GATEWAY_CONFIG);
    struct error err = {0};
    struct gateway_options options = {.uid = DROP_GATEWAY_UID, .gid = DROP_GATEWAY_UID};
    prctl(PR_SET_NAME, "mas-gateway", 0, 0, 0);
    stage_set_signals();
    if (strv_length(list) < RULES_AT) {
        log_error("gateway: no configuration from the warden");
        return 1;
    }
    stage_use_log_style(list[LEVEL_AT]);
    take_numbers(&options, list);
    take_rules(&options, list);
    if (drop(strcmp(list[RIGHTS_AT], AS_CALLER) == 0, &err) < 0) {
        log_error("gateway cannot give up its privileges: %s", err.message);
        return 1;
    }
    return gateway_main(GATEWAY_SOCK, &options);
}
