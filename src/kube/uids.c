/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/uids.h"

#include "base/alloc.h"
#include "kube/ceiling.h"

struct kube_uids kube_uids_of_slot(const struct kube_ceiling *c, uint32_t slot, bool streamed)
{
    struct kube_uids u = {.ids = {[KUBE_UID_SANDBOX] = c->uid_first + 2 * slot,
                                  [KUBE_UID_LINK] = c->uid_first + 2 * slot + 1}};
    if (streamed) /* where no sandbox and no link has its own (kube_ceiling_slots()) */
        u.ids[KUBE_UID_STREAM] = c->uid_first + c->uid_count - 1 - slot;
    return u;
}

static void add_uid(struct kube_uids *u, const json_t *container)
{
    const json_t *security = json_object_get(container, "securityContext");
    json_int_t uid = json_integer_value(json_object_get(security, "runAsUser"));
    for (size_t i = 0; uid > 0 && uid <= UINT32_MAX && i < ELEMENTS(u->ids); i++) {
        if (u->ids[i] && u->ids[i] != (uint32_t)uid)
            continue;
        u->ids[i] = (uint32_t)uid;
        return;
    }
}

struct kube_uids kube_uids_read(const json_t *pod)
{
    static const char *const lists[] = {"containers", "initContainers"};
    const json_t *spec = json_object_get(pod, "spec");
    struct kube_uids u = {0};
    json_t *container;
    size_t k;
    add_uid(&u, spec);
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        json_array_foreach(json_object_get(spec, lists[i]), k, container) add_uid(&u, container);
    return u;
}

bool kube_uids_meet(const struct kube_uids *a, const struct kube_uids *b)
{
    for (size_t i = 0; i < ELEMENTS(a->ids); i++)
        for (size_t k = 0; k < ELEMENTS(b->ids); k++)
            if (a->ids[i] && a->ids[i] == b->ids[k])
                return true;
    return false;
}
