/* SPDX-License-Identifier: Apache-2.0 */
/* Is the cluster there, which version is it, and does the broker have the rights that its orders
 * need: asked one by one, so that the answer names those that are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"

/* The oldest with sidecars (an init container that restarts) on by default. */
#define OLDEST_MINOR 29

static const struct {
    const char *verb, *group, *resource, *part;
    bool of_claims; /* needed only where the ceiling has storage classes */
    bool of_direct; /* needed only for the direct carrier */
    bool of_lease;  /* in the namespace of Leases */
} rights[] = {
    {"create", "", "namespaces", NULL, false},
    {"get", "", "namespaces", NULL, false},
    {"list", "", "namespaces", NULL, false},
    {"delete", "", "namespaces", NULL, false},
    {"patch", "", "namespaces", NULL, false},
    {"create", "", "pods", NULL, false},
    {"get", "", "pods", NULL, false},
    {"list", "", "pods", NULL, false},
    {"watch", "", "pods", NULL, false},
    {"patch", "", "pods", NULL, false},
    {"create", "", "pods", "exec", false},
    {"get", "", "pods", "exec", false},
    {"create", "", "serviceaccounts", NULL, false},
    {"get", "", "serviceaccounts", NULL, false},
    {"create", "networking.k8s.io", "networkpolicies", NULL, false},
    {"get", "networking.k8s.io", "networkpolicies", NULL, false},
    {"list", "", "resourcequotas", NULL, false},
    {"get", "node.k8s.io", "runtimeclasses", NULL, false},
    {"create", "", "persistentvolumeclaims", NULL, true},
    {"get", "", "persistentvolumeclaims", NULL, true},
    {"get", "", "pods", "log", .of_direct = true},
    {"create", "coordination.k8s.io", "leases", NULL, .of_lease = true},
    {"get", "coordination.k8s.io", "leases", NULL, .of_lease = true},
    {"patch", "coordination.k8s.io", "leases", NULL, .of_lease = true},
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
    send_names(t, KUBE_OFFER_RUNTIME_CLASSES, o->ceiling->runtime_classes);
    send_names(t, KUBE_OFFER_STORAGE_CLASSES, o->ceiling->storage_classes);
    send_offer(t, KUBE_OFFER_CARRIER, o->identity ? KUBE_CARRIER_DIRECT : KUBE_CARRIER_EXEC);
    if (t->missing[0])
        error_set(&err, ERROR_UNAVAILABLE, 0, "%s: the broker has no right to: %s", t->version,
                  t->missing);
    task_finish(t, &err);
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
    bool claims = ceiling->storage_classes && ceiling->storage_classes[0];
    bool direct = ceiling->direct_port != 0;
    while (t->question < ELEMENTS(rights) && ((rights[t->question].of_claims && !claims) ||
                                              (rights[t->question].of_direct && !direct)))
        t->question++;
    if (t->question == ELEMENTS(rights)) {
        end_probe(t);
        return;
    }
    size_t i = t->question;
    _cleanup_json_ json_t *review = json_pack(
        "{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "apiVersion", "authorization.k8s.io/v1",
        "kind", "SelfSubjectAccessReview", "spec", "resourceAttributes", "verb", rights[i].verb,
        "group", rights[i].group, "resource", rights[i].resource, "subresource",
        rights[i].part ? rights[i].part : "", "namespace",
        rights[i].of_lease ? ceiling->lease_namespace : "");
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
