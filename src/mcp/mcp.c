/* SPDX-License-Identifier: Apache-2.0 */
/* The server object: from catalogs to something that serves, and its end. */
#include "mcp/mcp.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "mcp/internal.h"
#include "mcp/stream.h"

static void on_tick(void *data)
{
    struct mcp *m = data;
    int64_t now = clock_mono_ms();
    list_for_each_safe(s, &m->all, struct mcp_session, node) {
        session_ref(s);
        asks_expire(s, now);
        streams_tick(s, now);
        if (session_is_idle(s, now)) {
            log_debug("mcp session is idle and ends key=%s", s->who.key);
            session_end(s);
        }
        session_unref(s);
    }
    if (list_empty(&m->all))
        loop_timer_stop(&m->tick);
}

struct mcp *mcp_new(const struct mcp_options *o, struct error *err)
{
    struct mcp *m = new0(struct mcp);
    m->o = *o;
    list_init(&m->all);
    list_init(&m->waiting);
    m->sessions = map_new();
    if (catalog_load(m, err) < 0) {
        catalog_unload(m);
        map_free(m->sessions);
        free(m);
        return NULL;
    }
    loop_timer_init(&m->tick, o->loop, on_tick, m);
    loop_timer_init(&m->turn, o->loop, streams_on_turn, m);
    return m;
}

void mcp_drain(struct mcp *m)
{
    m->draining = true;
    list_for_each(s, &m->all, struct mcp_session, node)
        streams_drain(s);
}

void mcp_key_ended(struct mcp *m, const char *key)
{
    list_for_each_safe(s, &m->all, struct mcp_session, node) {
        if (strcmp(s->who.key, key) == 0)
            session_end(s);
    }
}

void mcp_close(struct mcp *m)
{
    if (!m || m->closed)
        return;
    m->closed = true;
    while (!list_empty(&m->all))
        session_end(container_of(m->all.next, struct mcp_session, node));
    loop_timer_close(&m->tick, NULL, NULL);
    loop_timer_close(&m->turn, NULL, NULL);
}

void mcp_free(struct mcp *m)
{
    if (!m)
        return;
    catalog_unload(m);
    map_free(m->sessions);
    free(m);
}
