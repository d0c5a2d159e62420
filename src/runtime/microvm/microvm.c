/* SPDX-License-Identifier: Apache-2.0 */
/* See microvm.h. The machines are the warden's to build (warden/vm). */
#include "runtime/microvm/microvm.h"

#include <stdio.h>

#include "base/error.h"
#include "proto/machine.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

static void microvm_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                          struct runtime_report *ret)
{
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    *ret = (struct runtime_report){.available = p->features & FEATURE_VM};
    warden_effective_fill(&ret->walls, ops->name, p, NULL);
    ret->pause = p->features & FEATURE_FREEZER;
    ret->snapshots = p->features & FEATURE_SAVES;
    if (!ret->available)
        snprintf(ret->why, sizeof(ret->why), "%.250s", p->message);
}

static int microvm_check(const struct runtime_ops *ops, const struct runtime_host *host,
                         const struct spec *spec, struct error *err)
{
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    if (!(p->features & FEATURE_VM))
        return error_set(err, ERROR_UNSUPPORTED, 0, "runtime 'microvm': %s", p->message);
    if (spec->tool_net)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "runtime 'microvm' has no way to the gateway yet");
    return 0;
}

static int microvm_check_ranges(const struct runtime_host *host, const struct plan *p, char *why,
                                unsigned size)
{
    return host->machine ? machine_ranges_check(host->machine, p->ranges, p->n_ranges, why, size)
                         : 0;
}

const struct runtime_ops runtime_microvm = {
    .name = "microvm",
    .summary = "a virtual machine with a kernel of its own, within the walls of local",
    .workdir = "/workspace",
    .has_proxy = true,
    .has_addresses = true,
    .has_interceptor = true,
    .isolation = ISOLATION_VIRTUAL_MACHINE,
    .is_machine = true,
    .kind = &(const struct warden_kind){.flags = PLAN_VM, .check_ranges = microvm_check_ranges},
    .probe = microvm_probe,
    .check = microvm_check,
    WARDEN_INSTANCE_OPS,
    .discard = warden_instance_discard,
    .freeze = warden_instance_freeze,
    .save = warden_instance_save,
    .load = warden_instance_load,
    .go_back = warden_instance_go_back,
    .drop = warden_instance_drop,
};
