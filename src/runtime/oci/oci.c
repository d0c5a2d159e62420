/* SPDX-License-Identifier: Apache-2.0 */
/* See oci.h. What differs between the runtimes is in builder/flavour.c; here they
 * are names and what was found out about them. */
#include "runtime/oci/oci.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

/* NULL where the program is there and may be used. */
static const char *why_not(const struct runtime_host *host, enum oci_backend b)
{
    uint32_t features = warden_client_probed(host->warden)->features;
    if (!(features & FEATURE_ROOT))
        return "needs a daemon that root started";
    if (!(features & FEATURE_USERNS))
        return "needs namespaces, which this host does not allow";
    return features & FEATURE_OCI(b) ? NULL : "is not installed (looked in /usr)";
}

static int oci_check(const struct runtime_ops *ops, const struct runtime_host *host,
                     const struct spec *spec, struct error *err)
{
    enum oci_backend b = ops->kind->backend;
    const char *why = why_not(host, b);
    if (why)
        return error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s': %s %s", ops->name,
                         oci_backend_name(b), why);
    /* gVisor: the process that serves its files writes as a user that owner maps of a mount do not
     * know. */
    for (size_t i = 0; ops->kind->mounts_read_only && i < spec->n_mounts; i++)
        if (!spec->mounts[i].read_only)
            return error_set(err, ERROR_UNSUPPORTED, 0,
                             "runtime '%s' mounts host directories read_only only: '%s'", ops->name,
                             spec->mounts[i].source);
    return 0;
}

static void oci_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                      struct runtime_report *ret)
{
    enum oci_backend b = ops->kind->backend;
    const char *why = why_not(host, b);
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    *ret = (struct runtime_report){.available = !why};
    ret->pause = p->features & FEATURE_FREEZER;
    warden_effective_fill(&ret->walls, ops->name, p, NULL);
    if (why)
        snprintf(ret->why, sizeof(ret->why), "%s %s", oci_backend_name(b), why);
    else if (p->error) /* it may work all the same: a create says */
        snprintf(ret->why, sizeof(ret->why), "%s %.200s", oci_backend_name(b), p->message);
    else
        snprintf(ret->version, sizeof(ret->version), "%.63s", p->message);
}

#define OCI_RUNTIME(which, symbol, text, level, ...)                                               \
    const struct runtime_ops runtime_##symbol = {                                                  \
        .name = #symbol,                                                                           \
        .summary = text,                                                                           \
        .workdir = "/workspace",                                                                   \
        .isolation = level,                                                                        \
        .has_proxy = level < ISOLATION_VIRTUAL_MACHINE, /* where it was never tried */             \
        .has_interceptor = level < ISOLATION_VIRTUAL_MACHINE,                                      \
        .has_addresses = level < ISOLATION_VIRTUAL_MACHINE,                                        \
        .kind = &(const struct warden_kind){.backend = which, ##__VA_ARGS__},                      \
        .probe = oci_probe,                                                                        \
        .check = oci_check,                                                                        \
        WARDEN_INSTANCE_OPS,                                                                       \
        .freeze = warden_instance_freeze,                                                          \
    }

OCI_RUNTIME(OCI_CRUN, crun, "containers of crun on the host's kernel", ISOLATION_NAMESPACES);
OCI_RUNTIME(OCI_RUNC, runc, "containers of runc on the host's kernel", ISOLATION_NAMESPACES);
OCI_RUNTIME(OCI_RUNSC, gvisor, "containers of runsc on a kernel of their own in user space",
            ISOLATION_USER_SPACE_KERNEL, .mounts_read_only = true);
OCI_RUNTIME(OCI_KATA, kata, "containers of kata in virtual machines", ISOLATION_VIRTUAL_MACHINE);
