/* Which calls have an intent and no end. Kept in memory; after a start it is read from the records
 * since the oldest open one, whose number is stored with each batch. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "guard/audit-internal.h"

struct open_call {
    struct list node;
    uint64_t seq;
    char call_id[AUDIT_CALL_ID_SIZE];
};

void audit_calls_apply(struct audit *a, int flags, const char *call_id, uint64_t seq)
{
    if (!call_id || !*call_id)
        return;
    if (flags & AUDIT_KIND_OPENS) {
        struct open_call *c = new0(struct open_call);
        c->seq = seq;
        snprintf(c->call_id, sizeof(c->call_id), "%s", call_id);
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
        audit_calls_apply(a, flags, call_id, seq);
}

bool audit_is_open(const struct audit *a, const char *call_id)
{
    return a && call_id && map_find(a->open, call_id);
}

uint64_t audit_calls_lowest(const struct audit *a)
{
    return list_empty(&a->open_in_order)
               ? 0
               : container_of(a->open_in_order.next, struct open_call, node)->seq;
}

void audit_calls_free(struct audit *a)
{
    list_for_each_safe(c, &a->open_in_order, struct open_call, node)
    {
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
    list_for_each_safe(c, &a->open_in_order, struct open_call, node)
    {
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
