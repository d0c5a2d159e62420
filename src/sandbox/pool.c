/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "event/event-journal.h"
#include "sandbox/internal.h"

#define POOL_QUIET_MS     20 /* since the last claim, so that a burst is not slowed by refilling */
#define POOL_REFILL_MS    2  /* when few are left, the burst must pay for its own */
#define POOL_RECONCILE_MS 5000
#define POOL_RETRY_MS     1000 /* after a failed create */
#define POOL_MAX_DEFAULT  10
#define DEMAND_SLOTS      60 /* creations of the last minute, a slot a second */

struct pool {
    struct manager *manager;
    struct pool_options options;
    struct list ready;
    size_t n_ready, n_creating;
    struct pool_counts counts;
    struct loop_timer refill, reconcile;
    uint32_t demand[DEMAND_SLOTS];
    int64_t demand_second; /* that the newest slot is for */
    enum event_type told;  /* whether it was full or empty when the journal last heard of it */
    bool closing;
};

/* --- how many */

static void advance_demand(struct pool *p)
{
    int64_t now = clock_mono_ms() / 1000;
    /* One slot per second, used in a circle. Seconds without a claim have to be emptied, and after
     * a long quiet time one round empties them all. */
    for (int64_t s = p->demand_second + 1; s <= now && s <= p->demand_second + DEMAND_SLOTS; s++)
        p->demand[s % DEMAND_SLOTS] = 0;
    p->demand_second = now;
}

static size_t pool_wanted(struct pool *p)
{
    if (!p->options.config.autosize)
        return p->options.config.size;
    size_t sum = 0, max = p->options.config.max ? p->options.config.max : POOL_MAX_DEFAULT;
    advance_demand(p);
    for (size_t i = 0; i < DEMAND_SLOTS; i++)
        sum += p->demand[i];
    if (sum < p->options.config.min)
        sum = p->options.config.min;
    return sum < max ? sum : max;
}

/* --- refilling */

static void pool_schedule(struct pool *p, uint64_t ms)
{
    if (!p->closing && p->n_ready + p->n_creating < pool_wanted(p) &&
        !loop_timer_active(&p->refill))
        loop_timer_start(&p->refill, ms);
}

static void on_refill(void *data)
{
    struct pool *p = data;
    struct error err = {0};
    /* One at a time: a pool that is filled must not take the host's processors from callers, and
     * one that cannot be filled shows it once and not a hundred times. */
    if (p->closing || p->n_creating || p->n_ready >= pool_wanted(p))
        return;
    p->n_creating = 1;
    if (!sandbox_create_pooled(p->manager, p->options.spec, &err)) {
        p->n_creating = 0; /* also where pool_on_end() has counted it: its start was refused */
        log_warn("a sandbox for the pool cannot be made: %s", err.message);
        pool_schedule(p, POOL_RETRY_MS);
    }
}

bool pool_expect(struct pool *p)
{
    if (!p || p->closing || p->n_ready + p->n_creating >= pool_wanted(p))
        return false;
    p->n_creating++;
    return true;
}

const struct spec *pool_spec(const struct pool *p)
{
    return p->options.spec;
}

/* Only the change from one to the other is announced: a pool in use is never quite full. */
static void announce_pool(struct pool *p, enum event_type type)
{
    char data[64];
    if (p->told == type)
        return;
    p->told = type;
    snprintf(data, sizeof(data), "{\"ready\":%zu,\"wanted\":%zu}", p->n_ready, pool_wanted(p));
    event_append(p->manager->options.events, type, "warm", "", data);
}

void pool_on_ready(struct pool *p, struct sandbox *sb)
{
    p->n_creating--;
    p->n_ready++;
    list_append(&p->ready, &sb->pool_node);
    log_debug("a sandbox for the pool is ready id=%s", sb->id);
    if (p->n_ready >= pool_wanted(p))
        announce_pool(p, EVENT_POOL_FULL);
    pool_schedule(p, POOL_REFILL_MS);
}

/* One that never was in the list ended while it was made. */
void pool_on_end(struct pool *p, struct sandbox *sb)
{
    if (list_empty(&sb->pool_node)) {
        p->n_creating--;
    } else {
        list_remove(&sb->pool_node);
        p->n_ready--;
    }
    pool_schedule(p, POOL_RETRY_MS);
}

static size_t count_live(const struct pool *p)
{
    size_t n = 0;
    list_for_each(sb, &p->ready, struct sandbox, pool_node)
        n += sb->state == SANDBOX_READY;
    return n;
}

