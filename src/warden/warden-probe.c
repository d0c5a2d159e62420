/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can enforce, as PLAN_PROBE answers it. */
#include "base/alloc.h"
#include "warden/state.h"

void warden_describe_host(const struct warden *w, struct plan_reply *ret)
{
    ret->mechanism[WALL_DISK] = w->disks.usable ? MECHANISM_LOOP : MECHANISM_TMPFS;
    ret->features |= (w->no_namespaces[0] ? 0 : FEATURE_USERNS) | (w->was_root ? FEATURE_ROOT : 0) |
                     (w->ids.shared ? 0 : FEATURE_SUBUIDS) | (w->disks.usable ? FEATURE_LOOP : 0);
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        ret->features |= cell_kinds[kind]->features ? cell_kinds[kind]->features(w) : 0;
}

void warden_probe(const struct warden *w, enum cell_kind kind, enum oci_backend b,
                  struct plan_reply *ret)
{
    *ret = (struct plan_reply){.version = PLAN_VERSION, .wall = -1, .backend = b};
    static const enum wall limited[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};
    for (size_t i = 0; i < ELEMENTS(limited); i++)
        ret->mechanism[limited[i]] = (uint8_t)cgroup_root_enforces(&w->cgroups, limited[i]);
    if (!ret->mechanism[WALL_PROCESSES])
        ret->mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    if (w->cgroups.driver && w->cgroups.has[CGROUP_FREEZER])
        ret->features |= FEATURE_FREEZER;
    if (cell_kinds[kind]->probe)
        cell_kinds[kind]->probe(w, b, ret);
}
