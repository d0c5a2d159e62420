/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/retire.h"

#include "base/clock.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

#define RETIRED_MAX        32 /* beyond which the oldest go, quiet or not */
#define RETIRED_BATCH      8  /* together, when it is quiet */
#define RETIRED_BUSY       2  /* together, beside requests, which all of them delay */
#define RETIRED_AGE_MS     250
#define RETIRED_QUIET_MS   10
#define RETIRED_MEASURE_MS 5

static void delete_oldest(struct manager *m, size_t count)
{
    struct retirement *r = &m->retirement;
    while (count-- && !list_empty(&r->list))
        sandbox_delete(container_of(r->list.next, struct sandbox, retired_node), NULL);
}

static void on_timer(void *data)
{
    struct manager *m = data;
    struct retirement *r = &m->retirement;
    if (list_empty(&r->list))
        return;
    int64_t now = clock_mono_ms();
    const struct sandbox *oldest = container_of(r->list.next, struct sandbox, retired_node);
    if (now - r->busy_ms >= RETIRED_QUIET_MS)
        delete_oldest(m, RETIRED_BATCH);
    else if (now - oldest->retired_ms >= RETIRED_AGE_MS)
        delete_oldest(m, RETIRED_BUSY);
    if (!list_empty(&r->list))
        loop_timer_start(&r->timer, RETIRED_MEASURE_MS);
}

void retirement_init(struct manager *m)
{
    list_init(&m->retirement.list);
    loop_timer_init(&m->retirement.timer, m->options.loop, on_timer, m);
}

void retirement_postpone(struct manager *m)
{
    m->retirement.busy_ms = clock_mono_ms();
}

void retirement_remove(struct sandbox *sb)
{
    if (!sandbox_is_retired(sb))
        return;
    list_remove(&sb->retired_node);
    sb->manager->retirement.count--;
}

bool sandbox_is_retired(const struct sandbox *sb)
{
    return !list_empty(&sb->retired_node);
}

/* Owners that are near a limit get their room back at once. */
static bool has_room(const struct sandbox *sb)
{
    const struct manager *m = sb->manager;
    return !m->closing && m->counts.sandboxes + RETIRED_MAX < m->options.config.max_sandboxes / 2 &&
           owner_has_room(sb);
}

void sandbox_retire(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    struct retirement *r = &m->retirement;
    if (sandbox_is_retired(sb))
        return;
    if (sb->state != SANDBOX_READY || !list_empty(&sb->running) || !has_room(sb)) {
        sandbox_delete(sb, NULL);
        return;
    }
    sb->retired_ms = clock_mono_ms();
    list_append(&r->list, &sb->retired_node);
    if (++r->count > RETIRED_MAX)
        delete_oldest(m, 1);
    if (!loop_timer_active(&r->timer))
        loop_timer_start(&r->timer, RETIRED_QUIET_MS);
}
