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

/* What one more pod of this order takes of a quota's row. */
static double taken_by(const struct kube_order *o, const char *row)
{
    uint64_t cpu = o->cpu_request_millicores ? o->cpu_request_millicores : o->cpu_millicores;
    uint64_t memory = o->memory_request_bytes ? o->memory_request_bytes : o->memory_bytes;
    if (strcmp(row, "cpu") == 0 || strcmp(row, "requests.cpu") == 0)
        return (double)cpu / 1000;
    if (strcmp(row, "memory") == 0 || strcmp(row, "requests.memory") == 0)
        return (double)memory;
    if (strcmp(row, "limits.cpu") == 0)
        return (double)o->cpu_millicores / 1000;
    if (strcmp(row, "limits.memory") == 0)
        return (double)o->memory_bytes;
    if (strcmp(row, "requests.storage") == 0)
        return (double)(o->workspace.bytes + o->cache.bytes);
    return 1; /* a count */
}

static bool quota_is_full(const json_t *quota, const struct kube_order *o)
{
    const json_t *status = json_object_get(quota, "status");
    const json_t *used = json_object_get(status, "used");
    const char *row;
    json_t *hard;
    json_object_foreach(json_object_get(status, "hard"), row, hard)
    {
        double most, now;
        if (parse_quantity(json_string_value(hard) ? json_string_value(hard) : "", &most) &&
            parse_quantity(json_member_text(used, row), &now) && now + taken_by(o, row) > most)
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
            if (!quota_is_full(quota, &t->order))
                continue;
            end_forbidden(t, ERROR_LIMIT, "a ResourceQuota of the cluster is full");
            return;
        }
    t->question++;
    ask_next(t);
}

static void ask_right(struct broker_task *t)
{
    char space[80];
    snprintf(space, sizeof(space), "%s%s", t->broker->o.ceiling->prefix, t->order.id);
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
    char path[300];
    const char *prefix = t->broker->o.ceiling->prefix;
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
        snprintf(path, sizeof(path), "/api/v1/namespaces/%s%s/serviceaccounts/sandbox", prefix,
                 t->order.id);
        break;
    case ASK_CLASS:
        snprintf(path, sizeof(path), "/apis/node.k8s.io/v1/runtimeclasses/%s",
                 t->order.runtime_class);
        break;
    case ASK_QUOTA:
        snprintf(path, sizeof(path), "/api/v1/namespaces/%s%s/resourcequotas", prefix, t->order.id);
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
