/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/pod-spec.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "runtime/kube/addresses.h"
#include "runtime/kube/pod-class.h"
#include "runtime/kube/walls.h"

#define MIB            (1ull << 20)
#define DEFAULT_MEMORY (512 * MIB) /* a pod has limits, whatever the operator's defaults are */
#define DEFAULT_CPU    1000
#define DEFAULT_DISK   (256 * MIB)
#define LEAST_DISK     (8 * MIB) /* that can be divided among all places */
#define PAGE           4096

static const char *const shared[] = {
    "the node's kernel",
    "the runner's user id: commands are kept from it by Landlock",
    "a file on the node's disk that has no limit, /dev/termination-log",
    NULL,
};

static const char *const shared_streamed[] = {
    "the node's kernel",
    "the runner's user id: commands are kept from it by Landlock",
    "a file on the node's disk that has no limit, /dev/termination-log",
    "a route to the daemon's stream_endpoint, where each call needs a key or a token",
    NULL,
};

int pod_id_fill(const char *id, char out[KUBE_ID_SIZE], struct error *err)
{
    size_t n = strlen(POD_ID_PREFIX);
    const char *rest = strncmp(id, POD_ID_PREFIX, n) == 0 ? id + n : id;
    if (strlen(rest) >= KUBE_ID_SIZE)
        return error_field(err, "id", "'id' is longer than %d bytes, which a namespace can have",
                           KUBE_ID_SIZE - 1);
    snprintf(out, KUBE_ID_SIZE, "%s", rest);
    return 0;
}

/* --- a spec */

bool pod_needs_network_wall(const struct spec *s, const struct pod_network *n)
{
    return spec_has_addresses(s) || (!n->unproven && !s->accept_weaker[WALL_NETWORK]);
}

static int refuse_network(const struct spec *s, struct error *err, const char *why)
{
    return error_set(err, ERROR_UNENFORCEABLE, 0, "network cannot be enforced in a pod: %s; %s",
                     why,
                     spec_has_addresses(s)
                         ? "no pod has a network by address without this wall"
                         : "\"network\" in accept_weaker, or the operator's kube_unproven_network, "
                           "makes it all the same");
}

static int check_walls(const struct spec *s, const struct pod_network *n, struct error *err)
{
    if (s->asked[WALL_IO] && !s->accept_weaker[WALL_IO])
        return error_set(err, ERROR_UNENFORCEABLE, 0,
                         "io cannot be enforced in a pod: Kubernetes has no such limit");
    return n->proof->state == PROOF_FAILED && pod_needs_network_wall(s, n)
               ? refuse_network(s, err, n->proof->why)
               : 0;
}

int pod_spec_check(const struct spec *s, const char *image, const struct pod_network *n,
                   struct error *err)
{
    const char *name = s->image ? s->image : image;
    if (s->tool_net)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the kube runtime has no way to the gateway: URL tools need another");
    if (s->n_mounts)
        return error_unsupported(err, "mounts", "the kube runtime has no mounts of the host's");
    if (s->workdir)
        return error_unsupported(err, "workdir",
                                 "commands of the kube runtime start in /workspace");
    if (s->snapshot)
        return error_unsupported(err, "snapshot", "the kube runtime has no snapshots");
    if (!name)
        return error_field(err, "image", "a pod needs an image: name one, or set kube_image");
    if (strlen(name) >= KUBE_IMAGE_SIZE)
        return error_field(err, "image", "'image' is longer than %d bytes", KUBE_IMAGE_SIZE - 1);
    if (s->asked[WALL_DISK] && s->limits.disk_bytes < LEAST_DISK)
        return error_field(err, "limits.disk_mb", "a pod has a disk of at least %llu MiB",
                           LEAST_DISK / MIB);
    return check_walls(s, n, err);
}

/* Half of the disk is the workspace, whole pages each: together they are never more than it. */
static uint64_t place_bytes(uint64_t disk, int place)
{
    static const unsigned parts[] = {
        [PLACE_WORKSPACE] = 2, [PLACE_CACHE] = 4, [PLACE_TMP] = 8, [PLACE_HOME] = 8};
    static_assert(ELEMENTS(parts) == _PLACE_MAX, "a part for every place");
    return disk / parts[place] / PAGE * PAGE;
}

static void volume_order_fill(const struct volume *v, struct kube_volume_order *o)
{
    static const uint32_t accesses[] = {[VOLUME_READ_WRITE_ONCE] = KUBE_READ_WRITE_ONCE,
                                        [VOLUME_READ_WRITE_ONCE_POD] = KUBE_READ_WRITE_ONCE_POD,
                                        [VOLUME_READ_WRITE_MANY] = KUBE_READ_WRITE_MANY};
    static_assert(ELEMENTS(accesses) == _VOLUME_ACCESS_MAX, "every access mode");
    if (v->mode == VOLUME_HOST)
        o->volume = KUBE_VOLUME_HOST;
    if (v->mode != VOLUME_CLAIM)
        return;
    o->volume = KUBE_VOLUME_CLAIM;
    o->access = accesses[v->access];
    o->bytes = v->bytes;
    snprintf(o->storage_class, sizeof(o->storage_class), "%s", v->storage_class);
}

