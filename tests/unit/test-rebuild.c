/* SPDX-License-Identifier: Apache-2.0 */
/* Which records of pods that the store does not know a daemon believes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "sandbox/internal.h"
#include "tests/unit/tap.h"

static struct manager manager;
static struct runtime_host host; /* without a cluster, which its runtime refuses by name */
static struct sandbox known = {.id = "sbx-known", .generation = "first"};
static char why[512];
static const char *owner = "";

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

#define KUBE_SPEC "\"spec\":{\"runtime\":\"kube\"}"

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
        {"ended", "\"owner\":\"ended\"," KUBE_SPEC, "no key of this daemon"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"cidrs\":[\"10.0.0.0/8\"]}", "by address"},
        {"", "\"spec\":{\"runtime\":\"kube\",\"lent\":[\"10.0.0.1:80\"]}", "by address"},
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
    _cleanup_free_ char *key = sandbox_alias_key("key", "name");
    manager.by_id = map_new();
    manager.by_alias = map_new();
    manager.options.host = &host;
    manager.options.store = (struct store *)&manager; /* of which only the presence counts here */
    map_put(manager.by_id, known.id, &known);
    map_put(manager.by_alias, key, &known);
    test_known_names();
    test_refusals();
    map_free(manager.by_id);
    map_free(manager.by_alias);
    return tap_done();
}
