/* SPDX-License-Identifier: Apache-2.0 */
/* What a 403 means. Its Status is the same for a missing right, a full quota, Pod Security, an
 * unknown RuntimeClass and an account that is not there yet; only its words differ, which are for
 * people. So the server is asked, one question after another, and the first that explains it
 * counts. The sixth meaning, a namespace that is being deleted, has a cause of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"

enum { ASK_RIGHT, ASK_ACCOUNT, ASK_CLASS, ASK_QUOTA, ASK_NOTHING };

static const struct {
    const char *group, *resource;
} resources[] = {
    [KUBE_OBJECT_NAMESPACE] = {"", "namespaces"},
    [KUBE_OBJECT_ACCOUNT] = {"", "serviceaccounts"},
    [KUBE_OBJECT_POLICY] = {"networking.k8s.io", "networkpolicies"},
    [KUBE_OBJECT_WORKSPACE] = {"", "persistentvolumeclaims"},
    [KUBE_OBJECT_CACHE] = {"", "persistentvolumeclaims"},
    [KUBE_OBJECT_POD] = {"", "pods"},
};

static void ask_next(struct broker_task *t);

static void end_forbidden(struct broker_task *t, enum error_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void end_forbidden(struct broker_task *t, enum error_code code, const char *fmt, ...)
{
    struct kube_result why = t->forbidden;
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    error_set(&t->failure, code, 0, "%s (%s)", text, why.message);
    task_undo_create(t);
}

/* --- quantities, as far as quotas write them */

static bool parse_quantity(const char *text, double *ret)
{
    static const struct {
        const char *suffix;
        double unit;
    } units[] = {
        {"", 1},     {"m", 1e-3},  {"k", 1e3},      {"M", 1e6},         {"G", 1e9},
        {"T", 1e12}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776}};
    char *end;
    double v = strtod(text, &end);
    if (end == text)
        return false;
    for (size_t i = 0; i < ELEMENTS(units); i++) {
        if (strcmp(end, units[i].suffix) != 0)
            continue;
        *ret = v * units[i].unit;
        return true;
    }
    return false;
}

