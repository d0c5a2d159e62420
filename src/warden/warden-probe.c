/* What this host can enforce, as PLAN_PROBE answers it. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "warden/ceiling.h"
#include "warden/limits.h"
#include "warden/oci/version.h"
#include "warden/state.h"
#include "warden/warden.h"

static void probe_limits(const struct warden *w, struct plan_reply *ret)
{
    static const enum wall limited[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};
    for (size_t i = 0; i < ELEMENTS(limited); i++)
        ret->mechanism[limited[i]] = (uint8_t)cgroup_root_enforces(&w->cgroups, limited[i]);
    if (!ret->mechanism[WALL_PROCESSES])
        ret->mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    if (w->cgroups.driver && w->cgroups.has[CGROUP_FREEZER])
        ret->features |= FEATURE_FREEZER;
}

void warden_probe_fence(const struct warden *w, struct plan_reply *ret)
{
    *ret = (struct plan_reply){.version = PLAN_VERSION, .wall = -1};
    probe_limits(w, ret);
    limits_describe_fence(w, ret->mechanism);
    ret->landlock_abi = (uint32_t)w->child_template.landlock_abi;
    if (ceiling_check_fence(w, ret) < 0)
        ret->error = EOPNOTSUPP;
}

void warden_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    *ret = (struct plan_reply){.version = PLAN_VERSION, .wall = -1};
    probe_limits(w, ret);
    ret->mechanism[WALL_DISK] = w->disks.usable ? MECHANISM_LOOP : MECHANISM_TMPFS;
    limits_describe_walls(w, b, ret->mechanism);
    if (!b)
        snprintf(ret->message, sizeof(ret->message), "%s", w->no_namespaces);
    ret->landlock_abi = b ? 0 : (uint32_t)w->child_template.landlock_abi;
    ret->features |= (w->no_namespaces[0] ? 0 : FEATURE_USERNS) | (w->was_root ? FEATURE_ROOT : 0) |
                     (w->ids.shared ? 0 : FEATURE_SUBUIDS) | (w->disks.usable ? FEATURE_LOOP : 0);
    for (int i = OCI_NONE + 1; i < _OCI_BACKEND_MAX; i++)
        ret->features |= w->oci.path[i][0] ? FEATURE_OCI(i) : 0;
    ret->backend = b;
    if (oci_backend_is_engine(b))
        engine_describe(w, b, ret);
    else if (b)
        oci_version_describe(w, b, ret);
}
