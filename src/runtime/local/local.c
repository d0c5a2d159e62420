/* SPDX-License-Identifier: Apache-2.0 */
/* The local runtime: a sandbox of namespaces on the host's kernel, on a view of the host's root. */
#include "runtime/local/local.h"

#include <stdio.h>

#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

static void local_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                        struct runtime_report *ret)
{
    const struct plan_reply *p = warden_client_probed(host->warden);
    *ret = (struct runtime_report){.available = p->features & FEATURE_USERNS};
    warden_effective_fill(&ret->walls, ops->name, p, NULL);
    ret->pause = p->features & FEATURE_FREEZER;
    if (!ret->available)
        snprintf(ret->why, sizeof(ret->why), "this host allows no namespaces: %.220s", p->message);
}

const struct runtime_ops runtime_local = {
    .name = "local",
    .summary = "namespaces, Landlock, seccomp and cgroups on the host's kernel",
    .workdir = "/workspace",
    .isolation = ISOLATION_NAMESPACES,
    .has_interceptor = true,
    .has_proxy = true,
    .has_addresses = true,
    .kind = &(const struct warden_kind){0},
    .probe = local_probe,
    WARDEN_INSTANCE_OPS,
    .discard = warden_instance_discard,
    .freeze = warden_instance_freeze,
};
