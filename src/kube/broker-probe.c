/* SPDX-License-Identifier: Apache-2.0 */
/* Is the cluster there, which version is it, and does the broker have the rights that its orders
 * need: asked one by one, so that the answer names those that are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/query.h"

#define AGENT_SANDBOX_API "/apis/extensions.agents.x-k8s.io/v1beta1"
/* The oldest with sidecars (an init container that restarts) on by default. */
#define OLDEST_MINOR 29

/* When a right is needed, besides always. */
enum right_need {
    OF_CLAIMS = 1 << 0, /* where the ceiling has storage classes */
    OF_DIRECT = 1 << 1, /* for the direct carrier */
    OF_LEASE = 1 << 2,  /* in the namespace of Leases, always */
    OF_OWN = 1 << 3,    /* where each sandbox has a namespace of its own */
    OF_SHARED = 1 << 4, /* where they share one */
};

static const struct {
    const char *verb, *group, *resource, *part;
    unsigned needs; /* enum right_need; all of them */
} rights[] = {
    {"create", "", "namespaces", NULL, OF_OWN},
    {"get", "", "namespaces", NULL, OF_OWN},
    {"list", "", "namespaces", NULL, OF_OWN},
    {"delete", "", "namespaces", NULL, OF_OWN},
    {"patch", "", "namespaces", NULL, OF_OWN},
    {"create", "", "pods", NULL, 0},
    {"get", "", "pods", NULL, 0},
    {"list", "", "pods", NULL, 0},
    {"watch", "", "pods", NULL, 0},
    {"patch", "", "pods", NULL, 0},
    {"delete", "", "pods", NULL, OF_SHARED},
    {"create", "", "pods", "exec", 0},
    {"get", "", "pods", "exec", 0},
    {"create", "", "serviceaccounts", NULL, OF_OWN},
    {"get", "", "serviceaccounts", NULL, 0},
    {"create", "networking.k8s.io", "networkpolicies", NULL, 0},
    {"get", "networking.k8s.io", "networkpolicies", NULL, 0},
    {"list", "", "resourcequotas", NULL, 0},
    {"get", "node.k8s.io", "runtimeclasses", NULL, OF_OWN}, /* of no namespace */
    {"create", "", "persistentvolumeclaims", NULL, OF_CLAIMS | OF_OWN},
    {"get", "", "persistentvolumeclaims", NULL, OF_CLAIMS | OF_OWN},
    {"get", "", "pods", "log", OF_DIRECT},
    {"create", "coordination.k8s.io", "leases", NULL, OF_LEASE},
    {"get", "coordination.k8s.io", "leases", NULL, OF_LEASE},
    {"patch", "coordination.k8s.io", "leases", NULL, OF_LEASE},
};

static void ask_right(struct broker_task *t);

/* One name more, where it fits; the last one that does is followed by dots. */
static void add_name(char text[KUBE_MESSAGE_SIZE], const char *name)
{
    static const char dots[] = ", ...";
    size_t at = strlen(text), room = KUBE_MESSAGE_SIZE - at;
    bool cut = at >= strlen(dots) && strcmp(text + at - strlen(dots), dots) == 0;
    if (cut)
        return;
    if (strlen(name) + 2 + sizeof(dots) <= room)
        snprintf(text + at, room, "%s%s", at ? ", " : "", name);
    else
        snprintf(text + at, room, "%s", dots);
}

static void send_offer(const struct broker_task *t, enum kube_offer offer, const char *text)
{
    struct kube_reply r = {.kind = KUBE_OFFERED, .tag = t->order.tag, .phase = offer};
    snprintf(r.message, sizeof(r.message), "%s", text);
    broker_send(t->broker, &r, -1);
}

static void send_names(const struct broker_task *t, enum kube_offer offer, char *const *names)
{
    char text[KUBE_MESSAGE_SIZE] = "";
    for (; names && *names; names++)
        add_name(text, *names);
    send_offer(t, offer, text);
}

static void end_probe(struct broker_task *t)
{
    const struct kube_broker_options *o = &t->broker->o;
    struct error err = {0};
    send_offer(t, KUBE_OFFER_MISSING_RIGHTS, t->missing);
    send_offer(t, KUBE_OFFER_CRDS, t->crds);
    send_names(t, KUBE_OFFER_RUNTIME_CLASSES, o->ceiling->runtime_classes);
    send_offer(t, KUBE_OFFER_MISSING_CLASSES, t->classes);
    send_names(t, KUBE_OFFER_STORAGE_CLASSES, o->ceiling->storage_classes);
    send_offer(t, KUBE_OFFER_CARRIER, o->identity ? KUBE_CARRIER_DIRECT : KUBE_CARRIER_EXEC);
    if (t->missing[0])
        error_set(&err, ERROR_UNAVAILABLE, 0, "%s: the broker has no right to: %s", t->version,
                  t->missing);
    task_finish(t, &err);
}

