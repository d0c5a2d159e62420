/* SPDX-License-Identifier: Apache-2.0 */
/* What the kube runtime makes of a spec, and of the walls that a pod has found in itself. */
#include "runtime/kube/pod-spec.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "proto/kube.h"
#include "proto/net.h"
#include "proto/walls.h"
#include "runtime/kube/addresses.h"
#include "runtime/kube/walls.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"
#include "tests/unit/tap.h"

#define MIB (1ull << 20)

/* A cluster without an enforcer of policies; and the same where the operator accepts that. */
static const struct proof_report failed = {.state = PROOF_FAILED, .why = "network is not enforced"};
static const struct proof_report given = {.state = PROOF_GIVEN, .witness = "10.0.0.1"};
static const struct pod_network unwalled = {.proof = &failed};
static const struct pod_network accepted = {.proof = &failed, .unproven = true};

static bool refuses(const struct spec *s, const char *image, bool unproven, const char *word)
{
    struct error err = {0};
    bool refused = pod_spec_check(s, image, unproven ? &accepted : &unwalled, &err) < 0;
    printf("# %s\n", err.message);
    return refused && strstr(err.message, word);
}

static bool claims_without(const struct spec *s, const struct walls *w, const char *word)
{
    struct error err = {0};
    struct effective e;
    bool refused = pod_walls_fill(s, w, &accepted, "kube", &e, &err) < 0;
    printf("# %s\n", err.message);
    return refused && strstr(err.message, word);
}

/* As a pod of this spec finds itself. */
static struct walls walls_of(const struct spec *s)
{
    struct kube_order o = {0};
    pod_order_fill(s, "image", &o);
    struct walls w = {.version = WALLS_VERSION,
                      .cgroup = 2,
                      .memory_bytes = o.memory_bytes,
                      .processes = o.processes ? o.processes + 1 : UINT64_MAX,
                      .cpu_millicores = o.cpu_millicores,
                      .uid = 100000,
                      .gid = 100000,
                      .seccomp = 2,
                      .no_new_privs = 1,
                      .landlock_abi = 4,
                      .root_read_only = 1,
                      .own_processes = 1,
                      .own_filter = 1,
                      .n_places = _PLACE_MAX};
    const uint64_t sizes[_PLACE_MAX] = {o.workspace.bytes, o.cache.bytes, o.tmp_bytes,
                                        o.home_bytes};
    for (int i = 0; i < _PLACE_MAX; i++)
        w.places[i] = (struct walls_place){sizes[i], 1, 1};
    return w;
}

static void check_order(void)
{
    struct spec s = {.limits = {.memory_bytes = 100 * MIB + 5, .disk_bytes = 64 * MIB}};
    struct kube_order o = {0};
    pod_order_fill(&s, "image", &o);
    ok(o.memory_bytes == 100 * MIB && o.cpu_millicores == 1000 && o.processes == 0,
       "whole pages of memory, and a processor where none is asked for");
    ok(o.workspace.bytes == 32 * MIB &&
           o.workspace.bytes + o.cache.bytes + o.tmp_bytes + o.home_bytes <= 64 * MIB,
       "all places together are no more than the disk");
    ok(strcmp(o.image, "image") == 0 && o.slot == KUBE_SLOT_ANY, "the operator's image");
    ok(!(o.flags & KUBE_PROXY), "no way to the gateway");
    struct spec named = {.network = true};
    pod_order_fill(&named, "image", &o);
    ok(o.flags & KUBE_PROXY && o.n_ranges == 0, "a network by name: the proxy, and no addresses");
    struct spec none = {0};
    o = (struct kube_order){0};
    pod_order_fill(&none, "image", &o);
    ok(o.memory_bytes && o.workspace.bytes && o.home_bytes,
       "no limits: a pod has some all the same");
}

