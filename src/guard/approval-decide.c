/* SPDX-License-Identifier: Apache-2.0 */
/* Who may decide about what waits, and what a decision makes of it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/map.h"
#include "guard/approval-internal.h"

/* With keys, the key that asked never approves, and a critical call takes two different keys
 * besides it. Without keys one caller is like another, so critical calls cannot be approved at all.
 */
static int check_voter(const struct approval *a, const struct approval_decision *d,
                       struct error *err)
{
    const struct identity *who = d->who;
    if (!identity_has(who, ROLE_APPROVER))
        return error_set(err, ERROR_FORBIDDEN, 0, "this needs the role approver");
    if (!d->approve)
        return 0; /* an approver may always say no */
    if (!who->authenticated && a->risk == RISK_CRITICAL)
        return error_set(
            err, ERROR_FORBIDDEN, 0,
            "a critical call needs approvers with two different keys, and no keys are configured");
    if (who->authenticated && strcmp(who->key, a->requester.key) == 0)
        return error_set(err, ERROR_FORBIDDEN, 0,
                         "the key that asked for a call may not approve it");
    for (size_t i = 0; i < a->n_votes; i++)
        if (strcmp(a->votes[i].who.key, who->key) == 0)
            return error_set(err, ERROR_FORBIDDEN, 0,
                             "a critical call needs a second approver with another key");
    return 0;
}

/* The time is compared here as well as by the timer, which comes once a second: a yes must not be
 * taken in the second after the end. */
static int check_decision(const struct approval *a, const struct approval_decision *d,
                          struct error *err)
{
    if (a->state != APPROVAL_PENDING || a->busy || approval_now_s() >= a->expires_s)
        return error_set(err, ERROR_CONFLICT, 0, "approval %s is %s, not pending", a->id,
                         a->busy ? "being decided" : approval_state_name(a->state));
    int r = approval_check_alive(a, err);
    if (r < 0)
        return r;
    r = check_voter(a, d, err);
    if (r < 0)
        return r;
    if (a->n_votes == APPROVAL_DECISIONS_MAX)
        return error_set(err, ERROR_CONFLICT, 0, "approval %s has as many votes as it can have",
                         a->id);
    if (d->approve && d->session)
        r = approval_session_check(a, d->session, err);
    if (r < 0)
        return r;
    if (d->reason && strlen(d->reason) > APPROVAL_REASON_MAX)
        return error_field(err, "reason", "'reason' is over %d bytes", APPROVAL_REASON_MAX);
    if (d->user_id && strlen(d->user_id) > APPROVAL_REASON_MAX)
        return error_field(err, "user_id", "'user_id' is over %d bytes", APPROVAL_REASON_MAX);
    return r;
}

/* An earlier vote that could not be recorded may have left one. */
static void clear_session(struct approval *a)
{
    a->is_session = false;
    a->session_left = 0;
    strv_free(steal_ptr(a->session_prefix));
    strv_free(steal_ptr(a->session_rules));
    a->expires_s = json_integer_value(json_object_get(a->subject, "expires_at"));
}

static void start_session(struct approval *a, const struct approval_session *session)
{
    a->is_session = true;
    a->session_left = session->count;
    a->session_prefix = session->argv_prefix ? strv_copy(session->argv_prefix) : NULL;
    a->session_rules = session->rules ? strv_copy(session->rules) : NULL;
    a->expires_s = approval_now_s() + session->ttl_s;
}

/* The audit's record first, then the vote, then the row: a kill -9 in between leaves a record of a
 * decision that did not take effect, and never an effect without its record. */
int approvals_decide(struct approvals *s, const char *id, const struct approval_decision *d,
                     approval_fn fn, void *data, struct error *err)
{
    struct approval *a = map_find(s->by_id, id);
    if (!a)
        return error_set(err, ERROR_NOT_FOUND, 0, "there is no approval '%.60s'", id);
    int r = check_decision(a, d, err);
    if (r < 0)
        return r;
    bool last = !d->approve || approval_confirmations(a) + 1 >= approval_confirmations_needed(a);
    const char *outcome = !d->approve ? "rejected" : !last ? "confirmed" : "approved";
    r = approval_record(a, "approval", d->who, outcome, d->reason, err);
    if (r < 0)
        return r;
    fault_point("approval.decided");
    a->votes[a->n_votes++] = (struct approval_vote){
        .who = *d->who,
        .approve = d->approve,
        .time_s = approval_now_s(),
        .reason = d->reason ? xstrdup(d->reason) : NULL,
        .user_id = d->user_id ? xstrdup(d->user_id) : NULL,
    };
    clear_session(a);
    if (last && d->approve && d->session)
        start_session(a, d->session);
    if (last)
        approval_set_state(a, d->approve ? APPROVAL_APPROVED : APPROVAL_REJECTED);
    approval_write(a, APPROVAL_PENDING, a->n_votes - 1, false, fn, data);
    return 0;
}
