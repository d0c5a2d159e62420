/* SPDX-License-Identifier: Apache-2.0 */
/* What others may know of an approval, and who may see it. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "guard/approval-internal.h"

static const char *const state_names[] = {"pending", "approved", "rejected",
                                          "expired", "used",     "void"};
static_assert(ELEMENTS(state_names) == _APPROVAL_STATE_MAX, "a name per state");

static bool sees_approval(const struct identity *who, const struct approval *a)
{
    return !a->unasked && (identity_has(who, ROLE_APPROVER | ROLE_AUDITOR) ||
                           identity_sees(who, a->requester.key));
}

struct approval *approvals_find(struct approvals *s, const struct identity *who, const char *id)
{
    struct approval *a = map_find(s->by_id, id);
    return a && sees_approval(who, a) ? a : NULL;
}

size_t approvals_list(struct approvals *s, const struct identity *who, int state,
                      struct approval **ret, size_t max)
{
    size_t n = 0;
    list_for_each(a, &s->all, struct approval, node) {
        if (n < max && (state < 0 || (int)a->state == state) && sees_approval(who, a))
            ret[n++] = a;
    }
    return n;
}

size_t approvals_pending(const struct approvals *s)
{
    return s->n_pending;
}

const char *approval_id(const struct approval *a)
{
    return a->id;
}

enum approval_state approval_state(const struct approval *a)
{
    return a->state;
}

const char *approval_state_name(enum approval_state state)
{
    return state < _APPROVAL_STATE_MAX ? state_names[state] : "unknown";
}

int approval_state_find(const char *name)
{
    for (int i = 0; i < _APPROVAL_STATE_MAX; i++)
        if (strcmp(state_names[i], name) == 0)
            return i;
    return -1;
}

enum risk approval_risk(const struct approval *a)
{
    return a->risk;
}

const char *approval_requester(const struct approval *a)
{
    return a->requester.key;
}

const char *approval_reason(const struct approval *a)
{
    for (size_t i = a->n_votes; i > 0; i--)
        if (!a->votes[i - 1].approve && a->votes[i - 1].reason)
            return a->votes[i - 1].reason;
    return a->void_reason ? a->void_reason : "";
}
