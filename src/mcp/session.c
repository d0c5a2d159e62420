/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: their table, their ends, and what others may know of them. */
#include "mcp/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/map.h"
#include "base/random.h"
#include "mcp/internal.h"
#include "mcp/stream.h"

#define SESSION_ID_LEN 32 /* 165 bits */

static const char *const revision_names[] = {
    [MCP_2024_11_05] = "2024-11-05",
    [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18",
    [MCP_2025_11_25] = "2025-11-25",
};
static_assert(ELEMENTS(revision_names) == _MCP_REVISION_MAX, "a name per revision");

const char *mcp_revision_name(enum mcp_revision revision)
{
    return revision_names[revision];
}

int mcp_revision_parse(const char *name, enum mcp_revision *ret)
{
    for (int i = 0; i < _MCP_REVISION_MAX; i++)
        if (strcmp(revision_names[i], name) == 0) {
            *ret = (enum mcp_revision)i;
            return 0;
        }
    return -EINVAL;
}

/* --- the table */

static size_t count_of_owner(const struct mcp *m, const char *owner)
{
    size_t n = 0;
    list_for_each(s, &m->all, struct mcp_session, node)
        n += strcmp(s->who.key, owner) == 0;
    return n;
}

static int check_room(const struct mcp *m, const char *owner, struct error *err)
{
    if (m->draining || m->closed)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the daemon is stopping");
    if (m->n_sessions >= m->o.config.max_sessions)
        return error_set(err, ERROR_LIMIT, 0, "there are %zu sessions (mcp_max_sessions)",
                         m->n_sessions);
    if (count_of_owner(m, owner) >= m->o.config.max_sessions_per_key)
        return error_set(err, ERROR_LIMIT, 0,
                         "this key has %zu sessions (mcp_max_sessions_per_key): end one, or wait "
                         "until idle ones are",
                         m->o.config.max_sessions_per_key);
    return 0;
}

struct mcp_session *session_new(struct mcp *m, const struct identity *who, bool with_id,
                                struct error *err)
{
    if (check_room(m, who->key, err) < 0)
        return NULL;
    struct mcp_session *s = new0(struct mcp_session);
    s->mcp = m;
    s->refs = 2; /* the tables' and the caller's */
    s->who = *who;
    s->level = MCP_INFO;
    s->subscriptions = map_new();
    s->next_stream = 1;
    list_init(&s->calls);
    list_init(&s->streams);
    list_append(&m->all, &s->node);
    m->n_sessions++;
    m->sessions_total++;
    if (with_id) {
        random_id(s->id, SESSION_ID_LEN);
        map_put(m->sessions, s->id, s);
    }
    session_touch(s);
    if (!loop_timer_active(&m->tick))
        loop_timer_start_every(&m->tick, MCP_TICK_MS);
    return s;
}

/* The id alone is not enough: a session that was learned from a log is not open to another key. */
struct mcp_session *session_find(struct mcp *m, const char *owner, const char *id)
{
    struct mcp_session *s = map_find(m->sessions, id);
    return s && strcmp(s->who.key, owner) == 0 ? s : NULL;
}

struct mcp_session *session_ref(struct mcp_session *s)
{
    s->refs++;
    return s;
}

void session_unref(struct mcp_session *s)
{
    if (--s->refs > 0)
        return;
    assert(s->ended && list_empty(&s->calls));
    if (s->free_data)
        s->free_data(s->data);
    map_free(s->subscriptions);
    free(s);
}

void session_end(struct mcp_session *s)
{
    if (s->ended)
        return;
    struct mcp *m = s->mcp;
    s->ended = true;
    list_remove(&s->node);
    m->n_sessions--;
    if (*s->id)
        map_remove(m->sessions, s->id);
    /* A cancelled call stays in the list until its handler has finished it: each handler hears of
     * it once. A handler may finish at once and take calls out of the list, so that the list is
     * walked from its beginning after each. */
    for (bool again = true; again;) {
        again = false;
        list_for_each(call, &s->calls, struct mcp_call, node) {
            if (!call->cancelled) {
                call_cancel(call);
                again = true;
                break;
            }
        }
    }
    streams_end(s);
    outlet_unref(steal_ptr(s->loose));
    session_unref(s);
}

void session_touch(struct mcp_session *s)
{
    s->used_ms = clock_mono_ms();
}

bool session_is_idle(const struct mcp_session *s, int64_t now_ms)
{
    return *s->id && list_empty(&s->calls) && !streams_attached(s) &&
           now_ms - s->used_ms >= (int64_t)s->mcp->o.config.session_ttl_ms;
}

/* --- for catalogs */

const char *mcp_session_owner(const struct mcp_session *s)
{
    return s->who.key;
}

const struct identity *mcp_session_identity(const struct mcp_session *s)
{
    return &s->who;
}

bool mcp_session_client_has(const struct mcp_session *s, enum mcp_client_capability capability)
{
    return s->client_has & capability;
}

const struct services *mcp_session_services(const struct mcp_session *s)
{
    return s->mcp->o.services;
}

void mcp_session_set_data(struct mcp_session *s, void *data, void (*free_data)(void *data))
{
    assert(!s->data);
    s->data = data;
    s->free_data = free_data;
}

void *mcp_session_data(const struct mcp_session *s)
{
    return s->data;
}

/* Sends to the client what belongs to no call; params is taken. */
static void session_notify(struct mcp_session *s, const char *method, json_t *params)
{
    if (!s->ended && s->loose && !s->loose->ops->is_full(s->loose))
        outlet_notify(s->loose, method, params);
    json_decref(params);
}

void mcp_session_resource_updated(struct mcp_session *s, const char *uri)
{
    if (map_find(s->subscriptions, uri))
        session_notify(s, "notifications/resources/updated",
                       json_pack("{s:o}", "uri", json_message(uri)));
}

void mcp_session_list_changed(struct mcp_session *s, enum mcp_list list)
{
    static const char *const methods[] = {
        [MCP_LIST_TOOLS] = "notifications/tools/list_changed",
        [MCP_LIST_RESOURCES] = "notifications/resources/list_changed",
        [MCP_LIST_PROMPTS] = "notifications/prompts/list_changed",
    };
    static_assert(ELEMENTS(methods) == _MCP_LIST_MAX, "a method per list");
    session_notify(s, methods[list], NULL);
}
