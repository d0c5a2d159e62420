/* SPDX-License-Identifier: Apache-2.0 */
/* The pod of an earlier control plane: is it this sandbox's, and what is its next generation
 * (runtime/kube/instance.h). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"
#include "runtime/kube/pod-spec.h"
#include "runtime/kube/rebuild.h"

static void pod_take(void *data);

void pod_leave(struct runtime_instance *in, const char *why)
{
    cluster_leave_pod(in->cluster, in->id, why);
    error_set(&in->failure, ERROR_CONFLICT, 0, "%s", why);
    in->events->on_removed(in->data, true);
    pod_tell_end(in, NULL);
    instance_free(in);
}

static bool member_is_same(const json_t *a, const json_t *b, const char *name)
{
    return strcmp(json_member_text(a, name), json_member_text(b, name)) == 0;
}

static bool text_is_pools(const struct strbuf *text)
{
    return text->len && pool_is_record(text->data, text->len);
}

/* Names are used again, so the id alone does not say whether a pod is this sandbox's: an older copy
 * of the disk may know one that had the name before. Where it was made ahead, and its control plane
 * died before its claim was written, its record is still the pool's. */
static bool record_is_own(const struct runtime_instance *in, const struct strbuf *text)
{
    struct error err = {0};
    struct runtime_record r = {0};
    size_t helper = strlen(POD_HELPER_RECORD);
    if (in->ahead)
        return text->len == strlen(in->pool_record) &&
               memcmp(text->data, in->pool_record, text->len) == 0;
    if ((text->len == helper && memcmp(text->data, POD_HELPER_RECORD, helper) == 0) ||
        text_is_pools(text))
        return true;
    in->events->describe(in->data, &r);
    _cleanup_free_ char *own_text = r.text;
    _cleanup_json_ json_t *own =
        own_text ? json_parse_object(own_text, strlen(own_text), &err) : NULL;
    _cleanup_json_ json_t *found =
        text->len ? json_parse_object(text->data, text->len, &err) : NULL;
    return own && found && member_is_same(own, found, "id") &&
           member_is_same(own, found, "owner") && member_is_same(own, found, "generation");
}

static void on_pod_read(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    _cleanup_close_ int stream = fd;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KUBE_SPEC_SIZE);
    if (!in || in->step != POD_READING)
        return;
    bool changed = reply->error == ERROR_CONFLICT || reply->error == ERROR_TOO_LARGE;
    if (reply->error && !changed)
        pod_wait_then(in, pod_note_problem(in, reply->message), pod_read);
    else if (changed)
        pod_leave(in, reply->message);
    else if (stream < 0 || rebuild_read_text(stream, &text) < 0 || !record_is_own(in, &text))
        pod_leave(in, "the pod with its name is another sandbox's");
    else {
        in->unclaimed = !in->ahead && text_is_pools(&text);
        in->step = POD_TAKING;
        pod_take(in);
    }
}

void pod_read(void *data)
{
    struct runtime_instance *in = data;
    pod_ask(in, KUBE_READ, on_pod_read);
}

void pod_go_on(struct runtime_instance *in)
{
    in->step = in->told.phase == KUBE_POD_RUNNING ? POD_CONNECTING : POD_STARTING;
    pod_connect(in);
}

static void on_pod_taken(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    if (!reply->error) {
        in->generation = reply->generation;
        in->taken = true;
        in->step = POD_CLAIMING;
        if (in->unclaimed)
            pod_claim_own(in);
        else
            pod_go_on(in);
    } else if (reply->error == ERROR_CONFLICT) {
        pod_leave(in, reply->message);
    } else {
        pod_wait_then(in, pod_note_problem(in, reply->message), pod_take);
    }
}

static void pod_take(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_TAKE};
    if (in->step != POD_TAKING)
        return;
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    snprintf(order.home, sizeof(order.home), "%s", cluster_options(in->cluster)->home);
    pod_send(in, &order, on_pod_taken);
}
