/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the cluster enforces network policies, by two pods of the link's image in namespaces
 * of their own, or in the one of all sandboxes (KUBE_PROVE, proto/kube.h).
 *
 * The witness, in the namespace of the order's id, answers connections. The caller, in a second
 * one, has an init container that ends as soon as the witness has answered it: without a policy the
 * way is open. Then the policy of every sandbox is posted to the caller's namespace, and the
 * caller's container ends well once the witness is not reached any more, and badly where it is
 * reached for as long as it tries. Between the two there is no difference but the policy, so one
 * that could not have been reached anyway, or that has died, proves nothing.
 *
 * Only exit codes are read, by the right to get pods. The witness is left running: each sandbox
 * tries to reach it. The caller's namespace is the control plane's to delete, and both are after a
 * failure. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "proto/witness.h"

#define PROVE_MS  90000 /* nodes may have to fetch the link's image */
#define NOT_ENDED (-1)
#define FREE_NAME "free" /* the caller's init container, which no policy holds */

static void prove_look(void *data);

/* --- what is made */

/* A container of ours, as the link is one: its user, limits and rights are the same. */
static json_t *make_prober(const json_t *link, const char *name, const char *option,
                           const char *address)
{
    json_t *c = json_deep_copy(link);
    json_t *command = json_pack("[s, s]", "/mas-link", option);
    if (address)
        json_array_append_new(command, json_string(address));
    json_object_del(c, "restartPolicy");
    json_object_del(c, "volumeMounts");
    json_object_set_new(c, "name", json_string(name));
    json_object_set_new(c, "command", command);
    return c;
}

static const json_t *find_link(const json_t *spec)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(spec, "initContainers"), i, c)
    {
        if (strcmp(json_member_text(c, "name"), KUBE_LINK_CONTAINER) == 0)
            return c;
    }
    return NULL;
}

/* A sandbox's pod, with other containers. */
static json_t *make_probe_pod(const struct broker_task *t)
{
    json_t *pod = kube_manifest(KUBE_OBJECT_POD, t->broker->o.ceiling, &t->order);
    json_t *spec = json_object_get(pod, "spec"), *container;
    const char *address = t->address[0] ? t->address : NULL;
    _cleanup_json_ json_t *link = json_deep_copy(find_link(spec));
    json_object_del(spec, "volumes");
    json_object_del(spec, "initContainers");
    container = make_prober(link, KUBE_POD_NAME, address ? "--until-closed" : "--witness", address);
    json_object_set_new(spec, "containers", json_pack("[o]", container));
    if (address)
        json_object_set_new(
            spec, "initContainers",
            json_pack("[o]", make_prober(link, FREE_NAME, "--until-open", address)));
    return pod;
}

/* In a namespace that is shared the policy ends with the caller's pod, as it otherwise does with
 * its namespace. */
static void own_policy(const struct broker_task *t, json_t *policy)
{
    char pod[KUBE_PLACE_SIZE];
    kube_layout_pod(t->broker->o.ceiling, t->order.id, pod);
    json_object_set_new(json_object_get(policy, "metadata"), "ownerReferences",
                        json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "v1", "kind", "Pod",
                                  "name", pod, "uid", t->pod_uid));
}

/* What of a sandbox's objects this step needs. */
static json_t *prove_manifest(const struct broker_task *t)
{
    bool policy = t->object == KUBE_OBJECT_POLICY;
    if (policy != t->fencing)
        return NULL;
    json_t *out = t->object == KUBE_OBJECT_POD
                      ? make_probe_pod(t)
                      : kube_manifest(t->object, t->broker->o.ceiling, &t->order);
    if (policy && kube_layout_is_shared(t->broker->o.ceiling))
        own_policy(t, out);
    return out;
}

static void prove_make(struct broker_task *t)
{
    t->object = 0;
    t->tries = 0;
    t->made = false;
    t->space_uid[0] = 0;
    task_start_create(t);
}

/* --- what becomes of it */

static void prove_end(struct broker_task *t, enum error_code code, const char *why)
{
    struct error err = {0};
    if (code)
        error_set(&err, code, 0, "%s", why);
    task_finish(t, &err);
}

/* The exit code of the first container of this list, or NOT_ENDED. */
static int exit_code_of(const json_t *pod, const char *list)
{
    const json_t *all = json_object_get(json_object_get(pod, "status"), list);
    const json_t *state = json_object_get(json_array_get(all, 0), "state");
    const json_t *ended = json_object_get(state, "terminated");
    return ended ? (int)json_integer_value(json_object_get(ended, "exitCode")) : NOT_ENDED;
}

