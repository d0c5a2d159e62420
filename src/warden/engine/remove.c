/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox that an engine holds. A broker kills what runs of it, says so, and then has
 * the engine forget it; where the engine does not answer, another one tries later. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/engine/internal.h"

#define RETRY_MS 3000

struct removal {
    char id[PLAN_ID_SIZE];
    struct cell *cell; /* to be ended when nothing of it runs; NULL: ended, or never was */
    struct engine_order order;
    bool cleared; /* nothing is mounted for it */
    struct program_task task;
    struct watch *timer;
};

static void removal_start(struct removal *m);

static void end_cell(struct removal *m, const struct engine_message *message)
{
    struct cell *s = steal_ptr(m->cell);
    if (!s)
        return;
    if (message) {
        s->wait_status = message->wait_status;
        s->oom_kills = message->oom_kills;
    }
    cell_end(s);
}

static void on_word(struct program_task *t, const void *answer)
{
    struct removal *m = container_of(t, struct removal, task);
    const struct engine_message *message = answer;
    if (message->kind == ENGINE_CLEARED)
        m->cleared = true;
    if (message->kind == ENGINE_ENDED)
        end_cell(m, message);
}

static void on_retry(void *data)
{
    struct removal *m = data;
    m->timer = NULL;
    removal_start(m);
}

static void removal_finish(struct removal *m)
{
    end_cell(m, NULL);
    map_remove(engines_of(m->task.warden)->removals, m->id);
    free(m);
}

/* This warden may not ask its engine, which still knows the container: removing it is left to a
 * warden that may. */
static void removal_leave(struct removal *m)
{
    log_warn("a container stays with %s, which is not in 'engines' id=%s",
             oci_backend_name((enum oci_backend)m->order.backend), m->id);
    removal_finish(m);
}

static void on_broker_end(struct program_task *t, int wait_status)
{
    struct removal *m = container_of(t, struct removal, task);
    struct engines *e = engines_of(t->warden);
    bool done = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (!done && m->cleared && !e->probe[m->order.backend].enabled)
        return removal_leave(m);
    if (!done) {
        log_debug("a container is not removed yet id=%s status=%d", m->id, wait_status);
        m->timer = watcher_add_timer(t->warden->watcher, RETRY_MS, on_retry, m);
        return;
    }
    removal_finish(m);
}

static void removal_start(struct removal *m)
{
    struct program_task *t = &m->task;
    if (program_task_start(t, engine_exec, &m->order, sizeof(m->order), -1) == 0)
        return;
    log_warn("cannot start a broker to remove a container id=%s", m->id);
    m->timer = watcher_add_timer(t->warden->watcher, RETRY_MS, on_retry, m);
}

void engine_remove(struct warden *w, const struct engine_record *r, struct cell *s)
{
    struct removal *m = new0(struct removal);
    m->task = (struct program_task){.warden = w,
                                    .answer_size = sizeof(struct engine_message),
                                    .on_answer = on_word,
                                    .on_end = on_broker_end,
                                    .channel_fd = -1};
    m->cell = s;
    snprintf(m->id, sizeof(m->id), "%s", r->plan.id);
    engine_order_from_record(w, ENGINE_REMOVE, r, &m->order);
    map_put(engines_of(w)->removals, m->id, m);
    removal_start(m);
}

bool engine_is_removing(const struct warden *w, const char *id)
{
    return map_find(engines_of(w)->removals, id);
}

bool engine_is_ending(const struct warden *w, bool must)
{
    size_t cursor = 0;
    for (struct removal *m; (m = map_next(engines_of(w)->removals, &cursor));)
        if (!must || !m->cleared)
            return true;
    return false;
}

void engine_removals_stop(struct warden *w)
{
    size_t cursor = 0;
    for (struct removal *m; (m = map_next(engines_of(w)->removals, &cursor));) {
        watch_remove(m->timer);
        program_task_stop(&m->task);
        free(m);
    }
}
