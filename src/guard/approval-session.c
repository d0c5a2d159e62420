/* Session approvals: what one approval covers beyond the call it was asked for. Everything of the
 * subject must be the same but the end of argv, so a session in one sandbox, directory, environment
 * and policy says nothing about another. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "guard/approval-internal.h"
#include "guard/gate.h"

/* Programs whose later arguments decide what runs: only all of their argv says what that is. */
static const char *const interpreters[] = {
    "ash",      "awk",     "bash", "bun",   "busybox", "dash",   "deno", "env",   "eval",
    "exec",     "find",    "ksh",  "lua",   "make",    "nice",   "node", "nohup", "npx",
    "parallel", "perl",    "php",  "ruby",  "sed",     "setsid", "sh",   "ssh",   "sudo",
    "tar",      "timeout", "uv",   "watch", "xargs",   "zsh",
};
/* Programs of many commands: the name alone says nothing. */
static const char *const dispatchers[] = {"apt", "cargo", "docker", "git",
                                          "go",  "npm",   "pip",    "podman"};

static bool contains(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static bool has_prefix(const json_t *argv, char *const *prefix)
{
    size_t n = strv_length(prefix);
    if (n > json_array_size(argv))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *item = json_string_value(json_array_get(argv, i));
        if (!item || strcmp(item, prefix[i]) != 0)
            return false;
    }
    return true;
}

static int check_prefix(const struct approval *a, char *const *prefix, struct error *err)
{
    const json_t *argv = json_object_get(a->subject, "argv");
    if (!prefix[0] || !has_prefix(argv, prefix))
        return error_field(err, "argv_prefix", "'argv_prefix' must be how the asked argv begins");
    const char *slash = strrchr(prefix[0], '/'), *name = slash ? slash + 1 : prefix[0];
    bool opaque =
        contains(interpreters, ELEMENTS(interpreters), name) || strncmp(name, "python", 6) == 0;
    size_t least = opaque ? json_array_size(argv) : 1;
    if (contains(dispatchers, ELEMENTS(dispatchers), name))
        least = 2;
    if (strv_length(prefix) < least)
        return error_field(err, "argv_prefix",
                           "what '%.40s' does is in its later arguments: at least %zu are needed",
                           name, least);
    return 0;
}

static int check_rules(const struct approval *a, char *const *rules, struct error *err)
{
    for (; rules && *rules; rules++)
        if (!gate_names_rule(a->set->options.gate, *rules))
            return error_field(err, "rules", "the policy has no rule '%.60s'", *rules);
    return 0;
}

int approval_session_check(const struct approval *a, const struct approval_session *session,
                           struct error *err)
{
    if (a->risk == RISK_CRITICAL)
        return error_set(err, ERROR_FORBIDDEN, 0, "critical is approved once, never for a session");
    if (session->count < 1 || session->count > APPROVAL_SESSION_MAX)
        return error_field(err, "count", "'count' must be 1 to %d", APPROVAL_SESSION_MAX);
    if (session->ttl_s < 1 || session->ttl_s > APPROVAL_SESSION_S)
        return error_field(err, "ttl_seconds", "'ttl_seconds' must be 1 to %d", APPROVAL_SESSION_S);
    int r = check_rules(a, session->rules, err);
    return r >= 0 && session->argv_prefix ? check_prefix(a, session->argv_prefix, err) : r;
}

static json_t *without_argv(const json_t *subject)
{
    json_t *copy = json_copy((json_t *)subject);
    json_object_del(copy, "argv");
    json_object_del(copy, "argv_digest");
    json_object_del(copy, "expires_at");
    return copy;
}

bool approval_session_covers(const struct approval *a, const json_t *subject)
{
    _cleanup_json_ json_t *mine = without_argv(a->subject), *theirs = without_argv(subject);
    const json_t *argv = json_object_get(subject, "argv");
    if (!json_equal(mine, theirs))
        return false;
    if (!a->session_prefix)
        return json_equal(argv, json_object_get(a->subject, "argv"));
    return has_prefix(argv, a->session_prefix);
}
