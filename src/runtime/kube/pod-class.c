/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/pod-class.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "proto/walls.h"
#include "runtime/kube/cluster.h"

#define SHARED_UID  "the runner's user id: commands are kept from it by Landlock"
#define SHARED_FILE "a file on the node's disk that has no limit, /dev/termination-log"
#define SHARED_ROUTE                                                                               \
    "a route to the daemon's stream_endpoint, where each call needs a key or a token"

static const char *const guest[] = {SHARED_UID, SHARED_FILE, NULL};
static const char *const guest_streamed[] = {SHARED_UID, SHARED_FILE, SHARED_ROUTE, NULL};

static const struct pod_class classes[] = {
    {"kube-gvisor", "gvisor", WALLS_KERNEL_GVISOR, guest, guest_streamed},
    {"kube-kata", "kata", WALLS_KERNEL_KATA, guest, guest_streamed},
};

const struct pod_class *pod_class_find(const char *runtime)
{
    for (size_t i = 0; runtime && i < ELEMENTS(classes); i++)
        if (strcmp(classes[i].runtime, runtime) == 0)
            return &classes[i];
    return NULL;
}

/* names: as the broker writes them, with ", " between them. */
static bool names_has(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; *p; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ", ");
        if (len == n && memcmp(p, name, n) == 0)
            return true;
        p += len;
    }
    return false;
}

int pod_class_check(const char *runtime, const struct cluster_report *r, struct error *err)
{
    const struct pod_class *class = pod_class_find(runtime);
    if (!class || !r->offered)
        return 0;
    const char *allowed = r->offers[KUBE_OFFER_RUNTIME_CLASSES];
    bool cut = strstr(allowed, "...") != NULL; /* then the broker decides */
    if (!names_has(allowed, class->name) && !cut)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "runtime '%s' needs the RuntimeClass '%s', which the operator does not "
                         "allow (kube_runtime_classes)",
                         runtime, class->name);
    if (names_has(r->offers[KUBE_OFFER_MISSING_CLASSES], class->name))
        return error_set(
            err, ERROR_UNSUPPORTED, 0,
            "runtime '%s' needs the RuntimeClass '%s', which the cluster does not have", runtime,
            class->name);
    return 0;
}
