/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h. The engines are the broker's to talk to (src/engine); here they are names and what
 * was found out about them. */
#include "runtime/engine/engine.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

/* Why not, or NULL. */
static const char *why_not(const struct runtime_host *host, const struct warden_kind *k)
{
    const struct plan_reply *p = warden_client_probed_kind(host->warden, k);
    if (!(p->features & FEATURE_ROOT))
        return "needs a daemon that root started";
    if (!(p->features & FEATURE_OCI(k->backend)))
        return p->message;
    if (k->inner && !(p->features & FEATURE_OCI(k->inner)))
        return k->lacks_inner;
    return NULL;
}

static void engine_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                         struct runtime_report *ret)
{
    const struct warden_kind *k = ops->kind;
    const char *why = why_not(host, k);
    const struct plan_reply *p = warden_client_probed_kind(host->warden, k);
    *ret = (struct runtime_report){.available = !why, .pause = p->features & FEATURE_FREEZER};
    warden_effective_fill(&ret->walls, ops->name, p, NULL);
    if (why)
        snprintf(ret->why, sizeof(ret->why), "%s %s", oci_backend_name(k->backend), why);
    else
        snprintf(ret->version, sizeof(ret->version), "%.63s", p->message);
}

/* An engine that was away may be back: that is the warden's to say. */
static int engine_check(const struct runtime_ops *ops, const struct runtime_host *host,
                        const struct spec *spec, struct error *err)
{
    (void)spec;
    enum oci_backend b = ops->kind->backend;
    const struct plan_reply *p = warden_client_probed_kind(host->warden, ops->kind);
    const char *why = why_not(host, ops->kind);
    bool known = p->features & FEATURE_OCI(b);
    if (why && (known || !(p->features & FEATURE_ROOT)))
        return error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s': %s %s", ops->name,
                         oci_backend_name(b), why);
    return 0;
}

#define ENGINE_RUNTIME(symbol, text, service, number, within, lacks, level, says)                  \
    const struct runtime_ops runtime_##symbol = {                                                  \
        .name = text,                                                                              \
        .summary = says,                                                                           \
        .workdir = "/workspace",                                                                   \
        .isolation = level,                                                                        \
        .has_proxy = level < ISOLATION_VIRTUAL_MACHINE, /* where it was never tried */             \
        .has_interceptor = level < ISOLATION_VIRTUAL_MACHINE,                                      \
        .has_addresses = within == OCI_NONE,                                                       \
        .engine = service,                                                                         \
        .kind =                                                                                    \
            &(const struct warden_kind){.backend = number, .inner = within, .lacks_inner = lacks}, \
        .probe = engine_probe,                                                                     \
        .check = engine_check,                                                                     \
        WARDEN_INSTANCE_OPS,                                                                       \
        .freeze = warden_instance_freeze,                                                          \
    }
#define ONE_RUNTIME "runs containers on the one runtime of its service, and that is not "

ENGINE_RUNTIME(podman, "podman", "podman", OCI_PODMAN, OCI_NONE, NULL, ISOLATION_NAMESPACES,
               "containers of podman");
ENGINE_RUNTIME(podman_gvisor, "podman-gvisor", "podman", OCI_PODMAN, OCI_RUNSC, ONE_RUNTIME "runsc",
               ISOLATION_USER_SPACE_KERNEL, "containers of podman on gVisor");
ENGINE_RUNTIME(podman_kata, "podman-kata", "podman", OCI_PODMAN, OCI_KATA,
               ONE_RUNTIME "kata-runtime", ISOLATION_VIRTUAL_MACHINE,
               "containers of podman in virtual machines of kata");
ENGINE_RUNTIME(docker, "docker", "docker", OCI_DOCKER, OCI_NONE, NULL, ISOLATION_NAMESPACES,
               "containers of docker");
ENGINE_RUNTIME(docker_gvisor, "docker-gvisor", "docker", OCI_DOCKER, OCI_RUNSC,
               "has no runtime 'runsc'", ISOLATION_USER_SPACE_KERNEL,
               "containers of docker on gVisor");
ENGINE_RUNTIME(docker_kata, "docker-kata", "docker", OCI_DOCKER, OCI_KATA,
               "has no runtime 'kata-runtime'", ISOLATION_VIRTUAL_MACHINE,
               "containers of docker in virtual machines of kata");
