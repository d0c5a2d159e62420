/* SPDX-License-Identifier: Apache-2.0 */
/* Which records of pods that the store does not know a daemon believes, and which it knows to be
 * removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/map.h"
#include "sandbox/internal.h"
#include "tests/unit/tap.h"

static struct manager manager;
static struct runtime_host host; /* without a cluster, which its runtime refuses by name */
static struct sandbox known = {.id = "sbx-known", .generation = "first"};
static char why[512];
static const char *owner = "";
static char state[] = "/tmp/rebuild-XXXXXX";
static uv_loop_t loop;

static bool is_owner_known(void *data, const char *name)
{
    (void)data;
    return strcmp(name, "ended") != 0;
}

/* What a daemon makes of this record; members are those behind the runtime's id. */
static int rebuild(const char *members)
{
    char record[2048];
    struct error err = {0};
    snprintf(record, sizeof(record), "{\"runtime_id\":\"sbx-pod\",%s}", members);
    struct sandbox_remains r = {.runtime_id = "sbx-pod",
                                .record = record,
                                .len = strlen(record),
                                .owner = owner,
                                .is_owner_known = is_owner_known};
    int result = manager_rebuild(&manager, &r, &err);
    snprintf(why, sizeof(why), "%s", err.message);
    return result;
}

/* Another control plane, with what the one before has written. */
static void begin_control(void)
{
    struct error err = {0};
    store_close(steal_ptr(manager.options.store));
    tombstones_free(&manager);
    manager.options.store = store_open(state, &loop, &err);
    if (!manager.options.store || tombstones_load(&manager, &err) < 0)
        ok(false, "the store: %s", err.message);
}

#define KUBE_SPEC "\"spec\":{\"runtime\":\"kube\"}"

/* Its deletion was begun by a control plane that died. */
static void test_tombstones(void)
{
    struct sandbox removed = {.manager = &manager, .generation = "third", .runtime_id = "sbx-pod"};
    struct sandbox elsewhere = {
        .manager = &manager, .generation = "fourth", .runtime_id = "sbx-elsewhere"};
    begin_control();
    sandbox_bury(&removed, NULL, NULL);
    sandbox_bury(&elsewhere, NULL, NULL);
    begin_control();
    ok(rebuild("\"id\":\"sbx-pod\",\"generation\":\"third\",\"owner\":\"\"," KUBE_SPEC) == 0,
       "the pod of a sandbox that was to be removed is to be deleted: %s", why);
    ok(rebuild("\"id\":\"sbx-pod\",\"generation\":\"fifth\",\"owner\":\"\"," KUBE_SPEC) < 0,
       "not that of a later one with its name: %s", why);
    manager_rebuilt(&manager);
    begin_control();
    ok(map_count(manager.tombstones) == 1 && map_find(manager.tombstones, "third"),
       "of those of which nothing was found none is left");
    manager_rebuilt(&manager);
    begin_control();
    ok(!manager.tombstones, "nor of the other one, when its pod is gone");
    store_close(steal_ptr(manager.options.store));
}

static void test_known_names(void)
{
    ok(rebuild("\"id\":\"sbx-known\",\"generation\":\"first\",\"owner\":\"\"," KUBE_SPEC) == 0,
       "the pod of a sandbox that is known as ended is to be deleted: %s", why);
    ok(rebuild("\"id\":\"sbx-known\",\"generation\":\"second\",\"owner\":\"\"," KUBE_SPEC) < 0 &&
           strstr(why, "has its id"),
       "that of another one with its id is left: %s", why);
    ok(rebuild("\"id\":\"sbx-known\",\"owner\":\"\"," KUBE_SPEC) < 0 && strstr(why, "has its id"),
       "so is one that does not say which one it is: %s", why);
    owner = "key";
    ok(rebuild("\"id\":\"sbx-other\",\"alias\":\"name\",\"owner\":\"key\"," KUBE_SPEC) < 0 &&
           strstr(why, "has its name"),
       "so is one whose name another sandbox has: %s", why);
    owner = "";
    ok(rebuild("\"id\":\"sbx-other\"") < 0, "so is one without a spec: %s", why);
}

/* What a create would be refused for. */
static void test_refusals(void)
{
    static const struct {
        const char *owner, *members, *word;
    } cases[] = {
        {"other", KUBE_SPEC, "another owner"},
        {"ended", "\"owner\":\"ended\"," KUBE_SPEC, "is not a key of this daemon"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"cidrs\":[\"10.0.0.0/8\"]}", "needs a cluster"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"lent\":[\"10.0.0.1:80\"]}", "needs a cluster"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"intercept\":{}}", "intercept"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"workdir\":\"/x\"}", "needs a cluster"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char members[512];
        snprintf(members, sizeof(members), "\"id\":\"sbx-new\",%s", cases[i].members);
        owner = cases[i].owner;
        ok(rebuild(members) < 0 && strstr(why, cases[i].word), "%s is left: %s", cases[i].members,
           why);
    }
    owner = "";
}

int main(void)
{
    char command[64];
    _cleanup_free_ char *key = sandbox_alias_key("key", "name");
    manager.by_id = map_new();
    manager.by_alias = map_new();
    manager.options.host = &host;
    manager.options.store = (struct store *)&manager; /* of which only the presence counts here */
    map_put(manager.by_id, known.id, &known);
    map_put(manager.by_alias, key, &known);
    test_known_names();
    test_refusals();
    manager.options.store = NULL;
    uv_loop_init(&loop);
    if (!mkdtemp(state))
        abort();
    test_tombstones();
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    snprintf(command, sizeof(command), "rm -rf %s", state);
    if (system(command))
        abort();
    map_free(manager.by_id);
    map_free(manager.by_alias);
    return tap_done();
}
