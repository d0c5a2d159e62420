/* The local runtime: a sandbox of namespaces on the host's kernel, on a view of the host's root. */
#include "runtime/local/local.h"

#include <stdio.h>

#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

#define WORKDIR "/workspace"

static const struct warden_kind kind = {.name = "local", .workdir = WORKDIR};

static struct runtime_instance *local_start(struct runtime_host *host, const char *id,
                                            const struct spec *spec,
                                            const struct runtime_events *events, void *data,
                                            struct error *err)
{
    return warden_instance_start(host, id, spec, &kind, events, data, err);
}

static struct runtime_instance *local_adopt(struct runtime_host *host, const char *id,
                                            const struct spec *spec,
                                            const struct runtime_events *events, void *data,
                                            struct error *err)
{
    (void)err;
    return warden_instance_adopt(host, id, spec, &kind, events, data);
}

static void local_probe(struct runtime_host *host, struct runtime_report *ret)
{
    const struct plan_reply *p = warden_client_probed(host->warden);
    *ret = (struct runtime_report){.available = p->features & FEATURE_USERNS};
    warden_effective_fill(&ret->walls, kind.name, p, NULL);
    ret->pause = p->features & FEATURE_FREEZER;
    if (!ret->available)
        snprintf(ret->why, sizeof(ret->why), "this host allows no namespaces: %.220s", p->message);
}

const struct runtime_ops runtime_local = {
    .name = "local",
    .summary = "namespaces, Landlock, seccomp and cgroups on the host's kernel",
    .workdir = WORKDIR,
    .isolation = ISOLATION_NAMESPACES,
    .probe = local_probe,
    .start = local_start,
    .stop = warden_instance_stop,
    .adopt = local_adopt,
    .discard = warden_instance_discard,
    .stats = warden_instance_stats,
    .freeze = warden_instance_freeze,
};
