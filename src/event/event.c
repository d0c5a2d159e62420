/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json-format.h"
#include "base/nearest.h"
#include "base/strbuf.h"

static_assert(_EVENT_TYPE_MAX <= 64, "a set of types is 64 bits");

/* Who sees it beside the owner, operators, admins and auditors. Routes that show the objects
 * let the same roles in: approvers see approvals, and every role sees images and the policy. */
static const struct {
    const char *name;
    unsigned roles;
} types[] = {
    [EVENT_DAEMON_STARTED] = {"daemon.started", 0},
    [EVENT_SANDBOX_CREATED] = {"sandbox.created", 0},
    [EVENT_SANDBOX_CRASHED] = {"sandbox.crashed", 0},
    [EVENT_SANDBOX_DELETED] = {"sandbox.deleted", 0},
    [EVENT_SANDBOX_PAUSED] = {"sandbox.paused", 0},
    [EVENT_SANDBOX_RESUMED] = {"sandbox.resumed", 0},
    [EVENT_EXEC_STARTED] = {"exec.started", 0},
    [EVENT_EXEC_ENDED] = {"exec.ended", 0},
    [EVENT_APPROVAL_PENDING] = {"approval.pending", ROLE_APPROVER},
    [EVENT_APPROVAL_APPROVED] = {"approval.approved", ROLE_APPROVER},
    [EVENT_APPROVAL_REJECTED] = {"approval.rejected", ROLE_APPROVER},
    [EVENT_APPROVAL_EXPIRED] = {"approval.expired", ROLE_APPROVER},
    [EVENT_APPROVAL_USED] = {"approval.used", ROLE_APPROVER},
    [EVENT_APPROVAL_VOID] = {"approval.void", ROLE_APPROVER},
    [EVENT_IMAGE_PULLED] = {"image.pulled", ROLES_ALL},
    [EVENT_IMAGE_IMPORTED] = {"image.imported", ROLES_ALL},
    [EVENT_IMAGE_REMOVED] = {"image.removed", ROLES_ALL},
    [EVENT_POOL_FULL] = {"pool.full", 0},
    [EVENT_POOL_EMPTY] = {"pool.empty", 0},
    [EVENT_POLICY_LOADED] = {"policy.loaded", ROLES_ALL},
    [EVENT_POLICY_REFUSED] = {"policy.refused", 0},
    [EVENT_NETWORK_ALLOWED] = {"network.allowed", 0},
    [EVENT_NETWORK_DENIED] = {"network.denied", 0},
    [EVENT_NETWORK_CLOSED] = {"network.closed", 0},
    [EVENT_NETWORK_SUMMARY] = {"network.summary", 0},
};
static_assert(ELEMENTS(types) == _EVENT_TYPE_MAX, "a row per type");

const char *event_type_name(unsigned type)
{
    return type < _EVENT_TYPE_MAX ? types[type].name : NULL;
}

/* Of a whole name, or of a first word that a dot ends. */
static uint64_t find_types(const char *word, size_t len)
{
    uint64_t found = 0;
    for (unsigned t = 1; t < _EVENT_TYPE_MAX; t++)
        if (strncmp(types[t].name, word, len) == 0 &&
            (types[t].name[len] == '\0' || types[t].name[len] == '.'))
            found |= event_type_bit((enum event_type)t);
    return found;
}

uint64_t event_types_of(const char *word)
{
    return find_types(word, strlen(word));
}

static int refuse_type(const char *word, size_t len, struct error *err)
{
    char shown[NEAREST_NAME_MAX + 1];
    snprintf(shown, sizeof(shown), "%.*s", (int)(len < sizeof(shown) ? len : sizeof(shown) - 1),
             word);
    const char *near = NULL;
    size_t best = nearest_patience(shown) + 1;
    for (unsigned t = 1; t < _EVENT_TYPE_MAX; t++) {
        size_t d = nearest_distance(shown, types[t].name);
        if (d < best) {
            best = d;
            near = types[t].name;
        }
    }
    return error_field(err, "types", "there is no type of event '%s'%s%s%s", shown,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int event_types_parse(const char *text, uint64_t *ret, struct error *err)
{
    uint64_t all = 0;
    do {
        size_t len = strcspn(text, ",");
        uint64_t found = len ? find_types(text, len) : 0;
        if (!found)
            return refuse_type(text, len, err);
        all |= found;
        text += len;
    } while (*text++ == ',');
    *ret = all;
    return 0;
}

bool event_is_for(enum event_type type, const char *owner, const struct identity *who)
{
    return identity_sees(who, owner) || identity_has(who, types[type].roles | ROLE_AUDITOR);
}

int event_format(const struct event *e, struct strbuf *out)
{
    char time[CLOCK_RFC3339_SIZE];
    struct json_text t = json_text_begin(out, '{');
    clock_format_rfc3339(e->time_ns, time);
    json_text_int(&t, "seq", (int64_t)e->seq);
    json_text_string(&t, "time", time);
    json_text_string(&t, "type", event_type_name(e->type));
    json_text_bytes(&t, "id", event_id(e), strlen(event_id(e)));
    if (*event_owner(e))
        json_text_string(&t, "owner", event_owner(e));
    int r = *event_data(e) ? strbuf_printf(out, ",\"data\":%s", event_data(e)) : 0;
    return json_text_end(&t, '}') < 0 ? -1 : r;
}
