/* SPDX-License-Identifier: Apache-2.0 */
/* Removes policies that no pod has, in a namespace that sandboxes share (kube/layout.h): a policy
 * there is that of all sandboxes with equal rules, and so ends with none of them.
 *
 * Theory of operation. Only the broker that holds the home makes pods with this home's policies, so
 * it alone decides. Which are used is known from the watch and from the creates that are under way;
 * one that was not used for a while, and of which the API server says that no pod has its label, is
 * deleted. A create that wants the same one meanwhile waits until that is done, and makes it anew.
 * A broker that loses the home gives up what it was deleting, and one that gets it back begins with
 * a new look: the pods of the time between are another's. Should a policy be deleted all the same
 * while a pod has it, that pod loses its way out: the policy `closed` that we ship holds for all of
 * them.
 *
 * To list and to delete policies are rights that the operator may give (deploy/kube/sweep), and
 * that most do not: what can delete a policy can make a wider one of the same name. The cluster's
 * first refusal ends the sweep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/lease.h"
#include "kube/manifest.h"
#include "kube/query.h"

#define SWEEP_MS  60000
#define AGAIN_MS  1000
#define CALL_MS   15000
#define UNUSED_MS (10 * 60000) /* where the options say nothing: sandboxes come and go */

struct kube_sweep {
    struct kube_broker *broker;
    struct kube_call *call;
    struct loop_timer timer;
    struct map *unused; /* int64_t by name: since when it is not */
    json_t *policies;   /* of this round */
    size_t at;
    char name[KUBE_PLACE_SIZE]; /* that is looked at, or deleted; "": none is */
    char uid[KUBE_NAME_SIZE];
    bool over; /* the cluster does not allow it */
};

static void sweep_next(struct kube_sweep *s);
static void sweep_delete(void *data);

static void map_free_values(struct map *m)
{
    size_t cursor = 0;
    for (int64_t *since; (since = map_next(m, &cursor));)
        free(since);
    map_free(m);
}

static void sweep_later(struct kube_sweep *s, uint64_t ms, void (*go_on)(void *data))
{
    s->timer.cb = go_on;
    loop_timer_start(&s->timer, ms);
}

/* A namespace that is shared is the same for all orders. */
static void sweep_path(const struct kube_sweep *s, enum kube_object object, struct strbuf *path)
{
    static const struct kube_order any;
    kube_manifest_collection(object, s->broker->o.ceiling, &any, path);
}

static void sweep_list(struct kube_sweep *s, enum kube_object object, const char *selector,
                       void (*on_done)(void *data, const struct kube_answer *answer))
{
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    sweep_path(s, object, &path);
    kube_query_add(&path, "labelSelector", selector);
    s->call = kube_call_json(s->broker->o.client, "GET", path.data, NULL, CALL_MS, on_done, s);
}

/* Only the holder of the home knows which policies are used, and the watch says which pods there
 * are only once it has listed them. */
static bool sweep_is_allowed(const struct kube_sweep *s)
{
    const struct kube_broker *b = s->broker;
    return b->synced && b->lease && kube_lease_is_held(b->lease);
}

/* Without the right, asking again and again would only fill the cluster's log. */
static void sweep_stop(struct kube_sweep *s, const char *why)
{
    log_warn("network policies that no pod has stay, unless the cluster gives the rights of "
             "deploy/kube/sweep: %s",
             why);
    s->over = true;
    s->name[0] = 0;
    json_decref(steal_ptr(s->policies));
}

/* --- one policy */

static bool policy_is_used(const struct kube_sweep *s, const char *name)
{
    const struct kube_broker *b = s->broker;
    char buffer[KUBE_PLACE_SIZE];
    if (broker_knows_net(b, kube_manifest_policy_sum(name)))
        return true;
    list_for_each(t, &b->tasks, struct broker_task, node) {
        if (t->order.op == KUBE_CREATE &&
            strcmp(kube_manifest_name(KUBE_OBJECT_POLICY, b->o.ceiling, &t->order, buffer,
                                      sizeof(buffer)),
                   name) == 0)
            return true;
    }
    return false;
}

static void on_policy_deleted(void *data, const struct kube_answer *answer)
{
    struct kube_sweep *s = data;
    const struct kube_result *r = &answer->result;
    s->call = NULL;
    if (kube_may_pass(r->outcome)) { /* a create that waits must not find it half deleted */
        sweep_later(s, AGAIN_MS, sweep_delete);
        return;
    }
    if (r->outcome == KUBE_FORBIDDEN) {
        sweep_stop(s, r->message);
        return;
    }
    if (r->outcome == KUBE_DONE)
        log_info("a network policy that no pod has is deleted name=%s", s->name);
    else if (r->outcome != KUBE_NOT_FOUND)
        log_warn("a network policy that no pod has stays name=%s: %s", s->name, r->message);
    sweep_next(s);
}

/* Also again, after no whole answer: since then the home may have been lost, or a pod seen. Creates
 * that want the policy wait, and are no reason to leave it half deleted. */
static void sweep_delete(void *data)
{
    struct kube_sweep *s = data;
    if (!sweep_is_allowed(s) || broker_knows_net(s->broker, kube_manifest_policy_sum(s->name))) {
        sweep_next(s);
        return;
    }
    _cleanup_json_ json_t *body = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind",
                                            "DeleteOptions", "preconditions", "uid", s->uid);
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    sweep_path(s, KUBE_OBJECT_POLICY, &path);
    strbuf_printf(&path, "/%s", s->name);
    s->call = kube_call_json(s->broker->o.client, "DELETE", path.data, body, CALL_MS,
                             on_policy_deleted, s);
}

