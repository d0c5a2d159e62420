/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and deleting a sandbox's objects.
 *
 * A POST without an answer may have been carried out: its object is looked up first, by its fixed
 * name, and counts if it was made of this order, which an earlier broker may have begun with. So
 * does one that is said to exist already. Of a namespace that is another's, or of another create,
 * nothing is touched. What a failed create has made goes with its namespace. In a namespace that
 * sandboxes share, the pod is made last and is all that there is to delete; the policy of its rules
 * is looked for first, so that a create writes once. */
#include <stdio.h>
#include <string.h>

#include "base/digits.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "kube/query.h"
#include "kube/uids.h"

static void create_next(struct broker_task *t);
static void create_again(void *data);

/* --- one object */

static void keep_uid(struct broker_task *t, const json_t *object)
{
    const char *uid = json_member_text(json_object_get(object, "metadata"), "uid");
    if (t->object == KUBE_OBJECT_NAMESPACE)
        snprintf(t->space_uid, sizeof(t->space_uid), "%s", uid);
    else if (t->object == KUBE_OBJECT_POD)
        snprintf(t->pod_uid, sizeof(t->pod_uid), "%s", uid);
}

static void create_fail(struct broker_task *t, enum error_code code, const char *what,
                        const char *why)
{
    error_set(&t->failure, code, 0, "%s: %s", what, why);
    task_undo_create(t);
}

/* The policy that all sandboxes with these rules have. One that says anything else was changed. */
static void on_policy_found(struct broker_task *t, const json_t *policy)
{
    char why[160], name[KUBE_PLACE_SIZE];
    const struct kube_ceiling *c = t->broker->o.ceiling;
    bool goes = *json_member_text(json_object_get(policy, "metadata"), "deletionTimestamp");
    if (!goes && kube_manifest_is_same_policy(policy, c, &t->order)) {
        t->object++;
        create_next(t);
        return;
    }
    snprintf(why, sizeof(why),
             goes ? "%s is being deleted"
                  : "%s says something else than was written; end the sandboxes with its label, "
                    "then delete it",
             kube_manifest_name(t->object, c, &t->order, name, sizeof(name)));
    create_fail(t, ERROR_CONFLICT, "the network policy of its rules", why);
}

/* The order of the questions matters: an object of another daemon is never adopted, one that is
 * going away cannot be, and one of an earlier create with this id would give this caller the other
 * one's files. */
static void on_looked(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    const struct kube_ceiling *c = t->broker->o.ceiling;
    const char *root = kube_layout_is_shared(c) ? "its pod" : "its namespace";
    t->call = NULL;
    if (r->outcome == KUBE_NOT_FOUND) {
        create_next(t);
    } else if (r->outcome != KUBE_DONE) {
        if (task_is_late(t) || !(kube_is_unknown(r->outcome) || r->outcome == KUBE_BUSY))
            create_fail(t, broker_error_code(r->outcome), "look at what exists", r->message);
        else
            task_wait(t, r->retry_after_s, create_again);
    } else if (kube_manifest_is_common(t->object, c, &t->order)) {
        on_policy_found(t, answer->object);
    } else if (!kube_manifest_is_ours(answer->object, c, &t->order)) {
        create_fail(t, ERROR_CONFLICT, root,
                    "it exists and is not of this daemon; it was not touched");
    } else if (*json_member_text(json_object_get(answer->object, "metadata"),
                                 "deletionTimestamp")) {
        create_fail(t, ERROR_CONFLICT, root, "it is being deleted");
    } else if (!kube_manifest_is_of_order(answer->object, &t->order)) {
        create_fail(t, ERROR_CONFLICT, root,
                    "it exists, for another sandbox of this id; it was not touched");
    } else {
        keep_uid(t, answer->object);
        t->made |= t->object == KUBE_OBJECT_NAMESPACE;
        t->object++;
        create_next(t);
    }
}

static void look_up(struct broker_task *t)
{
    const struct kube_ceiling *c = t->broker->o.ceiling;
    char name[KUBE_PLACE_SIZE];
    if (kube_manifest_is_common(t->object, c, &t->order) &&
        sweep_is_at(t->broker, kube_manifest_name(t->object, c, &t->order, name, sizeof(name)))) {
        if (task_is_late(t))
            create_fail(t, ERROR_UNAVAILABLE, "its network policy", "it is being deleted");
        else
            task_wait(t, 0, create_again);
        return;
    }
    t->looking = true;
    task_call_object(t, "GET", t->object, NULL, on_looked);
}

static void create_again(void *data)
{
    look_up(data);
}

void task_retry_create(struct broker_task *t)
{
    task_wait(t, 0, create_again);
}

/* For what the server has refused without doing anything: there is nothing to look at. */
static void create_resend(void *data)
{
    create_next(data);
}