/* What the sandbox and its link together take of a row of pods; 0: nothing. */
static double taken_by_pod(const struct kube_order *o, const char *row)
{
    uint64_t cpu = o->cpu_request_millicores ? o->cpu_request_millicores : o->cpu_millicores;
    uint64_t memory = o->memory_request_bytes ? o->memory_request_bytes : o->memory_bytes;
    const uint64_t link_bytes = (uint64_t)KUBE_LINK_MEMORY_MIB << 20;
    const struct {
        const char *row;
        double taken;
    } rows[] = {
        {"cpu", (double)(cpu + KUBE_LINK_REQUEST_MILLICORES) / 1000},
        {"requests.cpu", (double)(cpu + KUBE_LINK_REQUEST_MILLICORES) / 1000},
        {"limits.cpu", (double)(o->cpu_millicores + KUBE_LINK_MILLICORES) / 1000},
        {"memory", (double)(memory + link_bytes)},
        {"requests.memory", (double)(memory + link_bytes)},
        {"limits.memory", (double)(o->memory_bytes + link_bytes)},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        if (strcmp(row, rows[i].row) == 0)
            return rows[i].taken;
    return 0;
}

/* A row of one storage class has its name in front. A claim without one gets the cluster's own,
 * whose name is not known here, so that each may be it. */
static double taken_by_claim(const struct kube_volume_order *v, const char *row)
{
    static const char of_class[] = ".storageclass.storage.k8s.io/";
    const char *at = strstr(row, of_class);
    size_t n = at ? (size_t)(at - row) : 0;
    bool other = at && v->storage_class[0] &&
                 (strlen(v->storage_class) != n || strncmp(row, v->storage_class, n) != 0);
    const char *what = at ? at + strlen(of_class) : row;
    if (other)
        return 0;
    if (strcmp(what, "requests.storage") == 0)
        return (double)v->bytes;
    return strcmp(what, "persistentvolumeclaims") == 0 ? 1 : 0;
}

/* Is it the row that counts objects of this kind: pods, count/pods, count/RESOURCE.GROUP? */
static bool counts_object(int object, const char *row)
{
    const char *group = resources[object].group;
    char whole[120];
    snprintf(whole, sizeof(whole), "count/%s%s%s", resources[object].resource, *group ? "." : "",
             group);
    return strcmp(row, whole) == 0 || strcmp(row, resources[object].resource) == 0;
}

/* What the object that was refused takes of a row; 0: the row is not about it. */
static double taken_by(const struct broker_task *t, const char *row)
{
    if (counts_object(t->object, row))
        return 1;
    if (t->object == KUBE_OBJECT_POD)
        return taken_by_pod(&t->order, row);
    if (t->object == KUBE_OBJECT_WORKSPACE)
        return taken_by_claim(&t->order.workspace, row);
    return t->object == KUBE_OBJECT_CACHE ? taken_by_claim(&t->order.cache, row) : 0;
}

static bool quota_is_full(const json_t *quota, const struct broker_task *t)
{
    const json_t *status = json_object_get(quota, "status");
    const json_t *used = json_object_get(status, "used");
    const char *row;
    json_t *hard;
    json_object_foreach(json_object_get(status, "hard"), row, hard)
    {
        double most, now, taken = taken_by(t, row);
        if (taken > 0 &&
            parse_quantity(json_string_value(hard) ? json_string_value(hard) : "", &most) &&
            parse_quantity(json_member_text(used, row), &now) && now + taken > most)
            return true;
    }
    return false;
}

/* --- questions */

static void on_answer(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    const struct kube_result *r = &answer->result;
    const json_t *status = json_object_get(answer->object, "status");
    bool done = r->outcome == KUBE_DONE;
    size_t i;
    json_t *quota;
    t->call = NULL;
    if (t->question == ASK_RIGHT && done && !json_is_true(json_object_get(status, "allowed"))) {
        end_forbidden(t, ERROR_UNAVAILABLE, "the broker has no right to create %s",
                      resources[t->object].resource);
        return;
    }
    if (t->question == ASK_ACCOUNT && r->outcome == KUBE_NOT_FOUND && !task_is_late(t)) {
        task_retry_create(t);
        return;
    }
    if (t->question == ASK_CLASS && r->outcome == KUBE_NOT_FOUND) {
        end_forbidden(t, ERROR_INVALID, "the cluster has no RuntimeClass '%s'",
                      t->order.runtime_class);
        return;
    }
    if (t->question == ASK_QUOTA && done)
        json_array_foreach(json_object_get(answer->object, "items"), i, quota)
        {
            if (!quota_is_full(quota, t))
                continue;
            end_forbidden(t, ERROR_LIMIT, "a ResourceQuota of the cluster is full");
            return;
        }
    t->question++;
    ask_next(t);
}

static void ask_right(struct broker_task *t)
{
    char space[KUBE_PLACE_SIZE];
    kube_layout_namespace(t->broker->o.ceiling, t->order.id, space);
    _cleanup_json_ json_t *review =
        json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s}}}", "apiVersion", "authorization.k8s.io/v1",
                  "kind", "SelfSubjectAccessReview", "spec", "resourceAttributes", "verb", "create",
                  "group", resources[t->object].group, "resource", resources[t->object].resource,
                  "namespace", t->object == KUBE_OBJECT_NAMESPACE ? "" : space);
    task_call(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review,
              on_answer);
}

static void ask_next(struct broker_task *t)
{
    char path[300], space[KUBE_PLACE_SIZE];
    kube_layout_namespace(t->broker->o.ceiling, t->order.id, space);
    bool pod = t->object == KUBE_OBJECT_POD;
    if (t->question == ASK_ACCOUNT && !pod)
        t->question = ASK_CLASS;
    if (t->question == ASK_CLASS && (!pod || !t->order.runtime_class[0]))
        t->question = ASK_QUOTA;
    switch (t->question) {
    case ASK_RIGHT:
        ask_right(t);
        return;
    case ASK_ACCOUNT:
        snprintf(path, sizeof(path), "/api/v1/namespaces/%s/serviceaccounts/sandbox", space);
        break;
    case ASK_CLASS:
        snprintf(path, sizeof(path), "/apis/node.k8s.io/v1/runtimeclasses/%s",
                 t->order.runtime_class);
        break;
    case ASK_QUOTA:
        snprintf(path, sizeof(path), "/api/v1/namespaces/%s/resourcequotas", space);
        break;
    default:
        end_forbidden(t, ERROR_FORBIDDEN,
                      "a rule of the cluster (Pod Security, or another admission) refuses it");
        return;
    }
    task_call(t, "GET", path, NULL, on_answer);
}

void task_explain_forbidden(struct broker_task *t, const struct kube_result *why)
{
    t->forbidden = *why;
    t->question = ASK_RIGHT;
    ask_next(t);
}
