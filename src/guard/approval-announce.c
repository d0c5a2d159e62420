/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal of changes hears of approvals: their state after each change that is on record,
 * and no more of the call than its tool and rule. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json-format.h"
#include "base/strbuf.h"
#include "event/event-journal.h"
#include "guard/approval-internal.h"

static const enum event_type types[] = {EVENT_APPROVAL_PENDING,  EVENT_APPROVAL_APPROVED,
                                        EVENT_APPROVAL_REJECTED, EVENT_APPROVAL_EXPIRED,
                                        EVENT_APPROVAL_USED,     EVENT_APPROVAL_VOID};
static_assert(ELEMENTS(types) == _APPROVAL_STATE_MAX, "a type per state");

static void format_data(const struct approval *a, struct strbuf *out)
{
    const char *tool = json_string_value(json_object_get(a->subject, "tool"));
    struct json_text t = json_text_begin(out, '{');
    json_text_string(&t, "status", approval_state_name(a->state));
    json_text_string(&t, "risk", risk_name(a->risk));
    json_text_string(&t, "tool", tool ? tool : "");
    json_text_bytes(&t, "rule", a->rule, strlen(a->rule));
    json_text_int(&t, "confirmations", (int64_t)approval_confirmations(a));
    json_text_int(&t, "confirmations_needed", (int64_t)approval_confirmations_needed(a));
    if (a->session_left)
        json_text_int(&t, "session_calls_left", a->session_left);
    json_text_end(&t, '}');
}

void approval_announce(const struct approval *a)
{
    _cleanup_strbuf_ struct strbuf data = STRBUF_INIT(EVENT_DATA_MAX);
    format_data(a, &data);
    event_append(a->set->options.events, types[a->state], a->id, a->requester.key, data.data);
}

/* Of one that has ended nothing changes any more but how many of its votes still count. */
static bool is_same(const struct approval *a, const struct event *last)
{
    _cleanup_strbuf_ struct strbuf data = STRBUF_INIT(EVENT_DATA_MAX);
    if (!approval_is_live(a))
        return last->type == types[a->state];
    format_data(a, &data);
    return strcmp(event_data(last), data.data) == 0;
}

void approval_announce_restored(const struct approval *a)
{
    const struct event_journal *j = a->set->options.events;
    const struct event *last = event_find_newest(j, event_types_of("approval"), a->id);
    /* Rows have seconds: any moment of that one. */
    if (last ? !is_same(a, last) : !event_is_before(j, (a->changed_s + 1) * 1000000000LL - 1))
        approval_announce(a);
}
