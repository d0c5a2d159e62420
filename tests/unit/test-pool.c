/* SPDX-License-Identifier: Apache-2.0 */
/* Which members of the pool a create is given. */
#include "sandbox/pool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/map.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"
#include "sandbox/internal.h"
#include "tests/unit/tap.h"

static uv_loop_t loop;
static struct runtime_host host; /* without a cluster, which its runtime refuses by name */
static struct manager manager = {.options = {.loop = &loop, .host = &host}};
static int some; /* in place of what a runtime has: it is not looked into */

static struct sandbox *add_member(struct sandbox *sb, const struct spec *spec, bool lives)
{
    *sb = (struct sandbox){
        .manager = &manager, .state = SANDBOX_READY, .instance = lives ? (void *)&some : NULL};
    spec_copy(&sb->spec, spec);
    list_init(&sb->pool_node);
    ok(pool_expect(manager.pool), "one more is wanted");
    pool_on_ready(manager.pool, sb);
    return sb;
}

static void test_members(const struct spec *spec)
{
    static struct sandbox gone, lost, broken, there;
    add_member(&gone, spec, false);
    add_member(&lost, spec, true)->lost_ms = 1;
    /* Its connection has ended, and its runtime has yet to say that its processes have. */
    add_member(&broken, spec, true)->state = SANDBOX_CRASHED;
    add_member(&there, spec, true);
    ok(pool_claim(manager.pool, spec) == &there,
       "one that has ended, or whose connection is lost or broken, is passed over");
    ok(!pool_claim(manager.pool, spec), "and given to no other create");
    ok(pool_counts(manager.pool).ready == 3, "they are the pool's until they are gone");
    pool_on_end(manager.pool, &gone);
    pool_on_end(manager.pool, &lost);
    pool_on_end(manager.pool, &broken);
    spec_done(&gone.spec);
    spec_done(&lost.spec);
    spec_done(&broken.spec);
    spec_done(&there.spec);
}

static void test_weaker(const struct spec *spec)
{
    static struct sandbox open;
    struct spec weaker;
    spec_copy(&weaker, spec);
    weaker.accept_weaker[WALL_NETWORK] = true;
    add_member(&open, &weaker, true);
    ok(!pool_claim(manager.pool, spec),
       "one without a wall is not for a caller who did not accept that");
    ok(pool_claim(manager.pool, &weaker) == &open, "but for one who did");
    spec_done(&open.spec);
    spec_done(&weaker);
}

static void test_refused(const struct spec *spec)
{
    static struct sandbox there;
    struct sandbox_maker by = {.key = "", .address = ""};
    struct error err = {0};
    add_member(&there, spec, true);
    ok(!sandbox_create(&manager, spec, &by, NULL, NULL, false, &err) &&
           strstr(err.message, "max_sandboxes"),
       "what refuses a fresh one keeps those made ahead, too: %s", err.message);
    ok(pool_counts(manager.pool).ready == 1, "the pool has it still");
    pool_on_end(manager.pool, &there);
    spec_done(&there.spec);
}

static unsigned n_stops;

static void count_stop(struct runtime_instance *in)
{
    (void)in;
    n_stops++;
}

/* As the manager makes one, with a runtime that takes its time to end it. */
static void add_whole_member(struct sandbox *sb, const struct spec *spec)
{
    static const struct runtime_ops slow = {.name = "slow", .stop = count_stop};
    add_member(sb, spec, true);
    sb->ops = &slow;
    sb->refs = 1;
    struct list *lists[] = {&sb->waiters_ready,     &sb->waiters_gone,  &sb->idle_node,
                            &sb->retired_node,      &sb->lost_node,     &sb->gateway_reports,
                            &sb->network_questions, &sb->record_shares, &sb->execs,
                            &sb->running,           &sb->port_streams,  &sb->dirty_node,
                            &sb->expiring_node};
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        list_init(lists[i]);
}

/* The demand has fallen: sandboxes are not gone when their deletion returns. */
static void test_shrinking(const struct spec *spec)
{
    static struct sandbox members[4];
    for (size_t i = 0; i < ELEMENTS(members); i++)
        add_whole_member(&members[i], spec);
    alarm(60); /* of a loop that waits for them */
    pool_shrink(manager.pool, 1);
    alarm(0);
    ok(n_stops == 3 && members[3].state == SANDBOX_READY, "the oldest are asked to go, once each");
    pool_shrink(manager.pool, 1);
    ok(n_stops == 3, "and the one that is wanted stays while they go");
    pool_shrink(manager.pool, 0);
    ok(n_stops == 4, "until fewer are wanted");
    for (size_t i = 0; i < ELEMENTS(members); i++) {
        pool_on_end(manager.pool, &members[i]);
        spec_done(&members[i].spec);
    }
    ok(pool_counts(manager.pool).ready == 0, "then none is left");
}

#define LARGE 33000

static void test_records(const struct spec *spec)
{
    struct sandbox_maker by = {.key = "", .address = ""};
    const struct runtime_ops *kube = runtime_find("kube"), *local = runtime_find("local");
    struct spec large;
    manager.options.store = (void *)&some;
    spec_copy(&large, spec);
    strv_free(large.env);
    large.env = xcalloc(2, sizeof(*large.env));
    large.env[0] = xcalloc(LARGE + 1, 1);
    memset(large.env[0], 'x', LARGE);
    ok(sandbox_record_fits(&manager, kube, spec, &by, NULL, NULL), "a record fits a pod");
    ok(!sandbox_record_fits(&manager, kube, &large, &by, NULL, NULL),
       "one that does not is known before a sandbox that was made ahead is used up for it");
    ok(sandbox_record_fits(&manager, local, &large, &by, NULL, NULL),
       "where no runtime keeps it, any does");
    manager.options.store = NULL;
    spec_done(&large);
}

int main(void)
{
    struct spec spec;
    spec_init(&spec);
    free(spec.runtime);
    spec.runtime = xstrdup("kube");
    uv_loop_init(&loop);
    manager.by_id = map_new();
    manager.by_alias = map_new();
    manager.owners = map_new();
    list_init(&manager.all);
    manager.pool = pool_new(&manager, &(struct pool_options){.config = {.size = 4}, .spec = &spec});
    test_members(&spec);
    test_weaker(&spec);
    test_refused(&spec);
    test_shrinking(&spec);
    test_records(&spec);
    pool_close(manager.pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    pool_free(manager.pool);
    uv_loop_close(&loop);
    map_free(manager.by_id);
    map_free(manager.by_alias);
    map_free(manager.owners);
    spec_done(&spec);
    return tap_done();
}