static void check_refused(void)
{
    struct spec s = {.accept_weaker = {[WALL_NETWORK] = true}};
    struct error err = {0};
    char id[KUBE_ID_SIZE], long_id[KUBE_ID_SIZE + 8];
    ok(pod_spec_check(&s, "image", &unwalled, &err) == 0, "a plain one: %s", err.message);
    ok(refuses(&s, NULL, false, "kube_image"), "no image");
    s.asked[WALL_IO] = true;
    ok(refuses(&s, "image", false, "io"), "a limit that no pod has");
    s.accept_weaker[WALL_IO] = true;
    ok(pod_spec_check(&s, "image", &unwalled, &err) == 0, "unless weaker is accepted");
    s.accept_weaker[WALL_NETWORK] = false;
    ok(refuses(&s, "image", false, "network"), "a network that is not proven");
    ok(pod_spec_check(&s, "image", &accepted, &err) == 0, "unless the operator accepts it");
    s.asked[WALL_DISK] = true;
    s.limits.disk_bytes = MIB;
    ok(refuses(&s, "image", true, "8 MiB"), "a disk that is too small");
    memset(long_id, 'x', sizeof(long_id) - 1);
    long_id[sizeof(long_id) - 1] = 0;
    ok(pod_id_fill("sbx-mine", id, &err) == 0 && strcmp(id, "mine") == 0,
       "the prefix is not part of an id");
    ok(pod_id_fill(long_id, id, &err) < 0, "one that no namespace can have: %s", err.message);
}

static void check_lacks(void)
{
    static const struct {
        const char *what;
        struct walls without; /* members that are 1 are changed */
    } cases[] = {
        {"no filter", {.seccomp = 1}},
        {"no filter of ours", {.own_filter = 1}},
        {"no_new_privs", {.no_new_privs = 1}},
        {"a capability", {.capabilities = 1}},
        {"root", {.uid = 1}},
        {"root's group", {.gid = 1}},
        {"no Landlock", {.landlock_abi = 1}},
        {"the node's processes", {.own_processes = 1}},
    };
    struct spec s = {0};
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const struct walls *c = &cases[i].without;
        struct walls w = walls_of(&s);
        struct effective e;
        struct error err = {0};
        w.seccomp = c->seccomp ? 0 : w.seccomp;
        w.own_filter = c->own_filter ? 0 : w.own_filter;
        w.no_new_privs = c->no_new_privs ? 0 : w.no_new_privs;
        w.capabilities = c->capabilities;
        w.uid = c->uid ? 0 : w.uid;
        w.gid = c->gid ? 0 : w.gid;
        w.landlock_abi = c->landlock_abi ? 0 : w.landlock_abi;
        w.own_processes = c->own_processes ? 0 : w.own_processes;
        ok(pod_walls_fill(&s, &w, &accepted, "kube", &e, &err) < 0 &&
               err.code == ERROR_UNENFORCEABLE,
           "%s: %s", cases[i].what, err.message);
    }
}

static void check_limits(void)
{
    struct spec s = {.limits = {.memory_bytes = 64 * MIB, .processes = 20, .disk_bytes = 16 * MIB},
                     .asked = {[WALL_MEMORY] = true, [WALL_PROCESSES] = true, [WALL_DISK] = true}};
    struct walls w = walls_of(&s);
    struct effective e;
    struct error err = {0};
    ok(pod_walls_fill(&s, &w, &accepted, "kube", &e, &err) == 0 &&
           e.limits.memory_bytes == 64 * MIB && e.limits.processes == 20 &&
           e.limits.disk_bytes <= 16 * MIB && e.disk_in_memory,
       "limits that hold: %s", err.message);
    ok(strcmp(e.by[WALL_MEMORY], "cgroup v2") == 0 && !e.by[WALL_NETWORK] && !e.by[WALL_IO],
       "by what, and what none enforces");
    w.memory_bytes++;
    ok(claims_without(&s, &w, "memory"), "more memory than was ordered");
    s.accept_weaker[WALL_MEMORY] = true;
    ok(pod_walls_fill(&s, &w, &accepted, "kube", &e, &err) == 0 && !e.by[WALL_MEMORY] &&
           !e.limits.memory_bytes,
       "is not claimed");
    w.places[PLACE_TMP].is_mount = 0;
    ok(claims_without(&s, &w, "disk"), "a place that is the root's");
    struct effective expected;
    pod_walls_expect(&expected, &failed, "kube", 1);
    ok(strcmp(expected.by[WALL_CPU], "cgroup v1") == 0 && expected.by[WALL_DISK] &&
           expected.by[WALL_PROCESSES] && !expected.by[WALL_NETWORK],
       "what may be expected before there is a pod");
}

