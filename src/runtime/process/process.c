/* The process runtime: the runner and its commands as ordinary processes. It enforces nothing, says
 * so, and refuses every limit that was asked for and not given up by name. */
#include "runtime/process/process.h"

#include <stdio.h>

#include "base/error.h"
#include "runtime/warden-client.h"
#include "runtime/warden-instance.h"

#define WORKDIR "/tmp"

static const struct warden_kind kind = {
    .name = "process", .workdir = WORKDIR, .flags = PLAN_PROCESS};

static int check_spec(const struct runtime_host *host, const struct spec *spec, struct error *err)
{
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

static struct runtime_instance *process_start(struct runtime_host *host, const char *id,
                                              const struct spec *spec,
                                              const struct runtime_events *events, void *data,
                                              struct error *err)
{
    if (check_spec(host, spec, err) < 0)
        return NULL;
    return warden_instance_start(host, id, spec, &kind, events, data, err);
}

static struct runtime_instance *process_adopt(struct runtime_host *host, const char *id,
                                              const struct spec *spec,
                                              const struct runtime_events *events, void *data,
                                              struct error *err)
{
    (void)err;
    return warden_instance_adopt(host, id, spec, &kind, events, data);
}

static void process_probe(struct runtime_host *host, struct runtime_report *ret)
{
    bool namespaces = warden_client_probed(host->warden)->features & FEATURE_USERNS;
    *ret = (struct runtime_report){.available = host->process_enabled && namespaces};
    ret->walls.runtime = kind.name;
    snprintf(ret->why, sizeof(ret->why), "no isolation%s%s",
             host->process_enabled ? "" : "; off until the operator sets enable_process",
             namespaces ? "" : "; needs a pid namespace, which this host does not allow");
}

const struct runtime_ops runtime_process = {
    .name = "process",
    .summary = "no isolation: ordinary processes, only when asked for by name",
    .workdir = WORKDIR,
    .isolation = ISOLATION_NONE,
    .probe = process_probe,
    .start = process_start,
    .stop = warden_instance_stop,
    .adopt = process_adopt,
    .stats = warden_instance_stats,
};
