/* SPDX-License-Identifier: Apache-2.0 */
/* The process runtime: the runner and its commands as ordinary processes. It enforces nothing, says
 * so, and refuses every limit that was asked for and not given up by name. */
#include "runtime/process/process.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

static int process_check(const struct runtime_ops *ops, const struct runtime_host *host,
                         const struct spec *spec, struct error *err)
{
    (void)ops;
    if (!host->process_enabled)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the process runtime has no isolation and the operator did not enable it "
                         "(enable_process)");
    for (int w = 0; w < _WALL_MAX; w++)
        if (spec->asked[w] && !spec->accept_weaker[w])
            return error_set(err, ERROR_UNENFORCEABLE, 0,
                             "%s cannot be enforced: the process runtime has no isolation",
                             wall_name((enum wall)w));
    if (spec->workdir)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the process runtime has no workdir of its own");
    if (spec->image)
        return error_set(err, ERROR_UNSUPPORTED, 0, "the process runtime has no images");
    if (spec->n_mounts)
        return error_set(err, ERROR_UNSUPPORTED, 0, "the process runtime has no mounts");
    return 0;
}

static void process_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                          struct runtime_report *ret)
{
    bool namespaces = warden_client_probed(host->warden)->features & FEATURE_USERNS;
    *ret = (struct runtime_report){.available = host->process_enabled && namespaces};
    ret->walls.runtime = ops->name;
    snprintf(ret->why, sizeof(ret->why), "no isolation%s%s",
             host->process_enabled ? "" : "; off until the operator sets enable_process",
             namespaces ? "" : "; needs a pid namespace, which this host does not allow");
}

const struct runtime_ops runtime_process = {
    .name = "process",
    .summary = "no isolation: ordinary processes, only when asked for by name",
    .workdir = "/tmp",
    .isolation = ISOLATION_NONE,
    .kind = &(const struct warden_kind){.flags = PLAN_PROCESS},
    .probe = process_probe,
    .check = process_check,
    WARDEN_INSTANCE_OPS,
};
