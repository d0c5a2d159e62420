/* SPDX-License-Identifier: Apache-2.0 */
/* See landlock.h. The mechanism is in the warden (warden/fence/fence.h); here is what it cannot do,
 * which is refused by name or said in `effective`. */
#include "runtime/landlock/landlock.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

static const char *const shared[] = {
    "the user id, and what the kernel counts by it", /* only where it is not its own */
    "process ids of the host can be probed",
    "names, sizes and times of the host's files can be asked for",
    "the host's name",
    "the disk that boxes are on",
    NULL,
};

static const char *const *shared_walls(const struct effective *e)
{
    return e->uid_separation ? shared + 1 : shared;
}

static int landlock_check(const struct runtime_ops *ops, const struct runtime_host *host,
                          const struct spec *spec, struct error *err)
{
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    if (p->error)
        return error_set(err, ERROR_UNSUPPORTED, 0, "%.255s", p->message);
    if (spec->tool_net)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the landlock runtime has no way to the gateway: URL tools need another");
    if (spec->workdir)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the landlock runtime has a workdir of its own, and no other");
    if (spec->n_mounts)
        return error_set(err, ERROR_UNSUPPORTED, 0, "the landlock runtime has no mounts");
    return 0;
}

static void landlock_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                           struct runtime_report *ret)
{
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    *ret = (struct runtime_report){.available = !p->error};
    ret->pause = p->features & FEATURE_FREEZER;
    warden_effective_fill(&ret->walls, ops->name, p, NULL);
    ret->walls.shares = shared_walls(&ret->walls);
    if (p->error)
        snprintf(ret->why, sizeof(ret->why), "%.255s", p->message);
}

const struct runtime_ops runtime_landlock = {
    .name = "landlock",
    .summary = "no namespaces: Landlock, seccomp and user ids among the host's processes",
    .isolation = ISOLATION_RESTRICTED,
    .kind = &(const struct warden_kind){.flags = PLAN_LANDLOCK, .shares = shared_walls},
    .probe = landlock_probe,
    .check = landlock_check,
    WARDEN_INSTANCE_OPS,
    .freeze = warden_instance_freeze,
};
