/* See oci.h. What differs between the runtimes is in the warden (warden/oci-flavour.c); here they
 * are names and what was found out about them. */
#include "runtime/oci/oci.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

#define WORKDIR "/workspace"

static const struct warden_kind kinds[] = {
    [OCI_CRUN] = {.name = "crun", .workdir = WORKDIR, .backend = OCI_CRUN},
    [OCI_RUNC] = {.name = "runc", .workdir = WORKDIR, .backend = OCI_RUNC},
    [OCI_RUNSC] = {.name = "gvisor", .workdir = WORKDIR, .backend = OCI_RUNSC},
    [OCI_KATA] = {.name = "kata", .workdir = WORKDIR, .backend = OCI_KATA},
};

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

/* The process that serves its files writes as a user that owner maps of a mount do not know. */
static int check_mounts(enum oci_backend b, const struct spec *spec, struct error *err)
{
    for (size_t i = 0; b == OCI_RUNSC && i < spec->n_mounts; i++)
        if (!spec->mounts[i].read_only)
            return error_set(err, ERROR_UNSUPPORTED, 0,
                             "runtime 'gvisor' mounts host directories read_only only: '%s'",
                             spec->mounts[i].source);
    return 0;
}

static struct runtime_instance *oci_start(enum oci_backend b, struct runtime_host *host,
                                          const char *id, const struct spec *spec,
                                          const struct runtime_events *events, void *data,
                                          struct error *err)
{
    const char *why = why_not(host, b);
    if (why) {
        error_set(err, ERROR_UNSUPPORTED, 0, "runtime '%s': %s %s", kinds[b].name,
                  oci_backend_name(b), why);
        return NULL;
    }
    if (check_mounts(b, spec, err) < 0)
        return NULL;
    return warden_instance_start(host, id, spec, &kinds[b], events, data, err);
}

static void oci_probe(enum oci_backend b, struct runtime_host *host, struct runtime_report *ret)
{
    const char *why = why_not(host, b);
    const struct plan_reply *p = warden_client_probed_oci(host->warden, b);
    *ret = (struct runtime_report){.available = !why};
    ret->pause = p->features & FEATURE_FREEZER;
    warden_effective_fill(&ret->walls, kinds[b].name, p, NULL);
    if (why)
        snprintf(ret->why, sizeof(ret->why), "%s %s", oci_backend_name(b), why);
    else if (p->error) /* it may work all the same: a create says */
        snprintf(ret->why, sizeof(ret->why), "%s %.200s", oci_backend_name(b), p->message);
    else
        snprintf(ret->version, sizeof(ret->version), "%.63s", p->message);
}

#define OCI_RUNTIME(backend, symbol, text, level)                                                  \
    static struct runtime_instance *symbol##_start(                                                \
        struct runtime_host *host, const char *id, const struct spec *spec,                        \
        const struct runtime_events *events, void *data, struct error *err)                        \
    {                                                                                              \
        return oci_start(backend, host, id, spec, events, data, err);                              \
    }                                                                                              \
    static struct runtime_instance *symbol##_adopt(                                                \
        struct runtime_host *host, const char *id, const struct spec *spec,                        \
        const struct runtime_events *events, void *data, struct error *err)                        \
    {                                                                                              \
        (void)err;                                                                                 \
        return warden_instance_adopt(host, id, spec, &kinds[backend], events, data);               \
    }                                                                                              \
    static void symbol##_probe(struct runtime_host *host, struct runtime_report *ret)              \
    {                                                                                              \
        oci_probe(backend, host, ret);                                                             \
    }                                                                                              \
    const struct runtime_ops runtime_##symbol = {                                                  \
        .name = #symbol,                                                                           \
        .summary = text,                                                                           \
        .workdir = WORKDIR,                                                                        \
        .isolation = level,                                                                        \
        .probe = symbol##_probe,                                                                   \
        .start = symbol##_start,                                                                   \
        .stop = warden_instance_stop,                                                              \
        .adopt = symbol##_adopt,                                                                   \
        .stats = warden_instance_stats,                                                            \
        .freeze = warden_instance_freeze,                                                          \
    }

OCI_RUNTIME(OCI_CRUN, crun, "containers of crun on the host's kernel", ISOLATION_NAMESPACES);
OCI_RUNTIME(OCI_RUNC, runc, "containers of runc on the host's kernel", ISOLATION_NAMESPACES);
OCI_RUNTIME(OCI_RUNSC, gvisor, "containers of runsc on a kernel of their own in user space",
            ISOLATION_USER_SPACE_KERNEL);
OCI_RUNTIME(OCI_KATA, kata, "containers of kata in virtual machines", ISOLATION_VIRTUAL_MACHINE);
