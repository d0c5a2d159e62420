/* SPDX-License-Identifier: Apache-2.0 */
/* What the objects of a sandbox say about it, changed after they were made: a new generation
 * (KUBE_TAKE), when its last command started and what it is (KUBE_MARK); and read (KUBE_READ).
 *
 * First the namespace is looked at and then the pod, and both must be of this instance and of this
 * home: all who may make pods somewhere can give one our labels, but not our namespace. A mark has
 * the generation that its control plane took the pod with, and a pod with a higher one has another
 * control plane since. The namespace of a mark is written to last, when its pod has let it pass.
 * Where sandboxes share a namespace, in which only this broker makes pods with our names, the pod
 * says all of it.
 *
 * Every write is a merge patch with the uid and the resourceVersion of an object that was looked at
 * just before and carries this instance's labels. So one that another wrote to meanwhile is looked
 * at again, and one that took its name is never written to. A patch without an answer is repeated
 * in the same way: each comes to the same when it is carried out twice, but for a generation, which
 * may pass over a number, and only the last one is answered. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/digits.h"
#include "base/fd.h"
#include "base/json.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"

static void annotate_look(void *data);

static void annotate_fail(struct broker_task *t, enum error_code code, const char *what)
{
    struct error err = {0};
    error_set(&err, code, 0, "the %s of sandbox %s %s",
              t->object == KUBE_OBJECT_POD ? "pod" : "namespace", t->order.id, what);
    task_finish(t, &err);
}

/* --- what is written */

static json_t *make_taken(const struct broker_task *t)
{
    char number[24];
    snprintf(number, sizeof(number), "%llu", (unsigned long long)t->generation);
    return json_pack("{s:s, s:s}", KUBE_ANNOTATION_GENERATION, number, KUBE_ANNOTATION_HOME,
                     t->order.home);
}

static json_t *make_state(const struct broker_task *t)
{
    bool claimed = t->order.state == KUBE_STATE_CLAIMED;
    if (t->order.state == KUBE_STATE_SAME)
        return json_object();
    return json_pack("{s:s, s:s}", KUBE_LABEL_STATE, claimed ? "claimed" : "ready",
                     KUBE_LABEL_ALLOCATED, claimed ? "true" : "false");
}

/* A namespace has the time, a pod what the sandbox is, and both its state; a pod without a
 * namespace of its own has all of it. */
static bool marks_time(const struct broker_task *t)
{
    bool here = t->object == KUBE_OBJECT_NAMESPACE || kube_layout_is_shared(t->broker->o.ceiling);
    return here && t->order.last_exec_s;
}

static bool marks_spec(const struct broker_task *t)
{
    return t->object == KUBE_OBJECT_POD && t->order.spec[0];
}

static bool has_marks(const struct broker_task *t)
{
    return marks_time(t) || marks_spec(t) || t->order.state != KUBE_STATE_SAME;
}

static json_t *make_marks(const struct broker_task *t)
{
    json_t *out = json_object();
    char seconds[24];
    bool lossy;
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)t->order.last_exec_s);
    if (marks_time(t))
        json_object_set_new(out, KUBE_ANNOTATION_LAST_EXEC, json_string(seconds));
    if (t->object == KUBE_OBJECT_POD && t->order.state == KUBE_STATE_CLAIMED)
        json_object_set_new(out, KUBE_ANNOTATION_EVICT, json_string("false"));
    if (!marks_spec(t))
        return out;
    json_object_set_new(out, KUBE_ANNOTATION_OWNER, json_string(t->order.owner));
    json_object_set_new(out, KUBE_ANNOTATION_SPEC,
                        json_string_from_bytes(t->order.spec, strlen(t->order.spec), &lossy));
    return out;
}

static void annotate_write(struct broker_task *t, const char *uid, const char *version);

/* Its pod is done with. */
static void annotate_next(struct broker_task *t)
{
    bool of_pod = t->object == KUBE_OBJECT_POD && !kube_layout_is_shared(t->broker->o.ceiling);
    t->object = KUBE_OBJECT_NAMESPACE;
    t->tries = 0;
    t->fenced = true;
    if (of_pod && t->order.op == KUBE_MARK && has_marks(t))
        annotate_write(t, t->space_uid, t->space_version);
    else
        task_finish(t, NULL);
}

static void on_annotated(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    t->call = NULL;
    bool again = r->outcome == KUBE_CONFLICT || kube_may_pass(r->outcome);
    if (r->outcome == KUBE_DONE)
        annotate_next(t);
    else if (again && !task_is_late(t))
        task_wait(t, r->retry_after_s, annotate_look);
    else
        task_fail(t, r, "annotate it");
}

static void annotate_write(struct broker_task *t, const char *uid, const char *version)
{
    _cleanup_json_ json_t *body =
        json_pack("{s:{s:s, s:s, s:o, s:o}}", "metadata", "uid", uid, "resourceVersion", version,
                  "annotations", t->order.op == KUBE_TAKE ? make_taken(t) : make_marks(t), "labels",
                  t->order.op == KUBE_TAKE ? json_object() : make_state(t));
    task_call_object(t, "PATCH", t->object, body, on_annotated);
}

/* --- what is read */