static void on_policy_pods(void *data, const struct kube_answer *answer)
{
    struct kube_sweep *s = data;
    bool none = answer->result.outcome == KUBE_DONE &&
                json_is_array(json_object_get(answer->object, "items")) &&
                json_array_size(json_object_get(answer->object, "items")) == 0;
    s->call = NULL;
    if (none && !policy_is_used(s, s->name))
        sweep_delete(s);
    else
        sweep_next(s);
}

static void sweep_look(struct kube_sweep *s, const json_t *policy)
{
    char selector[KUBE_SELECTOR_SIZE];
    const json_t *metadata = json_object_get(policy, "metadata");
    snprintf(s->name, sizeof(s->name), "%s", json_member_text(metadata, "name"));
    snprintf(s->uid, sizeof(s->uid), "%s", json_member_text(metadata, "uid"));
    snprintf(selector, sizeof(selector), KUBE_LABEL_NET "=%s", kube_manifest_policy_sum(s->name));
    sweep_list(s, KUBE_OBJECT_POD, selector, on_policy_pods);
}

/* --- a round */

static void sweep_begin(void *data);

static uint32_t sweep_patience_ms(const struct kube_sweep *s)
{
    return s->broker->o.unused_policy_ms ? s->broker->o.unused_policy_ms : UNUSED_MS;
}

static void sweep_rest(struct kube_sweep *s)
{
    s->name[0] = 0;
    json_decref(steal_ptr(s->policies));
    sweep_later(s, sweep_patience_ms(s) < SWEEP_MS ? sweep_patience_ms(s) : SWEEP_MS, sweep_begin);
}

/* A create that was under way when the pods were listed may be done when the list comes, with a pod
 * that neither the list nor the watch has: so creates are looked at before. */
static bool is_due(const struct kube_sweep *s, const json_t *policy)
{
    const char *name = json_member_text(json_object_get(policy, "metadata"), "name");
    const int64_t *since = map_find(s->unused, name);
    return since && clock_mono_ms() - *since >= sweep_patience_ms(s) && !policy_is_used(s, name);
}

static void sweep_next(struct kube_sweep *s)
{
    const json_t *policy;
    s->name[0] = 0;
    while (sweep_is_allowed(s) && (policy = json_array_get(s->policies, s->at++)))
        if (is_due(s, policy)) {
            sweep_look(s, policy);
            return;
        }
    sweep_rest(s);
}

/* Those that are not there any more are forgotten. */
static void note_unused(struct kube_sweep *s)
{
    struct map *before = s->unused;
    size_t i;
    json_t *policy;
    s->unused = map_new();
    json_array_foreach(s->policies, i, policy)
    {
        const char *name = json_member_text(json_object_get(policy, "metadata"), "name");
        const int64_t *since = map_find(before, name);
        if (!kube_manifest_is_common_policy(policy, s->broker->o.ceiling) ||
            policy_is_used(s, name))
            continue;
        int64_t *at = new0(int64_t);
        *at = since ? *since : clock_mono_ms();
        free(map_put(s->unused, name, at));
    }
    map_free_values(before);
}

static void on_policies(void *data, const struct kube_answer *answer)
{
    struct kube_sweep *s = data;
    s->call = NULL;
    s->at = 0;
    if (answer->result.outcome == KUBE_FORBIDDEN) {
        sweep_stop(s, answer->result.message);
        return;
    }
    if (answer->result.outcome == KUBE_DONE) {
        s->policies = json_incref(json_object_get(answer->object, "items"));
        note_unused(s);
    }
    sweep_next(s);
}

static void sweep_begin(void *data)
{
    struct kube_sweep *s = data;
    const struct kube_broker *b = s->broker;
    char selector[KUBE_SELECTOR_SIZE];
    if (!sweep_is_allowed(s)) {
        sweep_rest(s);
        return;
    }
    kube_manifest_selector(b->o.ceiling, selector);
    sweep_list(s, KUBE_OBJECT_POLICY, selector, on_policies);
}

bool sweep_is_at(const struct kube_broker *b, const char *policy)
{
    return b->sweep && strcmp(b->sweep->name, policy) == 0;
}

void sweep_start(struct kube_broker *b)
{
    if (!kube_layout_is_shared(b->o.ceiling))
        return;
    struct kube_sweep *s = b->sweep = new0(struct kube_sweep);
    s->broker = b;
    s->unused = map_new();
    b->n_open++;
    loop_timer_init(&s->timer, b->o.loop, sweep_begin, s);
    sweep_rest(s);
}

/* What was noted is forgotten, too: pods may have had any policy meanwhile. */
void sweep_give_up(struct kube_broker *b)
{
    struct kube_sweep *s = b->sweep;
    if (!s || s->over)
        return;
    kube_call_cancel(steal_ptr(s->call));
    map_free_values(s->unused);
    s->unused = map_new();
    sweep_rest(s);
}

static void on_sweep_closed(void *data)
{
    struct kube_sweep *s = data;
    struct kube_broker *b = s->broker;
    free(s);
    broker_unref(b);
}

void sweep_end(struct kube_broker *b)
{
    struct kube_sweep *s = steal_ptr(b->sweep);
    if (!s)
        return;
    kube_call_cancel(steal_ptr(s->call));
    map_free_values(s->unused);
    json_decref(s->policies);
    loop_timer_close(&s->timer, on_sweep_closed, s);
}