static void check_network(void)
{
    static const struct {
        const char *what;
        const struct proof_report *proof;
        uint32_t witness;
        bool adopted, weaker, used, claimed;
    } cases[] = {
        {"proven and closed", &given, WITNESS_CLOSED, false, false, true, true},
        {"proven and reached", &given, WITNESS_REACHED, false, false, false, false},
        {"proven and not tried", &given, WITNESS_UNKNOWN, false, false, false, false},
        {"closed, but of no proof", &failed, WITNESS_CLOSED, false, false, false, false},
        {"reached, where that is accepted", &given, WITNESS_REACHED, false, true, true, false},
        {"taken over and closed", &given, WITNESS_CLOSED, true, false, true, true},
        {"taken over and not to be tried", &failed, WITNESS_UNKNOWN, true, false, true, false},
        {"taken over and reached", &given, WITNESS_REACHED, true, false, false, false},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct spec s = {.accept_weaker = {[WALL_NETWORK] = cases[i].weaker}};
        struct walls w = walls_of(&s);
        struct pod_network n = {.proof = cases[i].proof, .adopted = cases[i].adopted};
        struct effective e = {0};
        struct error err = {0};
        w.witness = cases[i].witness;
        bool used = pod_walls_fill(&s, &w, &n, "kube", &e, &err) == 0;
        ok(used == cases[i].used && (!used || !e.by[WALL_NETWORK] == !cases[i].claimed),
           "the network, %s: %s", cases[i].what, err.message);
    }
}

/* Networks by address: what the operator and the cluster must be like, and what the order says. */
static void check_addresses(void)
{
    char *asked[] = {(char[]){"198.41.0.0/24:443"}, NULL},
         *denied[] = {(char[]){"198.41.0.4"}, NULL};
    struct spec s = {.cidrs = asked};
    struct net_config network = {.n_ceiling = 1};
    struct proof_report near = given;
    struct kube_order o = {0};
    struct effective e;
    struct error err = {0};
    ok(pod_addresses_check(&s, &network, &given, &err) < 0 && strstr(err.message, "network_cidrs"),
       "not the operator's: %s", err.message);
    err = (struct error){0};
    net_range_parse("198.0.0.0/8", &network.ceiling[0]);
    ok(pod_addresses_check(&s, &network, &given, &err) == 0, "the operator's: %s", err.message);
    snprintf(near.witness, sizeof(near.witness), "198.41.0.9");
    ok(pod_addresses_check(&s, &network, &near, &err) < 0 && strstr(err.message, "pods"),
       "one that pods are in: %s", err.message);
    err = (struct error){0};
    s.denied_hosts = denied;
    ok(pod_addresses_check(&s, &network, &given, &err) < 0 && strstr(err.message, "exceptions"),
       "a part of it is denied: %s", err.message);
    s.denied_hosts = NULL;
    s.accept_weaker[WALL_NETWORK] = true;
    ok(refuses(&s, "image", true, "no pod has a network by address"), "not without the wall");
    pod_order_fill(&s, "image", &o);
    ok(o.n_ranges == 1 && o.ranges[0].bits == 24 && o.ranges[0].port_first == 443, "the order");
    struct walls w = walls_of(&s);
    const struct pod_network walled = {.proof = &given, .unproven = true};
    w.witness = WITNESS_CLOSED;
    err = (struct error){0};
    ok(pod_walls_fill(&s, &w, &walled, "kube", &e, &err) == 0 && e.network_by_address &&
           e.by[WALL_NETWORK],
       "it is claimed where it was tried: %s", err.message);
    w.witness = WITNESS_REACHED;
    ok(pod_walls_fill(&s, &w, &walled, "kube", &e, &err) < 0, "and refused where it does not hold");
}

int main(void)
{
    check_addresses();
    check_order();
    check_refused();
    check_lacks();
    check_limits();
    check_network();
    return tap_done();
}
