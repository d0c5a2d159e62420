/* SPDX-License-Identifier: Apache-2.0 */
/* What one sandbox or one key may have of what all share.
 *
 * A sandbox has a fixed number of connections, and of lookups. A key may have as many as are free:
 * alone it gets half of everything, a second one half of the rest, and so on. So whatever one key
 * takes, with however many sandboxes, there is room for the next. Connections that are only told of
 * their refusal are counted apart, or a flood of them would be one more way to take all. */
#include "gateway/session-internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* Lookups of one label that the resolver has at a time, of GATEWAY_LOOKUPS in all. */
#define LOOKUPS_PER_LABEL 2
/* Lines of one label in the log within LOG_WINDOW_MS. */
#define LOG_LINES     50
#define LOG_WINDOW_MS 10000

const char *session_share_refusal(const struct session *mine)
{
    const struct gateway *g = mine->gateway;
    size_t of_label = 0, of_owner = 0;
    list_for_each(s, &g->sessions, struct session, node) {
        if (s == mine || s->state == SESSION_REFUSE)
            continue;
        of_label += strcmp(s->label, mine->label) == 0;
        of_owner += s->owner == mine->owner;
    }
    size_t others = g->n_sessions - 1;
    if (others >= g->max_sessions)
        return "all sandboxes together have too many connections";
    if (of_label >= g->max_sessions_per_label)
        return "this sandbox has too many connections";
    if (of_owner >= g->max_sessions - others)
        return "the sandboxes of this key have too many connections: the rest is reserved for "
               "others";
    return NULL;
}

bool session_share_lookup(const struct session *mine)
{
    size_t of_label = 0, of_owner = 0, all = 0;
    list_for_each(l, &mine->gateway->lookups, struct lookup, node) {
        of_label += strcmp(l->label, mine->label) == 0;
        of_owner += l->owner == mine->owner;
        all++;
    }
    return all < GATEWAY_LOOKUPS && of_label < LOOKUPS_PER_LABEL &&
           of_owner < GATEWAY_LOOKUPS - all;
}

/* A loop of connects must not fill the log. Labels that share a slot share its lines. */
bool session_may_log(const struct session *s)
{
    size_t hash = 0;
    for (const char *c = s->label; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    struct gateway_log_share *slot = &s->gateway->log_shares[hash % GATEWAY_LOG_SHARES];
    int64_t now = clock_mono_ms();
    if (!slot->from_ms || now - slot->from_ms >= LOG_WINDOW_MS) {
        if (slot->n > LOG_LINES)
            log_info("gateway left %u lines about such connections out sandbox=%s",
                     (unsigned)(slot->n - LOG_LINES), s->label);
        *slot = (struct gateway_log_share){.from_ms = now};
    }
    return ++slot->n <= LOG_LINES;
}
