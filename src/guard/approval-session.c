/* SPDX-License-Identifier: Apache-2.0 */
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
#include "shell/shell.h"

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

/* What the shell reader says of the argv as it is now: a prefix that was harmless with the
 * arguments that were asked about may have a command behind it with others. */
static const char *hides_behind(const json_t *argv, size_t n)
{
    _cleanup_strv_ char **words = xcalloc(json_array_size(argv) + 1, sizeof(char *));
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        words[i] = xstrdup(word ? word : "");
    }
    return shell_hides_behind(words, n);
}

/* A prefix must leave no room for another command: `sh -c` would cover every line there is. */
static int check_prefix(const struct approval *a, char *const *prefix, struct error *err)
{
    const json_t *argv = json_object_get(a->subject, "argv");
    if (!prefix[0] || !has_prefix(argv, prefix))
        return error_field(err, "argv_prefix", "'argv_prefix' must be how the asked argv begins");
    const char *why = hides_behind(argv, strv_length(prefix));
    if (why)
        return error_field(err, "argv_prefix",
                           "the prefix '%.40s' is too short, more of the argv has to be in it: %s",
                           prefix[0], why);
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
        return error_set(err, ERROR_FORBIDDEN, 0,
                         "a critical call can be approved once, never for a session");
    if (session->count < 1 || session->count > APPROVAL_SESSION_MAX)
        return error_field(err, "count", "'count' must be 1 to %d", APPROVAL_SESSION_MAX);
    if (session->ttl_s < 1 || session->ttl_s > APPROVAL_SESSION_S)
        return error_field(err, "ttl_seconds", "'ttl_seconds' must be 1 to %d", APPROVAL_SESSION_S);
    int r = check_rules(a, session->rules, err);
    return r >= 0 && session->argv_prefix ? check_prefix(a, session->argv_prefix, err) : r;
}

/* The digest of argv stays where all of argv does: bytes that are not UTF-8 look alike in JSON. */
static json_t *what_stays(const json_t *subject, bool any_argv)
{
    json_t *copy = json_copy((json_t *)subject);
    json_object_del(copy, "expires_at");
    if (any_argv) {
        json_object_del(copy, "argv");
        json_object_del(copy, "argv_digest");
    }
    return copy;
}

bool approval_session_covers(const struct approval *a, const json_t *subject)
{
    char *const *prefix = a->session_prefix;
    _cleanup_json_ json_t *mine = what_stays(a->subject, prefix);
    _cleanup_json_ json_t *theirs = what_stays(subject, prefix);
    const json_t *argv = json_object_get(subject, "argv");
    return json_equal(mine, theirs) &&
           (!prefix || (has_prefix(argv, prefix) && !hides_behind(argv, strv_length(prefix))));
}
