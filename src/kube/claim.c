/* SPDX-License-Identifier: Apache-2.0 */
/* A pod that was made ahead becomes a caller's (KUBE_CLAIM), by one merge patch of its state, its
 * owner and its record, with the uid and the resourceVersion of what was last seen of it.
 *
 * Theory of operation. Several brokers may want the same pod, and each knows it by its watch, which
 * is always a little old. So what the watch says only decides whether the patch is worth a try: it
 * has the version that was seen, in which no caller had the pod, and the API server refuses it
 * where the pod has changed since. Then the pod is looked at, because a kubelet writes to it, too;
 * only where it is still free, is the patch sent again, with the version that was looked at. A
 * patch without an answer is treated the same, and counts as done where the pod says what this
 * order says: records of two sandboxes are never equal.
 *
 * The namespace is looked at where this broker has not done so for the pod: all who may make pods
 * somewhere can give one our labels, but not our namespace. */
#include <string.h>

#include "base/digits.h"
#include "base/json.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"

static void claim_look(void *data);

static void claim_fail(struct broker_task *t, enum error_code code, const char *what)
{
    struct error err = {0};
    error_set(&err, code, 0, "the pod of sandbox %s %s", t->order.id, what);
    task_finish(t, &err);
}

static void on_claimed(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    if (r->outcome == KUBE_DONE)
        task_finish(t, NULL);
    else if (r->outcome == KUBE_CONFLICT && !task_is_late(t))
        claim_look(t);
    else if (r->outcome == KUBE_CONFLICT) /* whose it is, is not known */
        claim_fail(t, ERROR_TIMEOUT, "was written to by others all the time");
    else if (!task_repeats(t, r, claim_look))
        task_fail(t, r, "claim its pod");
}

static void claim_write(struct broker_task *t, const char *uid, const char *version)
{
    bool lossy;
    _cleanup_json_ json_t *body =
        json_pack("{s:{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:o}}}", "metadata", "uid", uid,
                  "resourceVersion", version, "labels", KUBE_LABEL_STATE, "claimed",
                  KUBE_LABEL_ALLOCATED, "true", "annotations", KUBE_ANNOTATION_EVICT, "false",
                  KUBE_ANNOTATION_OWNER, t->order.owner, KUBE_ANNOTATION_SPEC,
                  json_string_from_bytes(t->order.spec, strlen(t->order.spec), &lossy));
    task_call_object(t, "PATCH", KUBE_OBJECT_POD, body, on_claimed);
}

bool kube_claim_is_open(const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    const json_t *labels = json_object_get(metadata, "labels");
    return strcmp(json_member_text(labels, KUBE_LABEL_ALLOCATED), "false") == 0 &&
           !*json_member_text(metadata, "deletionTimestamp");
}

/* An earlier broker may have carried the order out. */
static bool is_claimed_by(const struct broker_task *t, const json_t *annotations)
{
    return strcmp(json_member_text(annotations, KUBE_ANNOTATION_OWNER), t->order.owner) == 0 &&
           strcmp(json_member_text(annotations, KUBE_ANNOTATION_SPEC), t->order.spec) == 0;
}

static void on_claim_seen(struct broker_task *t, const json_t *pod)
{
    const struct kube_ceiling *c = t->broker->o.ceiling;
    const json_t *metadata = json_object_get(pod, "metadata");
    const json_t *annotations = json_object_get(metadata, "annotations");
    uint64_t generation = 0;
    decimal_parse(json_member_text(annotations, KUBE_ANNOTATION_GENERATION), &generation);
    if (!kube_manifest_is_ours(pod, c, &t->order) || !kube_manifest_is_of_home(pod, c))
        claim_fail(t, ERROR_CONFLICT, "is not of this daemon; it was not touched");
    else if (*json_member_text(metadata, "deletionTimestamp"))
        claim_fail(t, ERROR_NOT_FOUND, "is being deleted");
    else if (generation != t->order.generation)
        claim_fail(t, ERROR_CONFLICT, "was taken by another control plane; it was not touched");
    else if (kube_claim_is_open(pod))
        claim_write(t, json_member_text(metadata, "uid"),
                    json_member_text(metadata, "resourceVersion"));
    else if (is_claimed_by(t, annotations))
        task_finish(t, NULL);
    else
        claim_fail(t, ERROR_CONFLICT, "has a caller already; it was not touched");
}

static void on_claim_looked(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    if (r->outcome == KUBE_DONE)
        on_claim_seen(t, answer->object);
    else if (!task_repeats(t, r, claim_look))
        task_fail(t, r, "look at its pod");
}

static void claim_look(void *data)
{
    task_call_object(data, "GET", KUBE_OBJECT_POD, NULL, on_claim_looked);
}

static void claim_begin(struct broker_task *t)
{
    const struct kube_reply *known = broker_find_pod(t->broker, t->order.id);
    const char *version = broker_find_open(t->broker, t->order.id);
    if (known && version && known->generation == t->order.generation &&
        strcmp(known->home, kube_ceiling_home(t->broker->o.ceiling)) == 0)
        claim_write(t, known->uid, version);
    else
        claim_look(t);
}

static void claim_look_at_namespace(void *data);

static void on_claim_namespace(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_ceiling *c = t->broker->o.ceiling;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    if (task_repeats(t, r, claim_look_at_namespace))
        return;
    if (r->outcome != KUBE_DONE) {
        task_fail(t, r, "look at its namespace");
    } else if (!kube_manifest_is_ours(answer->object, c, &t->order) ||
               !kube_manifest_is_of_home(answer->object, c)) {
        claim_fail(t, ERROR_CONFLICT,
                   "is in a namespace that is not of this daemon; it was not touched");
    } else {
        broker_trust_pod(t->broker, t->order.id);
        t->tries = 0;
        claim_begin(t);
    }
}

static void claim_look_at_namespace(void *data)
{
    task_call_object(data, "GET", KUBE_OBJECT_NAMESPACE, NULL, on_claim_namespace);
}

void task_start_claim(struct broker_task *t)
{
    if (kube_layout_is_shared(t->broker->o.ceiling) || broker_trusts_pod(t->broker, t->order.id))
        claim_begin(t);
    else
        claim_look_at_namespace(t);
}