static void look_again(struct broker_task *t)
{
    if (task_is_late(t)) {
        prove_end(t, ERROR_TIMEOUT,
                  t->address[0] ? "the probe of its network policies did not come to an end in time"
                                : "the witness of its network policies did not start in time");
        return;
    }
    t->tries = 1; /* the pause does not grow */
    task_wait(t, 0, prove_look);
}

static void on_witness_seen(struct broker_task *t, const json_t *pod)
{
    const json_t *status = json_object_get(pod, "status");
    const char *address = json_member_text(status, "podIP");
    size_t n = strlen(t->order.id);
    if (exit_code_of(pod, "containerStatuses") != NOT_ENDED) {
        prove_end(t, ERROR_UNAVAILABLE, "the witness of its network policies has ended");
        return;
    }
    if (!*address || strcmp(json_member_text(status, "phase"), "Running") != 0 ||
        strlen(address) >= sizeof(t->address)) {
        look_again(t);
        return;
    }
    snprintf(t->address, sizeof(t->address), "%s", address);
    snprintf(t->order.id + n, sizeof(t->order.id) - n, KUBE_CALLER_SUFFIX);
    prove_make(t);
}

static void on_caller_seen(struct broker_task *t, const json_t *pod)
{
    int open = exit_code_of(pod, "initContainerStatuses");
    int closed = exit_code_of(pod, "containerStatuses");
    if (open == NOT_ENDED || (t->fencing && open == 0 && closed == NOT_ENDED)) {
        look_again(t);
    } else if (open != 0) {
        prove_end(
            t, ERROR_UNAVAILABLE,
            "a pod does not reach another one even without a network policy, so what one does "
            "cannot be shown");
    } else if (!t->fencing) {
        t->fencing = true;
        prove_make(t);
    } else {
        prove_end(
            t, closed ? ERROR_UNENFORCEABLE : ERROR_NONE,
            "this cluster does not enforce NetworkPolicies: a pod whose policy allows nothing "
            "reached another one");
    }
}

static void on_probe_seen(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    if (r->outcome == KUBE_DONE && t->address[0])
        on_caller_seen(t, answer->object);
    else if (r->outcome == KUBE_DONE)
        on_witness_seen(t, answer->object);
    else if (kube_may_pass(r->outcome))
        look_again(t);
    else
        task_fail(t, r, "look at the probe of its network policies");
}

static void prove_look(void *data)
{
    task_call_object(data, "GET", KUBE_OBJECT_POD, NULL, on_probe_seen);
}

static void on_probe_made(struct broker_task *t)
{
    look_again(t);
}

/* What the probes are is not the control plane's to say, so nothing else of its order is kept. */
static void prove_take_order(struct broker_task *t)
{
    static struct kube_order own; /* too large for a stack, and used up at once */
    const struct kube_order *o = &t->order;
    own = (struct kube_order){.version = o->version,
                              .op = o->op,
                              .tag = o->tag,
                              .epoch = o->epoch,
                              .nonce = o->nonce,
                              .slot = KUBE_SLOT_ANY};
    memcpy(own.id, o->id, sizeof(own.id));
    memcpy(own.home, o->home, sizeof(own.home));
    t->order = own;
}

void task_start_prove(struct broker_task *t)
{
    t->deadline_ms = clock_mono_ms() + PROVE_MS;
    prove_take_order(t);
    t->manifest = prove_manifest;
    t->on_made = on_probe_made;
    prove_make(t);
}

static size_t witness_length(const char *id)
{
    size_t n = strlen(id), suffix = sizeof(KUBE_CALLER_SUFFIX) - 1;
    bool caller = n > suffix && strcmp(id + n - suffix, KUBE_CALLER_SUFFIX) == 0;
    return caller ? n - suffix : n;
}

void tasks_give_up_proof(struct kube_broker *b, const char *id)
{
    size_t n = witness_length(id);
    list_for_each_safe(t, &b->tasks, struct broker_task, node) {
        bool its = t->order.op == KUBE_PROVE && witness_length(t->order.id) == n &&
                   strncmp(t->order.id, id, n) == 0;
        if (its)
            prove_end(t, ERROR_CONFLICT, "the proof was given up");
    }
}
