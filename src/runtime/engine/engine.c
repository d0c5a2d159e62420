/* See engine.h. The engines are the broker's to talk to (src/engine); here they are names and what
 * was found out about them. */
#include "runtime/engine/engine.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

#define WORKDIR "/workspace"

/* Why not, or NULL. */
static const char *why_not(const struct runtime_host *host, const struct warden_kind *k)
{
    const struct plan_reply *p = warden_client_probed_oci(host->warden, k->backend);
    if (!(p->features & FEATURE_ROOT))
        return "needs a daemon that root started";
    if (!(p->features & FEATURE_OCI(k->backend)))
        return p->message;
    if (k->inner && !(p->features & FEATURE_OCI(k->inner)))
        return k->inner == OCI_RUNSC ? "has no runtime 'runsc'" : "has no runtime 'kata-runtime'";
    return NULL;
}

static void probe(const struct warden_kind *k, struct runtime_host *host,
                  struct runtime_report *ret)
{
    const char *why = why_not(host, k);
    const struct plan_reply *p = warden_client_probed_oci(host->warden, k->backend);
    *ret = (struct runtime_report){.available = !why, .pause = p->features & FEATURE_FREEZER};
    warden_effective_fill(&ret->walls, k->name, p, NULL);
    if (why)
        snprintf(ret->why, sizeof(ret->why), "%s %s", oci_backend_name(k->backend), why);
    else
        snprintf(ret->version, sizeof(ret->version), "%.63s", p->message);
}

/* An engine that was away may be back: that is the warden's to say. */
static struct runtime_instance *start(const struct warden_kind *k, struct runtime_host *host,
                                      const char *id, const struct spec *spec,
                                      const struct runtime_events *events, void *data,
                                      struct error *err)
{
    const struct plan_reply *p = warden_client_probed_oci(host->warden, k->backend);
    const char *why = why_not(host, k);
    bool known = p->features & FEATURE_OCI(k->backend);
    if (why && (known || !(p->features & FEATURE_ROOT))) {
        error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s': %s %s", k->name,
                  oci_backend_name(k->backend), why);
        return NULL;
    }
    return warden_instance_start(host, id, spec, k, events, data, err);
}

#define ENGINE_RUNTIME(symbol, text, engine, within, level, says)                                  \
    static const struct warden_kind kind_##symbol = {                                              \
        .name = text, .workdir = WORKDIR, .backend = engine, .inner = within};                     \
    static struct runtime_instance *symbol##_start(                                                \
        struct runtime_host *host, const char *id, const struct spec *spec,                        \
        const struct runtime_events *events, void *data, struct error *err)                        \
    {                                                                                              \
        return start(&kind_##symbol, host, id, spec, events, data, err);                           \
    }                                                                                              \
    static struct runtime_instance *symbol##_adopt(                                                \
        struct runtime_host *host, const char *id, const struct spec *spec,                        \
        const struct runtime_events *events, void *data, struct error *err)                        \
    {                                                                                              \
        (void)err;                                                                                 \
        return warden_instance_adopt(host, id, spec, &kind_##symbol, events, data);                \
    }                                                                                              \
    static void symbol##_probe(struct runtime_host *host, struct runtime_report *ret)              \
    {                                                                                              \
        probe(&kind_##symbol, host, ret);                                                          \
    }                                                                                              \
    const struct runtime_ops runtime_##symbol = {                                                  \
        .name = text,                                                                              \
        .summary = says,                                                                           \
        .workdir = WORKDIR,                                                                        \
        .isolation = level,                                                                        \
        .probe = symbol##_probe,                                                                   \
        .start = symbol##_start,                                                                   \
        .stop = warden_instance_stop,                                                              \
        .adopt = symbol##_adopt,                                                                   \
        .stats = warden_instance_stats,                                                            \
        .freeze = warden_instance_freeze,                                                          \
    }

ENGINE_RUNTIME(podman, "podman", OCI_PODMAN, OCI_NONE, ISOLATION_NAMESPACES,
               "containers of podman");
ENGINE_RUNTIME(podman_gvisor, "podman-gvisor", OCI_PODMAN, OCI_RUNSC, ISOLATION_USER_SPACE_KERNEL,
               "containers of podman on gVisor");
ENGINE_RUNTIME(podman_kata, "podman-kata", OCI_PODMAN, OCI_KATA, ISOLATION_VIRTUAL_MACHINE,
               "containers of podman in virtual machines of kata");
ENGINE_RUNTIME(docker, "docker", OCI_DOCKER, OCI_NONE, ISOLATION_NAMESPACES,
               "containers of docker");
ENGINE_RUNTIME(docker_gvisor, "docker-gvisor", OCI_DOCKER, OCI_RUNSC, ISOLATION_USER_SPACE_KERNEL,
               "containers of docker on gVisor");
ENGINE_RUNTIME(docker_kata, "docker-kata", OCI_DOCKER, OCI_KATA, ISOLATION_VIRTUAL_MACHINE,
               "containers of docker in virtual machines of kata");
