/* SPDX-License-Identifier: Apache-2.0 */
/* What a grant is worth at the moment of its use: no more than what was decided when it was asked
 * for, under the same policy, for a key that lives, by the votes of keys that still may vote. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "guard/approval-internal.h"
#include "guard/gate.h"
#include "identity/keys.h"

#define CRITICAL_VOTES 2

/* --- votes */

/* Once there are keys, an approval that was given without one has no approver, and counts no more.
 */
bool approval_vote_counts(const struct approvals *s, const struct approval_vote *v)
{
    if (!v->who.authenticated)
        return !keys_any(s->options.keys);
    const struct key *key = keys_find(s->options.keys, v->who.key);
    return key && key_is_live(key) && (key->roles & ROLE_APPROVER);
}

/* Counted anew each time it is asked: a key that ends between a vote and the use takes its vote
 * with it. */
size_t approval_confirmations(const struct approval *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_votes; i++)
        n += a->votes[i].approve && approval_vote_counts(a->set, &a->votes[i]);
    return n;
}

static size_t approval_votes_needed(enum risk risk)
{
    return risk == RISK_CRITICAL ? CRITICAL_VOTES : 1;
}

size_t approval_confirmations_needed(const struct approval *a)
{
    return approval_votes_needed(a->risk);
}

/* --- the moment */

int approval_check_alive(const struct approval *a, struct error *err)
{
    const struct approvals_options *o = &a->set->options;
    if (strcmp(a->revision, gate_revision(o->gate)) != 0)
        return error_set(err, ERROR_DENIED, 0, "the policy has changed");
    return keys_check_live(o->keys, &a->requester, err);
}

/* Whether one obligation is more than what was obliged then: there was none, a limit has become
 * smaller, or it is another one. */
static bool is_more(const json_t *now, const json_t *then)
{
    if (json_equal(now, then))
        return false;
    return !json_is_number(now) || !json_is_number(then) ||
           json_number_value(now) < json_number_value(then);
}

/* The name of the first obligation that the grant does not carry; NULL if there is none. */
static const char *find_more(const json_t *now, const json_t *then)
{
    const char *key, *inner;
    json_t *value;
    json_object_foreach((json_t *)now, key, value)
    {
        const json_t *had = json_object_get(then, key);
        if (!json_is_object(value)) {
            if (is_more(value, had))
                return key;
        } else if ((inner = find_more(value, had))) {
            return inner;
        }
    }
    return NULL;
}

static bool names_rule(const struct approval *a, const char *rule)
{
    for (char *const *r = a->session_rules; r && *r; r++)
        if (strcmp(*r, rule) == 0)
            return true;
    return strcmp(a->rule, rule) == 0;
}

int approval_check_need(const struct approval *a, const struct approval_need *need,
                        struct error *err)
{
    if (a->is_session && need->risk == RISK_CRITICAL)
        return error_set(err, ERROR_DENIED, 0, "a session approval never covers a critical call");
    if (a->is_session && !names_rule(a, need->rule))
        return error_set(err, ERROR_DENIED, 0, "the rule '%s' asks, not '%s'", need->rule, a->rule);
    if (need->risk > a->risk)
        return error_set(err, ERROR_DENIED, 0, "the risk is %s now, and was %s when it was asked",
                         risk_name(need->risk), risk_name(a->risk));
    if (approval_confirmations(a) < approval_votes_needed(a->risk))
        return error_set(err, ERROR_DENIED, 0, "the key of an approver has ended");
    const char *more = find_more(need->obligations, a->obligations);
    if (more)
        return error_set(err, ERROR_DENIED, 0,
                         "a rule requires '%s' now, which none did when the approval was asked for",
                         more);
    return 0;
}
