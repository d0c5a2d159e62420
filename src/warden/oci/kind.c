/* SPDX-License-Identifier: Apache-2.0 */
/* The row of cells that an OCI runtime builds; see oci.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "warden/cell-internal.h"
#include "warden/limits.h"
#include "warden/oci/oci.h"

static const struct oci_flavour *flavour_of(const struct cell *s)
{
    return oci_flavour((enum oci_backend)s->plan.backend);
}

struct oci_host *oci_host(const struct warden *w)
{
    return w->hosts[CELL_OCI];
}

static void find_program(const char *name, char *ret)
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin"};
    for (size_t i = 0; i < ELEMENTS(dirs); i++) {
        snprintf(ret, OCI_PATH_SIZE, "%s/%s", dirs[i], name);
        if (access(ret, X_OK) == 0)
            return;
    }
    ret[0] = 0;
}

static void find_programs(struct oci_host *h)
{
    for (int b = OCI_NONE + 1; b < _OCI_BACKEND_MAX; b++) {
        const struct oci_flavour *f = oci_flavour((enum oci_backend)b);
        char *path = h->programs[b].path;
        for (const char *const *name = f->programs; *name && !path[0]; name++)
            find_program(*name, path);
        if (f->platforms && path[0])
            h->run_fd = open("/run", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
}

static int oci_open_host(struct warden *w, struct error *err)
{
    struct oci_host *h = w->hosts[CELL_OCI] = new0(struct oci_host);
    struct stat kvm;
    (void)err;
    h->run_fd = -1;
    h->program_fd = w->options.oci_fd < 0 ? -1 : fcntl(w->options.oci_fd, F_DUPFD_CLOEXEC, 0);
    for (int b = 0; b < _OCI_BACKEND_MAX; b++)
        oci_program_init(&h->programs[b], w, (enum oci_backend)b);
    if (w->was_root && h->program_fd >= 0)
        find_programs(h);
    if (stat("/dev/kvm", &kvm) == 0 && S_ISCHR(kvm.st_mode))
        h->kvm_device = kvm.st_rdev;
    return 0;
}

static void oci_start_host(struct warden *w)
{
    oci_versions_plan(w);
    oci_platform_plan_trial(w);
}

static void oci_close_host(struct warden *w)
{
    struct oci_host *h = oci_host(w);
    if (!h)
        return;
    watch_remove(h->version_timer);
    watch_remove(h->trial_timer);
    for (int b = 0; b < _OCI_BACKEND_MAX; b++)
        program_task_stop(&h->programs[b].task);
    fd_close(&h->program_fd);
    fd_close(&h->run_fd);
    free(h);
    w->hosts[CELL_OCI] = NULL;
}

static bool oci_takes(const struct plan *p)
{
    return p->backend && !oci_backend_is_engine(p->backend);
}

static int oci_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    if (oci_host(w)->programs[p->backend].path[0])
        return 0;
    snprintf(reply->message, sizeof(reply->message),
             w->was_root ? "%s is not installed" : "%s needs a daemon that root started",
             oci_backend_name((enum oci_backend)p->backend));
    return -EOPNOTSUPP;
}

static void oci_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism)
{
    bool own_kernel = oci_flavour(b)->own_kernel;
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] =
        own_kernel ? MECHANISM_SENTRY : MECHANISM_NAMESPACE;
    mechanism[WALL_SYSCALLS] = own_kernel ? MECHANISM_SENTRY : MECHANISM_SECCOMP;
    if (own_kernel && mechanism[WALL_PROCESSES])
        mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    mechanism[WALL_LANDLOCK] = MECHANISM_NONE;
}

/* The launcher of a container on the host's kernel is in its network; a kernel of the sandbox's own
 * takes over that of its launcher, or has none that is known of here. */
static bool oci_has_addresses(enum oci_backend b)
{
    return oci_flavour(b)->host_network || oci_flavour(b)->copy_network;
}

static bool oci_is_network_first(enum oci_backend b)
{
    return oci_flavour(b)->copy_network;
}

static uint32_t oci_features(const struct warden *w)
{
    uint32_t features = 0;
    for (int i = OCI_NONE + 1; i < _OCI_BACKEND_MAX; i++)
        features |= oci_host(w)->programs[i].path[0] ? FEATURE_OCI(i) : 0;
    return features;
}

static void oci_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    warden_describe_host(w, ret);
    oci_describe_walls(w, b, ret->mechanism);
    ret->error = oci_host(w)->programs[b].error;
    snprintf(ret->message, sizeof(ret->message), "%s", oci_host(w)->programs[b].text);
}

/* Launchers are kept ready only where they are used. */
static unsigned oci_wanted_blanks(const struct warden *w)
{
    return w->blanks[CELL_OCI].used ? w->options.config.oci_blanks : 0;
}

/* A kernel of the sandbox's own counts its processes by their rlimit; the host's threads that it is
 * made of are another number. */
static int oci_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                            struct plan_reply *reply)
{
    unsigned means = LIMITS_COUNT_BY_UID | (flavour_of(s)->own_kernel ? 0 : LIMITS_COUNT_IN_GROUP);
    int r = limits_apply_groups(s, p, limits, means, reply);
    if (r < 0)
        return r;
    return limits_apply_disk(s, p, limits, reply);
}

static bool oci_dials(const struct cell *s)
{
    return flavour_of(s)->dials;
}

/* A runner has dialled, and its launcher passes the connection on. The descriptor goes to the
 * control plane, which takes nothing that comes over it for more than a runner's word. */
static void oci_on_channel(struct cell *s)
{
    int fds[FD_PASS_MAX];
    char byte;
    ssize_t n = fd_recv_msg(s->channel_fd, &byte, 1, fds);
    if (n == -EAGAIN)
        return;
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n != 1 || fds[0] < 0) { /* its exit follows */
        watch_remove(s->channel_watch);
        s->channel_watch = NULL;
        return;
    }
    cell_take_stream(s, fds[0]);
}

/* One that failed to start may have done so because its platform does not work any more. */
static void oci_end(struct cell *s)
{
    if (s->state != CELL_RUNNING && s->failure.error && oci_dials(s))
        oci_platform_forget(s->warden);
}

const struct cell_ops cell_oci = {
    .size = sizeof(struct cell),
    .open_host = oci_open_host,
    .start_host = oci_start_host,
    .close_host = oci_close_host,
    .needs_namespaces = true,
    .has_authority = true,
    .has_proxy = true,
    .has_addresses = oci_has_addresses,
    .is_network_first = oci_is_network_first,
    .takes = oci_takes,
    .check = oci_check,
    .features = oci_features,
    .probe = oci_probe,
    .has_group = true,
    .has_device_group = true,
    .clone_flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
    .take_ids = cell_take_ids,
    .clone = cell_clone,
    .main = oci_main,
    .admit = oci_admit, /* the runtime maps ids, by its configuration */
    .wanted_blanks = oci_wanted_blanks,
    .apply_limits = oci_apply_limits,
    .describe_walls = oci_describe_walls,
    .has_user_overlay = true,
    .send_order = cell_send_child_order,
    .dials = oci_dials,
    .on_channel = oci_on_channel,
    .kill = cell_kill_process,
    .freeze = cell_freeze_group,
    .read_stats = cell_read_group_stats,
    .disk = OCI_DISK,
    .end = oci_end,
};