void pod_order_fill(const struct spec *s, const char *image, struct kube_order *o)
{
    const struct limits *l = &s->limits;
    uint64_t disk = l->disk_bytes >= LEAST_DISK ? l->disk_bytes : DEFAULT_DISK;
    o->memory_bytes = l->memory_bytes ? l->memory_bytes / PAGE * PAGE : DEFAULT_MEMORY;
    o->cpu_millicores = l->cpu_millicores ? l->cpu_millicores : DEFAULT_CPU;
    o->processes = l->processes;
    o->workspace.bytes = place_bytes(disk, PLACE_WORKSPACE);
    o->cache.bytes = place_bytes(disk, PLACE_CACHE);
    o->tmp_bytes = place_bytes(disk, PLACE_TMP);
    o->home_bytes = place_bytes(disk, PLACE_HOME);
    volume_order_fill(&s->workspace, &o->workspace);
    volume_order_fill(&s->cache, &o->cache);
    o->flags |= s->network ? KUBE_PROXY : 0;
    o->flags |= s->stream_token[0] ? KUBE_STREAM : 0;
    static_assert(sizeof(o->stream_token) == sizeof(s->stream_token), "the same token");
    memcpy(o->stream_token, s->stream_token, sizeof(o->stream_token));
    pod_addresses_fill(s, o);
    o->slot = KUBE_SLOT_ANY;
    o->nonce = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
    snprintf(o->image, sizeof(o->image), "%s", s->image ? s->image : image);
    const struct pod_class *class = pod_class_find(s->runtime);
    snprintf(o->runtime_class, sizeof(o->runtime_class), "%s", class ? class->name : "");
}

/* --- its walls, as they were found */

/* What no sandbox goes without. A RuntimeClass is only a name: whose kernel is behind it, is seen
 * inside. */
static int check_found(const struct pod_class *class, const struct walls *w, struct error *err)
{
    const char *lacks = NULL;
    if (class && class->kernel != w->kernel)
        return error_set(err, ERROR_UNENFORCEABLE, 0,
                         "a check from inside the pod found: its kernel is not that of '%s', "
                         "whatever the RuntimeClass '%s' of the cluster starts",
                         class->runtime, class->name);
    if (w->seccomp != 2 || !w->no_new_privs)
        lacks = "it has no system call filter";
    else if (!w->own_filter)
        lacks = "its runner has not put on the system call filter of sandboxes";
    else if (w->capabilities)
        lacks = "its commands have capabilities";
    else if (w->uid == 0 || w->gid == 0)
        lacks = "its commands are root";
    else if (!w->landlock_abi)
        lacks = "its node has no Landlock";
    else if (!w->own_processes)
        lacks = "it sees the node's processes";
    return lacks ? error_set(err, ERROR_UNENFORCEABLE, 0, "a check from inside the pod found: %s",
                             lacks)
                 : 0;
}

/* A place is a limit where it is a file system of its own that is no larger than was ordered: in
 * memory, or a claim's. A directory of the node's is not a limit, whatever it is on. */
static uint64_t disk_found(const struct spec *s, const struct kube_order *o, const struct walls *w)
{
    const struct {
        uint32_t volume;
        uint64_t bytes;
    } ordered[_PLACE_MAX] = {
        [PLACE_WORKSPACE] = {o->workspace.volume, o->workspace.bytes},
        [PLACE_CACHE] = {o->cache.volume, o->cache.bytes},
        [PLACE_TMP] = {KUBE_VOLUME_MEMORY, o->tmp_bytes},
        [PLACE_HOME] = {KUBE_VOLUME_MEMORY, o->home_bytes},
    };
    uint64_t all = 0;
    for (int i = 0; i < _PLACE_MAX; i++) {
        const struct walls_place *p = &w->places[i];
        bool sized = ordered[i].volume == KUBE_VOLUME_CLAIM ||
                     (ordered[i].volume == KUBE_VOLUME_MEMORY && p->in_memory);
        if (!sized || !p->is_mount || p->bytes > ordered[i].bytes)
            return 0;
        all += p->bytes;
    }
    return w->root_read_only && (!s->asked[WALL_DISK] || all <= s->limits.disk_bytes) ? all : 0;
}

/* A limit holds where the one inside is no looser than what was ordered. */
static bool holds(uint64_t found, uint64_t ordered)
{
    return found && ordered && found <= ordered;
}