/* All of it is in the socket before the other end has it. */
static void answer_spec(struct broker_task *t, const char *spec)
{
    struct error err = {0};
    int pair[2], room = 2 * KUBE_SPEC_SIZE;
    size_t len = strlen(spec);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        error_set(&err, ERROR_INTERNAL, errno, "a stream");
        task_finish(t, &err);
        return;
    }
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    bool whole = len < KUBE_SPEC_SIZE &&
                 send(pair[0], spec, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
    fd_close(&pair[0]);
    if (whole) {
        t->answer_fd = pair[1];
        task_finish(t, NULL);
        return;
    }
    fd_close(&pair[1]);
    annotate_fail(t, ERROR_TOO_LARGE, "has a record that is larger than any this daemon writes");
}

/* --- looking at it first */

/* A pod whose generation cannot be counted on is not taken: a smaller one than before would
 * let an earlier control plane in again. */
static bool read_generation(const json_t *annotations, uint64_t *ret)
{
    return decimal_parse(json_member_text(annotations, KUBE_ANNOTATION_GENERATION), ret) == 0 &&
           *ret >= 1 && *ret < KUBE_GENERATIONS;
}

/* A claim has written the state of its pod (claim.c), and a mark of its namespace's follows. */
static bool says_so_already(const struct broker_task *t, const json_t *metadata)
{
    const json_t *labels = json_object_get(metadata, "labels");
    const json_t *annotations = json_object_get(metadata, "annotations");
    return t->order.op == KUBE_MARK && !marks_spec(t) && !marks_time(t) &&
           t->order.state == KUBE_STATE_CLAIMED &&
           strcmp(json_member_text(labels, KUBE_LABEL_STATE), "claimed") == 0 &&
           strcmp(json_member_text(labels, KUBE_LABEL_ALLOCATED), "true") == 0 &&
           strcmp(json_member_text(annotations, KUBE_ANNOTATION_EVICT), "false") == 0;
}

static void on_pod_looked(struct broker_task *t, const json_t *metadata)
{
    const json_t *annotations = json_object_get(metadata, "annotations");
    if (t->order.op == KUBE_READ) {
        snprintf(t->order.owner, sizeof(t->order.owner), "%s",
                 json_member_text(annotations, KUBE_ANNOTATION_OWNER));
        answer_spec(t, json_member_text(annotations, KUBE_ANNOTATION_SPEC));
    } else if (!read_generation(annotations, &t->generation)) {
        annotate_fail(t, ERROR_CONFLICT,
                      "was changed by hand: its generation is not a number that can be raised");
    } else if (t->order.op == KUBE_MARK && t->generation > t->order.generation) {
        annotate_fail(t, ERROR_CONFLICT, "was taken by a later control plane; it was not touched");
    } else if (t->order.op == KUBE_MARK && (!has_marks(t) || says_so_already(t, metadata))) {
        annotate_next(t);
    } else {
        t->generation++;
        annotate_write(t, json_member_text(metadata, "uid"),
                       json_member_text(metadata, "resourceVersion"));
    }
}

static void on_namespace_looked(struct broker_task *t, const json_t *metadata)
{
    const char *uid = json_member_text(metadata, "uid");
    const char *version = json_member_text(metadata, "resourceVersion");
    if (t->fenced) {
        annotate_write(t, uid, version);
        return;
    }
    snprintf(t->space_uid, sizeof(t->space_uid), "%s", uid);
    snprintf(t->space_version, sizeof(t->space_version), "%s", version);
    t->object = KUBE_OBJECT_POD;
    t->tries = 0;
    annotate_look(t);
}

static void on_annotate_looked(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    const struct kube_ceiling *c = t->broker->o.ceiling;
    const json_t *metadata = json_object_get(answer->object, "metadata");
    t->call = NULL;
    if (task_repeats(t, r, annotate_look))
        return;
    if (r->outcome != KUBE_DONE)
        task_fail(t, r, "look at it");
    else if (!kube_manifest_is_ours(answer->object, c, &t->order))
        annotate_fail(t, ERROR_CONFLICT, "is not of this daemon; it was not touched");
    else if (!kube_manifest_is_of_home(answer->object, c))
        annotate_fail(t, ERROR_CONFLICT, "is of another control plane; it was not touched");
    else if (*json_member_text(metadata, "deletionTimestamp"))
        annotate_fail(t, ERROR_NOT_FOUND, "is being deleted");
    else if (t->object == KUBE_OBJECT_POD)
        on_pod_looked(t, metadata);
    else
        on_namespace_looked(t, metadata);
}

static void annotate_look(void *data)
{
    struct broker_task *t = data;
    task_call_object(t, "GET", t->object, NULL, on_annotate_looked);
}

void task_start_annotate(struct broker_task *t)
{
    t->object =
        kube_layout_is_shared(t->broker->o.ceiling) ? KUBE_OBJECT_POD : KUBE_OBJECT_NAMESPACE;
    bool nothing = !t->order.last_exec_s && !t->order.spec[0] && t->order.state == KUBE_STATE_SAME;
    if (t->order.op == KUBE_MARK && nothing)
        task_finish(t, NULL);
    else
        annotate_look(t);
}