static void on_posted(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    switch (r->outcome) {
    case KUBE_DONE:
        keep_uid(t, answer->object);
        t->made |= t->object == KUBE_OBJECT_NAMESPACE;
        t->object++;
        t->tries = 0;
        create_next(t);
        return;
    case KUBE_EXISTS:
        look_up(t);
        return;
    case KUBE_FORBIDDEN:
        task_explain_forbidden(t, r);
        return;
    case KUBE_TERMINATING:
        create_fail(t, ERROR_CONFLICT, "its namespace", "it is being deleted");
        return;
    default:
        break;
    }
    bool again = kube_is_unknown(r->outcome) || r->outcome == KUBE_FAILED;
    bool hopeless = r->outcome == KUBE_UNTRUSTED;
    t->retry_after_s = r->retry_after_s;
    if (r->outcome == KUBE_BUSY && !task_is_late(t))
        task_wait(t, r->retry_after_s, create_resend);
    else if (again && !hopeless && !task_is_late(t))
        task_wait(t, r->retry_after_s, create_again);
    else
        create_fail(t, broker_error_code(r->outcome), r->field[0] ? r->field : "the cluster",
                    r->message);
}

static json_t *task_manifest(const struct broker_task *t)
{
    return t->manifest ? t->manifest(t) : kube_manifest(t->object, t->broker->o.ceiling, &t->order);
}

static void create_next(struct broker_task *t)
{
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    _cleanup_json_ json_t *object = NULL;
    while (t->object < _KUBE_OBJECT_MAX && !(object = task_manifest(t)))
        t->object++;
    if (!object && t->on_made) {
        t->on_made(t);
        return;
    }
    if (!object) {
        task_finish(t, NULL);
        return;
    }
    if (task_is_late(t)) {
        create_fail(t, ERROR_TIMEOUT, "the cluster", "its objects were not made in time");
        return;
    }
    if (kube_manifest_is_common(t->object, t->broker->o.ceiling, &t->order) && !t->looking) {
        look_up(t);
        return;
    }
    t->looking = false;
    kube_manifest_collection(t->object, t->broker->o.ceiling, &t->order, &path);
    kube_query_add(&path, "fieldValidation", "Strict");
    task_call(t, "POST", path.data, object, on_posted);
}

static bool makes_pod(const struct broker_task *t)
{
    return (t->order.op == KUBE_CREATE || t->order.op == KUBE_PROVE) &&
           t->order.slot != KUBE_SLOT_ANY;
}

static struct kube_uids task_uids(const struct broker_task *t, uint32_t slot)
{
    return kube_uids_of_slot(t->broker->o.ceiling, slot, t->order.flags & KUBE_STREAM);
}

/* User ids that no pod has, and none that is being made. */
static bool slot_is_taken(const struct kube_broker *b, const struct broker_task *self,
                          uint32_t slot)
{
    struct kube_uids wanted = task_uids(self, slot);
    list_for_each(t, &b->tasks, struct broker_task, node) {
        struct kube_uids others = task_uids(t, t->order.slot);
        if (t != self && makes_pod(t) && kube_uids_meet(&wanted, &others))
            return true;
    }
    return broker_knows_uids(b, &wanted);
}

static void create_with_slot(void *data)
{
    struct broker_task *t = data;
    uint32_t count = kube_ceiling_slots(t->broker->o.ceiling);
    if (!t->broker->synced) { /* then it is not known which are taken */
        if (task_is_late(t))
            create_fail(t, ERROR_UNAVAILABLE, "the cluster", "it has not listed its pods yet");
        else
            task_wait(t, 0, create_with_slot);
        return;
    }
    uint32_t slot = random_below(count), tries = 0;
    while (slot_is_taken(t->broker, t, slot) && tries++ < count)
        slot = (slot + 1) % count;
    if (tries > count) {
        create_fail(t, ERROR_LIMIT, "user ids", "all of the range are taken (kube_uid_count)");
        return;
    }
    t->order.slot = slot;
    t->tries = 0;
    create_next(t);
}

void task_start_create(struct broker_task *t)
{
    if (t->order.slot == KUBE_SLOT_ANY)
        create_with_slot(t);
    else
        create_next(t);
}

/* --- deleting what is ours: a namespace, or the pod in one that is shared */

static enum kube_object task_root(const struct broker_task *t)
{
    return kube_layout_is_shared(t->broker->o.ceiling) ? KUBE_OBJECT_POD : KUBE_OBJECT_NAMESPACE;
}

static void send_delete(struct broker_task *t,
                        void (*on_done)(void *data, const struct kube_answer *answer))
{
    _cleanup_json_ json_t *body =
        json_pack("{s:s, s:s, s:{s:s}, s:s}", "apiVersion", "v1", "kind", "DeleteOptions",
                  "preconditions", "uid", t->space_uid, "propagationPolicy", "Background");
    task_call_object(t, "DELETE", task_root(t), body, on_done);
}