/* A deletion ends in a later turn of the loop, and until then its sandbox is in the list
 * (pool_on_end). So each is asked to go once, and those that are going are counted as gone. */
void pool_shrink(struct pool *p, size_t wanted)
{
    size_t live = count_live(p);
    list_for_each_safe(sb, &p->ready, struct sandbox, pool_node) {
        if (live <= wanted)
            return;
        if (sb->state != SANDBOX_READY)
            continue;
        live--;
        sandbox_delete(sb, NULL);
    }
}

static void on_reconcile(void *data)
{
    struct pool *p = data;
    if (!p->closing)
        pool_shrink(p, pool_wanted(p));
    pool_schedule(p, POOL_REFILL_MS);
}

/* --- claiming */

/* One that was found by another name is the same image. */
static bool same_image(const struct spec *a, const struct spec *b)
{
    if (!a->image || !b->image)
        return !a->image && !b->image;
    return a->image_digest && b->image_digest && strcmp(a->image_digest, b->image_digest) == 0;
}

static bool pool_member_fits(const struct sandbox *sb, const struct spec *want)
{
    const struct spec *have = &sb->spec;
    if (strcmp(have->runtime, want->runtime) != 0 || want->n_mounts || want->workdir ||
        memcmp(&have->workspace, &want->workspace, sizeof(want->workspace)) != 0 ||
        memcmp(&have->cache, &want->cache, sizeof(want->cache)) != 0 || want->snapshot ||
        want->tool_net || spec_has_network(want) || want->intercept || !same_image(have, want) ||
        memcmp(&have->limits, &want->limits, sizeof(have->limits)) != 0)
        return false;
    /* The member was made with the operator's leave to do without a wall. A caller that did not
     * give that leave, or asked for the wall, must not get it. */
    for (int w = 0; w < _WALL_MAX; w++)
        if ((want->asked[w] || have->accept_weaker[w]) && !want->accept_weaker[w] &&
            !sb->effective.by[w])
            return false;
    return true;
}

/* One that has ended, or whose connection is lost, may be on its way out. One whose connection
 * broke is CRASHED at once, and stays in the list until its runtime has said that its processes
 * ended. */
static struct sandbox *pool_find(struct pool *p, const struct spec *spec)
{
    list_for_each(sb, &p->ready, struct sandbox, pool_node)
        if (sb->state == SANDBOX_READY && sb->instance && !sb->lost_ms &&
            pool_member_fits(sb, spec))
            return sb;
    return NULL;
}

struct sandbox *pool_claim(struct pool *p, const struct spec *spec)
{
    if (!p || p->closing)
        return NULL;
    advance_demand(p);
    p->demand[p->demand_second % DEMAND_SLOTS]++;
    struct sandbox *sb = pool_find(p, spec);
    if (sb) {
        list_remove(&sb->pool_node);
        p->n_ready--;
        p->counts.hits++;
    } else {
        p->counts.misses++;
    }
    if (p->n_ready == 0 && p->told)
        announce_pool(p, EVENT_POOL_EMPTY);
    /* While claims come one after the other, refilling waits: making a sandbox would compete with
     * the callers' own commands. It does not wait where the pool is nearly empty. */
    loop_timer_stop(&p->refill); /* again from now */
    pool_schedule(p, p->n_ready > pool_wanted(p) / 4 ? POOL_QUIET_MS : POOL_REFILL_MS);
    return sb;
}

/* --- life */

struct pool *pool_new(struct manager *m, const struct pool_options *o)
{
    if (!o->config.size && !o->config.autosize)
        return NULL;
    struct pool *p = new0(struct pool);
    p->manager = m;
    p->options = *o;
    p->demand_second = clock_mono_ms() / 1000;
    list_init(&p->ready);
    loop_timer_init(&p->refill, m->options.loop, on_refill, p);
    loop_timer_init(&p->reconcile, m->options.loop, on_reconcile, p);
    loop_timer_start_every(&p->reconcile, POOL_RECONCILE_MS);
    pool_schedule(p, 0);
    return p;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    p->closing = true;
    loop_timer_close(&p->refill, NULL, NULL);
    loop_timer_close(&p->reconcile, NULL, NULL);
}

void pool_free(struct pool *p)
{
    free(p);
}

struct pool_counts pool_counts(const struct pool *p)
{
    struct pool_counts c = {0};
    if (!p)
        return c;
    c = p->counts;
    c.ready = p->n_ready;
    c.creating = p->n_creating;
    return c;
}
