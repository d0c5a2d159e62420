/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls have an intent and no end. Kept in memory; after a start it is read from the records
 * since the oldest open one, whose number is stored with each batch. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "audit/internal.h"
#include "proto/plan.h"

#define ACTION_SIZE 64
#define TOOL_SIZE   64

struct open_call {
    struct list node;
    uint64_t seq;
    char call_id[AUDIT_CALL_ID_SIZE];
    char action_id[ACTION_SIZE], tool[TOOL_SIZE]; /* of its intent, or "" */
    char sandbox[PLAN_ID_SIZE];                   /* the lasting one it was let into, or "" */
};

/* A name that does not fit is left out, never cut. */
static void copy_name(char *to, size_t size, const char *from, size_t len)
{
    if (from && len < size)
        memcpy(to, from, len);
}

static void call_set_names(struct open_call *c, const struct audit_record *intent)
{
    if (intent->action_id)
        copy_name(c->action_id, sizeof(c->action_id), intent->action_id, strlen(intent->action_id));
    if (intent->tool)
        copy_name(c->tool, sizeof(c->tool), intent->tool, strlen(intent->tool));
    if (intent->sandbox)
        copy_name(c->sandbox, sizeof(c->sandbox), intent->sandbox, strlen(intent->sandbox));
}

void audit_calls_apply(struct audit *a, int flags, const char *call_id, uint64_t seq,
                       const struct audit_record *intent)
{
    if (!call_id || !*call_id)
        return;
    if (flags & AUDIT_KIND_OPENS) {
        struct open_call *c = new0(struct open_call);
        c->seq = seq;
        snprintf(c->call_id, sizeof(c->call_id), "%s", call_id);
        if (intent) /* whose names may be those of the entry that goes below */
            call_set_names(c, intent);
        list_append(&a->open_in_order, &c->node);
        struct open_call *old = map_put(a->open, call_id, c);
        if (old) {
            list_remove(&old->node);
            free(old);
        }
    } else if (flags & AUDIT_KIND_ENDS) {
        struct open_call *c = map_remove(a->open, call_id);
        if (c)
            list_remove(&c->node);
        free(c);
    }
}

struct audit_record audit_calls_complete(const struct audit *a, const struct audit_record *r)
{
    struct audit_record whole = *r;
    const struct open_call *c = r->call_id ? map_find(a->open, r->call_id) : NULL;
    if (c && !whole.action_id)
        whole.action_id = c->action_id;
    if (c && !whole.tool)
        whole.tool = c->tool;
    if (c && !whole.sandbox)
        whole.sandbox = c->sandbox;
    return whole;
}

void audit_calls_read(struct audit *a, const char *line, size_t len, uint64_t seq)
{
    struct audit_member kind, call;
    if (!audit_record_find(line, len, "kind", &kind) ||
        !audit_record_find(line, len, "call", &call) || call.text_len >= AUDIT_CALL_ID_SIZE)
        return;
    char kind_name[32] = "", call_id[AUDIT_CALL_ID_SIZE] = "";
    memcpy(call_id, call.text, call.text_len);
    if (kind.text_len < sizeof(kind_name))
        memcpy(kind_name, kind.text, kind.text_len);
    int flags = audit_kind_flags(kind_name);
    if (flags > 0)
        audit_calls_apply(a, flags, call_id, seq, NULL);
    if (flags > 0 && (flags & AUDIT_KIND_OPENS)) {
        /* An earlier control plane wrote this intent, so nothing but the line itself has the
         * names. */
        struct audit_member action, tool, sandbox;
        struct open_call *c = map_find(a->open, call_id);
        if (c && audit_record_find(line, len, "action", &action))
            copy_name(c->action_id, sizeof(c->action_id), action.text, action.text_len);
        if (c && audit_record_find(line, len, "tool", &tool))
            copy_name(c->tool, sizeof(c->tool), tool.text, tool.text_len);
        if (c && audit_record_find(line, len, "sandbox", &sandbox))
            copy_name(c->sandbox, sizeof(c->sandbox), sandbox.text, sandbox.text_len);
    }
}

bool audit_is_open(const struct audit *a, const char *call_id)
{
    return a && call_id && map_find(a->open, call_id);
}

bool audit_is_open_in(const struct audit *a, const char *call_id, const char *sandbox)
{
    const struct open_call *c = a && call_id ? map_find(a->open, call_id) : NULL;
    return c && strcmp(c->sandbox, sandbox) == 0;
}

uint64_t audit_calls_lowest(const struct audit *a)
{
    return list_empty(&a->open_in_order)
               ? 0
               : container_of(a->open_in_order.next, struct open_call, node)->seq;
}

size_t audit_calls_up_to(const struct audit *a, uint64_t seq, uint64_t *ret, size_t max)
{
    size_t n = 0;
    list_for_each(c, &a->open_in_order, struct open_call, node) {
        if (c->seq > seq || n == max)
            break;
        ret[n++] = c->seq;
    }
    return n;
}

bool audit_calls_at(const struct audit *a, uint64_t seq, char ret[AUDIT_CALL_ID_SIZE])
{
    list_for_each(c, &a->open_in_order, struct open_call, node) {
        if (c->seq != seq)
            continue;
        memcpy(ret, c->call_id, AUDIT_CALL_ID_SIZE);
        return true;
    }
    return false;
}

void audit_calls_free(struct audit *a)
{
    list_for_each_safe(c, &a->open_in_order, struct open_call, node) {
        list_remove(&c->node);
        free(c);
    }
    map_free(a->open);
}

void audit_settle(struct audit *a, bool (*lives)(void *data, const char *call_id), void *data)
{
    if (!a)
        return;
    size_t n = 0;
    list_for_each_safe(c, &a->open_in_order, struct open_call, node) {
        if (c->seq > a->recovered_seq || lives(data, c->call_id))
            continue;
        char call_id[AUDIT_CALL_ID_SIZE];
        memcpy(call_id, c->call_id, sizeof(call_id));
        struct audit_record r = {
            .kind = "interrupted",
            .call_id = call_id,
            .outcome = "unknown",
            .details_text = "{\"reason\":\"the control plane ended before this call did; it may "
                            "have run, in part or to its end\"}"};
        audit_note(a, &r);
        n++;
    }
    if (n)
        log_warn("audit: calls without a known end count=%zu", n);
}