/* The answer is the create's failure, whether this succeeds or not. */
static void on_undone(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    t->call = NULL;
    if (answer->result.outcome != KUBE_DONE && answer->result.outcome != KUBE_NOT_FOUND)
        log_warn("a namespace of a failed create stays id=%s message=%s", t->order.id,
                 answer->result.message);
    task_finish(t, &t->failure);
}

void task_undo_create(struct broker_task *t)
{
    if (t->made)
        send_delete(t, on_undone);
    else
        task_finish(t, &t->failure);
}

static void delete_look(void *data);

static void on_deleted(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    enum kube_outcome o = answer->result.outcome;
    t->call = NULL;
    if (o == KUBE_DONE || o == KUBE_CONFLICT || kube_may_pass(o))
        task_wait(t, answer->result.retry_after_s, delete_look);
    else if (o == KUBE_NOT_FOUND)
        task_finish(t, NULL);
    else
        task_fail(t, &answer->result, "delete it");
}

/* An order may be old: another control plane has had the home since, and has taken the pod, or has
 * used the name again. */
static bool delete_is_fenced(struct broker_task *t, const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    const char *number =
        json_member_text(json_object_get(metadata, "annotations"), KUBE_ANNOTATION_GENERATION);
    uint64_t generation = 0;
    struct error err = {0};
    decimal_parse(number, &generation);
    if (t->order.uid[0] && strcmp(json_member_text(metadata, "uid"), t->order.uid) != 0) {
        task_finish(t, NULL);
        return false;
    }
    if (t->order.generation && generation > t->order.generation) {
        t->generation = generation;
        error_set(&err, ERROR_CONFLICT, 0,
                  "the pod of sandbox %s was taken by a later control plane; it was not touched",
                  t->order.id);
        task_finish(t, &err);
        return false;
    }
    t->fenced = true;
    return true;
}

static void on_delete_fence(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    if (task_repeats(t, r, delete_look))
        return;
    if (r->outcome != KUBE_DONE && r->outcome != KUBE_NOT_FOUND)
        task_fail(t, r, "look at its pod");
    else if (r->outcome == KUBE_NOT_FOUND || delete_is_fenced(t, answer->object))
        send_delete(t, on_deleted);
}

/* Where the pod is not what was looked at, it is looked at, too. */
static void delete_fence(struct broker_task *t, const json_t *root)
{
    if (t->fenced || (!t->order.generation && !t->order.uid[0])) {
        send_delete(t, on_deleted);
    } else if (task_root(t) == KUBE_OBJECT_POD) {
        if (delete_is_fenced(t, root))
            send_delete(t, on_deleted);
    } else {
        task_call_object(t, "GET", KUBE_OBJECT_POD, NULL, on_delete_fence);
    }
}

static void on_delete_looked(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    const struct kube_ceiling *c = t->broker->o.ceiling;
    const json_t *metadata = json_object_get(answer->object, "metadata");
    const char *root = kube_layout_root(c);
    struct error err = {0};
    t->call = NULL;
    if (r->outcome == KUBE_NOT_FOUND) {
        task_finish(t, NULL);
        return;
    }
    if (task_is_late(t) || (r->outcome != KUBE_DONE && !kube_may_pass(r->outcome))) {
        if (r->outcome == KUBE_DONE) {
            const json_t *holder =
                kube_layout_is_shared(c) ? metadata : json_object_get(answer->object, "spec");
            error_set(&err, ERROR_TIMEOUT, 0,
                      "%s %s%s is still being deleted (finalizers: %zu); it goes on", root,
                      c->prefix, t->order.id,
                      json_array_size(json_object_get(holder, "finalizers")));
            task_finish(t, &err);
        } else {
            task_fail(t, r, "delete it");
        }
        return;
    }
    if (r->outcome != KUBE_DONE) {
        task_wait(t, r->retry_after_s, delete_look);
    } else if (!kube_manifest_is_ours(answer->object, c, &t->order)) {
        error_set(&err, ERROR_CONFLICT, 0, "%s %s%s is not of this daemon; it was not touched",
                  root, c->prefix, t->order.id);
        task_finish(t, &err);
    } else if (!kube_manifest_is_of_home(answer->object, c)) {
        error_set(&err, ERROR_CONFLICT, 0,
                  "%s %s%s is of another control plane; it was not touched", root, c->prefix,
                  t->order.id);
        task_finish(t, &err);
    } else if (t->space_uid[0] && strcmp(t->space_uid, json_member_text(metadata, "uid")) != 0) {
        task_finish(t, NULL); /* ours is gone, and its name was used again */
    } else if (*json_member_text(metadata, "deletionTimestamp")) {
        task_wait(t, 0, delete_look);
    } else {
        snprintf(t->space_uid, sizeof(t->space_uid), "%s", json_member_text(metadata, "uid"));
        delete_fence(t, answer->object);
    }
}

static void delete_look(void *data)
{
    struct broker_task *t = data;
    task_call_object(t, "GET", task_root(t), NULL, on_delete_looked);
}

void task_start_delete(struct broker_task *t)
{
    delete_look(t);
}
