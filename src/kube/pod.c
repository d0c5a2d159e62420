/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pod.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digits.h"
#include "base/json.h"
#include "kube/manifest.h"

static void copy_word(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static void set_reason(struct kube_reply *r, const char *reason, const char *message)
{
    copy_word(r->reason, sizeof(r->reason), reason);
    copy_word(r->message, sizeof(r->message), message);
}

static enum kube_phase read_phase(const json_t *metadata, const json_t *status)
{
    static const struct {
        const char *name;
        enum kube_phase phase;
    } phases[] = {{"Pending", KUBE_POD_PENDING},
                  {"Running", KUBE_POD_RUNNING},
                  {"Succeeded", KUBE_POD_ENDED},
                  {"Failed", KUBE_POD_ENDED}};
    const char *name = json_member_text(status, "phase");
    enum kube_phase phase = KUBE_POD_PENDING;
    for (size_t i = 0; i < ELEMENTS(phases); i++)
        if (strcmp(name, phases[i].name) == 0)
            phase = phases[i].phase;
    if (phase != KUBE_POD_ENDED && *json_member_text(metadata, "deletionTimestamp"))
        return KUBE_POD_ENDING;
    return phase;
}

/* The first container that ended badly, or waits for something that failed. */
static bool read_containers(const json_t *list, struct kube_reply *ret)
{
    size_t i;
    json_t *c;
    json_array_foreach(list, i, c)
    {
        const json_t *state = json_object_get(c, "state");
        const json_t *ended = json_object_get(state, "terminated");
        const json_t *waiting = json_object_get(state, "waiting");
        const char *reason = json_member_text(ended ? ended : waiting, "reason");
        bool starting = strcmp(reason, "ContainerCreating") == 0 ||
                        strcmp(reason, "PodInitializing") == 0 || strcmp(reason, "Completed") == 0;
        if (!*reason || starting)
            continue;
        const char *message = json_member_text(ended ? ended : waiting, "message");
        char text[200];
        snprintf(text, sizeof(text), "container %.60s, exit code %lld", json_member_text(c, "name"),
                 (long long)json_integer_value(json_object_get(ended, "exitCode")));
        set_reason(ret, reason, *message ? message : text);
        return true;
    }
    return false;
}

static bool read_conditions(const json_t *list, struct kube_reply *ret)
{
    size_t i;
    json_t *c;
    json_array_foreach(list, i, c)
    {
        const char *type = json_member_text(c, "type"), *reason = json_member_text(c, "reason");
        bool unplaced = strcmp(type, "PodScheduled") == 0 &&
                        strcmp(json_member_text(c, "status"), "False") == 0;
        bool disrupted = strcmp(type, "DisruptionTarget") == 0 &&
                         strcmp(json_member_text(c, "status"), "True") == 0;
        if (!unplaced && !disrupted)
            continue;
        set_reason(ret, reason, json_member_text(c, "message"));
        return true;
    }
    return false;
}

void kube_pod_read(const json_t *pod, struct kube_reply *ret)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    const json_t *status = json_object_get(pod, "status");
    const char *id = json_member_text(json_object_get(metadata, "labels"), "mas-sandbox/id");
    const json_t *annotations = json_object_get(metadata, "annotations");
    copy_word(ret->home, sizeof(ret->home), json_member_text(annotations, KUBE_ANNOTATION_HOME));
    copy_word(ret->id, sizeof(ret->id), id);
    copy_word(ret->uid, sizeof(ret->uid), json_member_text(metadata, "uid"));
    ret->generation = 0; /* not known */
    decimal_parse(json_member_text(annotations, KUBE_ANNOTATION_GENERATION), &ret->generation);
    ret->last_exec_s = 0; /* of a pod that has a namespace of its own, that one says it */
    decimal_parse(json_member_text(annotations, KUBE_ANNOTATION_LAST_EXEC), &ret->last_exec_s);
    ret->phase = read_phase(metadata, status);
    ret->reason[0] = ret->message[0] = 0;
    if (*json_member_text(status, "reason"))
        set_reason(ret, json_member_text(status, "reason"), json_member_text(status, "message"));
    else if (!read_containers(json_object_get(status, "containerStatuses"), ret) &&
             !read_containers(json_object_get(status, "initContainerStatuses"), ret))
        read_conditions(json_object_get(status, "conditions"), ret);
}