/* The policy's wall, of a pod that was to try the witness. One that was tried when the pod was new
 * and cannot be tried now is no longer claimed; one that is seen not to hold ends the sandbox. */
static int check_network(const struct spec *s, const struct walls *w, const struct pod_network *n,
                         struct effective *e, struct error *err)
{
    bool given = n->proof->state == PROOF_GIVEN;
    if (given && w->witness == WITNESS_CLOSED)
        e->by[WALL_NETWORK] = mechanism_name(MECHANISM_NETWORK_POLICY);
    else if (pod_needs_network_wall(s, n) && given && w->witness == WITNESS_REACHED)
        return refuse_network(
            s, err, "this one reached another pod, although its NetworkPolicy allows nothing");
    else if (pod_needs_network_wall(s, n) && !n->adopted)
        return refuse_network(s, err,
                              given ? "this one could not try to reach another"
                              : *n->proof->why
                                  ? n->proof->why
                                  : "that this cluster enforces NetworkPolicies was not "
                                    "proven in time");
    return 0;
}

int pod_walls_fill(const struct spec *s, const struct walls *w, const struct pod_network *n,
                   const char *runtime, struct effective *ret, struct error *err)
{
    struct kube_order o = {0};
    struct effective e = {.runtime = runtime, .landlock_abi = w->landlock_abi, .shares = shared};
    const struct pod_class *class = pod_class_find(s->runtime);
    int r = check_found(class, w, err);
    if (r < 0)
        return r;
    pod_order_fill(s, "", &o);
    pod_walls_expect(&e, &(struct proof_report){0}, runtime, w->cgroup);
    if (class)
        e.shares = o.flags & KUBE_STREAM ? class->shares_streamed : class->shares;
    else if (o.flags & KUBE_STREAM)
        e.shares = shared_streamed;
    if ((r = check_network(s, w, n, &e, err)) < 0)
        return r;
    const char *group = e.by[WALL_MEMORY];
    e.network_by_name = s->network;
    e.network_by_address = spec_has_addresses(s) && e.by[WALL_NETWORK];
    e.landlock_abi = w->landlock_abi;
    e.limits.memory_bytes = w->memory_bytes;
    e.limits.cpu_millicores = w->cpu_millicores;
    e.limits.processes = o.processes;
    e.limits.disk_bytes = disk_found(s, &o, w);
    e.by[WALL_MEMORY] = holds(w->memory_bytes, o.memory_bytes) ? group : NULL;
    e.by[WALL_CPU] = holds(w->cpu_millicores, o.cpu_millicores) ? group : NULL;
    e.by[WALL_PROCESSES] = holds(w->processes, o.processes ? (uint64_t)o.processes + 1 : 0)
                               ? mechanism_name(MECHANISM_RLIMIT)
                               : NULL;
    bool claims = o.workspace.volume == KUBE_VOLUME_CLAIM || o.cache.volume == KUBE_VOLUME_CLAIM;
    e.by[WALL_DISK] =
        !e.limits.disk_bytes ? NULL : mechanism_name(claims ? MECHANISM_CLAIM : MECHANISM_TMPFS);
    e.disk_in_memory = e.by[WALL_DISK] && !claims;
    for (int i = 0; i < _WALL_MAX; i++) {
        if (!e.by[i])
            limits_drop_wall(&e.limits, i);
        if (!e.by[i] && s->asked[i] && !s->accept_weaker[i])
            return error_set(err, ERROR_UNENFORCEABLE, 0,
                             "%s cannot be enforced here: the pod has no such limit inside",
                             wall_name((enum wall)i));
    }
    *ret = e;
    return 0;
}

void pod_walls_expect(struct effective *ret, const struct proof_report *proof, const char *runtime,
                      uint32_t cgroup)
{
    const char *group = mechanism_name(cgroup == 1 ? MECHANISM_CGROUP_V1 : MECHANISM_CGROUP_V2);
    *ret = (struct effective){.runtime = runtime, .shares = shared};
    ret->by[WALL_MEMORY] = ret->by[WALL_CPU] = group;
    ret->by[WALL_PROCESSES] = mechanism_name(MECHANISM_RLIMIT);
    ret->by[WALL_DISK] = mechanism_name(MECHANISM_TMPFS);
    if (proof->state == PROOF_GIVEN)
        ret->by[WALL_NETWORK] = mechanism_name(MECHANISM_NETWORK_POLICY);
    ret->by[WALL_FILESYSTEM] = mechanism_name(MECHANISM_NAMESPACE);
    ret->by[WALL_SYSCALLS] = mechanism_name(MECHANISM_SECCOMP);
    ret->by[WALL_USERS] = mechanism_name(MECHANISM_UID_SHARED);
    ret->by[WALL_LANDLOCK] = mechanism_name(MECHANISM_LANDLOCK);
    snprintf(ret->workdir, sizeof(ret->workdir), "/workspace");
}