static void ask_class(struct broker_task *t);

/* Where the broker may not ask, as with a Role alone, a create finds out. */
static void on_class(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    t->call = NULL;
    if (answer->result.outcome == KUBE_NOT_FOUND)
        add_name(t->classes, t->broker->o.ceiling->runtime_classes[t->question]);
    t->question++;
    ask_class(t);
}

/* The names of the ceiling, one after another. */
static void ask_class(struct broker_task *t)
{
    char *const *names = t->broker->o.ceiling->runtime_classes;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    if (!names || !names[t->question]) {
        end_probe(t);
        return;
    }
    strbuf_printf(&path, "/apis/node.k8s.io/v1/runtimeclasses/%s", names[t->question]);
    task_call(t, "GET", path.data, NULL, on_class);
}

/* Every user of a cluster may see which kinds of objects it has. A group that is not there is 404.
 */
static void on_crds(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    size_t i;
    json_t *kind;
    t->call = NULL;
    json_array_foreach(json_object_get(answer->object, "resources"), i, kind)
    {
        const char *name = json_member_text(kind, "name");
        if (*name && !strchr(name, '/'))
            add_name(t->crds, name);
    }
    t->question = 0;
    ask_class(t);
}

static void on_right(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const json_t *status = json_object_get(answer->object, "status");
    size_t i = t->question;
    char right[KUBE_NAME_SIZE];
    t->call = NULL;
    if (answer->result.outcome != KUBE_DONE) {
        task_fail(t, &answer->result, "ask for rights");
        return;
    }
    snprintf(right, sizeof(right), "%s %s%s%s", rights[i].verb, rights[i].resource,
             rights[i].part ? "/" : "", rights[i].part ? rights[i].part : "");
    if (!json_is_true(json_object_get(status, "allowed")))
        add_name(t->missing, right);
    t->question++;
    ask_right(t);
}

static void ask_right(struct broker_task *t)
{
    const struct kube_ceiling *ceiling = t->broker->o.ceiling;
    const char *shared = ceiling->shared_namespace;
    unsigned given = OF_LEASE | (shared ? OF_SHARED : OF_OWN);
    given |= ceiling->storage_classes && ceiling->storage_classes[0] ? OF_CLAIMS : 0;
    given |= ceiling->direct_port ? OF_DIRECT : 0;
    while (t->question < ELEMENTS(rights) && rights[t->question].needs & ~given)
        t->question++;
    if (t->question == ELEMENTS(rights)) {
        task_call(t, "GET", AGENT_SANDBOX_API, NULL, on_crds);
        return;
    }
    size_t i = t->question;
    _cleanup_json_ json_t *review = json_pack(
        "{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "apiVersion", "authorization.k8s.io/v1",
        "kind", "SelfSubjectAccessReview", "spec", "resourceAttributes", "verb", rights[i].verb,
        "group", rights[i].group, "resource", rights[i].resource, "subresource",
        rights[i].part ? rights[i].part : "", "namespace",
        rights[i].needs & OF_LEASE ? ceiling->lease_namespace
        : shared                   ? shared
                                   : "");
    task_call(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review,
              on_right);
}

static void on_version(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    struct error err = {0};
    t->call = NULL;
    if (answer->result.outcome != KUBE_DONE) {
        task_fail(t, &answer->result, "ask for its version");
        return;
    }
    const char *major = json_member_text(answer->object, "major");
    const char *minor = json_member_text(answer->object, "minor"); /* "29+" with some */
    snprintf(t->version, sizeof(t->version), "Kubernetes %.40s",
             json_member_text(answer->object, "gitVersion"));
    if (strcmp(major, "1") == 0 && atoi(minor) < OLDEST_MINOR) {
        error_set(&err, ERROR_UNSUPPORTED, 0, "%s is older than 1.%d", t->version, OLDEST_MINOR);
        task_finish(t, &err);
        return;
    }
    ask_right(t);
}

void task_start_probe(struct broker_task *t)
{
    task_call(t, "GET", "/version", NULL, on_version);
}
