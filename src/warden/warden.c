/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the warden; see warden.h. What it takes from the host is in warden-open.c. */
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/key-memory.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/blank.h"
#include "warden/ceiling.h"
#include "warden/control.h"
#include "warden/intercept.h"
#include "warden/landlock.h"
#include "warden/limits.h"
#include "builder/rlimits.h"
#include "warden/local/root.h"
#include "warden/cell.h"
#include "warden/egress.h"
#include "warden/state.h"
#include "warden/sweep.h"

static int check_options(const struct warden_options *o, struct error *err)
{
    if (!o->state_dir || o->runner_fd < 0)
        return error_set(err, ERROR_INVALID, 0, "a warden needs a state directory and a runner");
    if (!o->cgroup_prefix || !o->cgroup_prefix[0] || strlen(o->cgroup_prefix) > WARDEN_PREFIX_MAX ||
        strchr(o->cgroup_prefix, '/'))
        return error_set(err, ERROR_INVALID, 0, "cgroup_prefix is not 1 to %d bytes without '/'",
                         WARDEN_PREFIX_MAX);
    if (o->mounts_allow && strv_length(o->mounts_allow) > WARDEN_ALLOWED_MAX)
        return error_set(err, ERROR_INVALID, 0, "more than %d directories in mounts.allow",
                         WARDEN_ALLOWED_MAX);
    if (!o->max_sandboxes || !o->create_timeout_ms || !o->open_files_default)
        return error_set(err, ERROR_INVALID, 0, "a limit of the warden is 0");
    return 0;
}

/* An overlay in a user namespace keeps its marks in user attributes, which a tmpfs has since
 * Linux 6.6. Where it has none, the upper directory of an image has to be on a disk. */
static bool probe_tmpfs_attributes(void)
{
    _cleanup_close_ int fd = memfd_create("probe", MFD_CLOEXEC);
    return fd >= 0 && fsetxattr(fd, "user.probe", "1", 1, 0) == 0;
}

static void fill_child_template(struct warden *w)
{
    const struct warden_options *o = &w->options;
    w->child_template = (struct child_template){
        .seccomp = &w->seccomp,
        .landlock_abi = landlock_abi(),
        .shared_uid = w->ids.shared,
        .user_limits = o->config.user_limits,
        .seat_late = w->was_root,
    };
}

static struct warden *warden_alloc(const struct warden_options *o)
{
    struct warden *w = new0(struct warden);
    w->options = *o;
    w->next_serial = 1; /* 0 is the tag of what belongs to no cell */
    w->control_fd = w->host_ns_fd = w->own_ns_fd = w->proc_fd = w->state_fd = -1;
    w->store_fd = w->policy_dir_fd = -1;
    w->ledger.promised_fd = w->ledger.claims_fd = -1;
    w->disks = (struct disk_maker){.loop_control_fd = -1, .dev_fd = -1};
    list_init(&w->disks.jobs);
    w->janitor.sock = -1;
    w->signer = (struct signer)SIGNER_INIT;
    w->cgroups.disks.block_fd = -1;
    for (int i = 0; i < _CGROUP_MAX; i++)
        w->cgroups.fd[i] = w->cgroups.parent_fd[i] = -1;
    list_init(&w->outgoing);
    for (int i = 0; i < _CELL_KIND_MAX; i++) {
        list_init(&w->blanks[i].plain);
        list_init(&w->blanks[i].armed);
    }
    list_init(&w->exited);
    w->by_id = map_new();
    w->intercepts = map_new();
    w->intercept_fd = -1;
    w->was_root = geteuid() == 0;
    w->has_toolnet = o->toolnet_fd >= 0;
    return w;
}

static int start_janitor(struct warden *w);

/* The janitor is started again at once: without it the groups of dead sandboxes would stay, and
 * all groups of this instance would outlive a warden that is killed. */
static void on_janitor_exit(pid_t pid, int wait_status, void *data)
{
    struct warden *w = data;
    log_error("the janitor died pid=%d wait_status=%d", (int)pid, wait_status);
    w->janitor_watch = NULL;
    w->janitor.pid = 0;
    fd_close(&w->janitor.sock);
    start_janitor(w);
}

static int start_janitor(struct warden *w)
{
    int r = janitor_start(&w->janitor, &w->cgroups);
    if (r < 0 || w->janitor.pid == 0)
        return r;
    w->janitor_watch = warden_watch_child(w, w->janitor.pid, on_janitor_exit, w);
    return w->janitor_watch ? 0 : -errno;
}

/* Two descriptors per sandbox, and the daemon's; children lower theirs again. */
static void raise_open_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= l.rlim_max)
        return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0)
        log_warn("cannot raise the limit of open files error=%s", strerror(errno));
}

/* The order matters. The filter is compiled before the host is touched, because that can fail
 * and leaves nothing behind. The janitor is there before the first sandbox whose group it may
 * have to remove. Blanks come last, since they are made of everything that was opened before. */
static int prepare_host(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = check_options(o, err);
    if (r < 0)
        return r;
    r = filter_compile(filter_for_sandboxes(), &w->seccomp, err);
    if (r < 0)
        return r;
    r = warden_open_host(w, err);
    if (r < 0)
        return r;
    r = ledger_open(&w->ledger, o->config.state_reserve_bytes);
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "make the ledger of disks");
    w->watcher = watcher_new();
    if (!w->watcher)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make an event loop");
    r = start_janitor(w);
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "start the janitor");
    signal(SIGPIPE, SIG_IGN);
    rlimits_settle();
    raise_open_files();
    w->tmpfs_attributes = probe_tmpfs_attributes();
    fill_child_template(w);
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        if (cell_kinds[kind]->start_host)
            cell_kinds[kind]->start_host(w);
    egress_start(w);
    blanks_init(w);
    blanks_fill(w);
    return 0;
}

struct warden *warden_new(const struct warden_options *o, struct error *err)
{
    struct warden *w = warden_alloc(o);
    if (prepare_host(w, err) < 0) {
        warden_free(w);
        return NULL;
    }
    /* Paths of the caller's are not used after the start, and its descriptors were duplicated or
     * have been closed by now. A use after this point would be a fault, and -1 and NULL make it one
     * that shows. */
    w->options.state_dir = w->options.cgroup_prefix = w->options.audit_checkpoint_file = NULL;
    w->options.mounts_allow = NULL;
    w->options.policy_file = w->options.fence_dir = NULL;
    w->options.runner_fd = w->options.toolnet_fd = w->options.engine_fd = w->options.oci_fd = -1;
    w->options.intercept_fd = -1;
    w->options.vmm_fd = -1;
    w->options.net_fd = -1;
    w->options.podman_socket = w->options.docker_socket = NULL;
    return w;
}

/* Cells end before what they were made from, and the janitor after all of them: it removes their
 * groups. The loop's handles belong to cells and programs, so that the loop goes nearly last. */
void warden_free(struct warden *w)
{
    if (!w)
        return;
    if (w->watcher)
        cell_end_all(w);
    intercept_end_all(w);
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        if (cell_kinds[kind]->close_host)
            cell_kinds[kind]->close_host(w);
    egress_stop(w);
    watch_remove(w->janitor_watch);
    janitor_stop(&w->janitor);
    cgroup_root_close(&w->cgroups);
    disk_maker_close(&w->disks);
    ledger_close(&w->ledger);
    id_range_done(&w->ids);
    filter_done(&w->seccomp);
    signer_close(&w->signer);
    for (unsigned i = 0; i < w->n_allowed; i++)
        fd_close(&w->allowed_fds[i]);
    fd_close(&w->policy_dir_fd);
    free(w->policy_name);
    fd_close(&w->host_ns_fd);
    fd_close(&w->own_ns_fd);
    fd_close(&w->proc_fd);
    fd_close(&w->state_fd);
    fd_close(&w->store_fd);
    watcher_free(w->watcher);
    map_free(w->by_id);
    fd_close(&w->intercept_fd);
    key_memory_free(w->seal_key, SEAL_KEY_SIZE);
    free(w);
}

int warden_attach(struct warden *w, int control_sock)
{
    return control_attach(w, control_sock);
}

struct watch *warden_watch(struct warden *w, int fd, uint32_t epoll_events, watch_fd_fn fn,
                           void *data)
{
    return watcher_add_fd(w->watcher, fd, epoll_events, fn, data);
}

struct watch *warden_watch_child(struct warden *w, pid_t pid, watch_child_fn fn, void *data)
{
    return watcher_add_child(w->watcher, pid, -1, fn, data);
}

struct watch *warden_watch_timer(struct warden *w, int delay_ms, watch_timer_fn fn, void *data)
{
    return watcher_add_timer(w->watcher, delay_ms, fn, data);
}

int warden_loop(struct warden *w)
{
    return watcher_run(w->watcher);
}

void warden_quit(struct warden *w)
{
    watcher_quit(w->watcher);
}

int warden_enter_host(const struct warden *w)
{
    return w->host_ns_fd >= 0 && setns(w->host_ns_fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

int warden_promised_fd(const struct warden *w)
{
    return w->ledger.promised_fd;
}

int warden_claims_fd(const struct warden *w)
{
    return w->ledger.claims_fd;
}

void warden_forget_claims(struct warden *w)
{
    ledger_forget_claims(&w->ledger);
}

bool warden_has_own_root(const struct warden *w)
{
    return w->host_ns_fd >= 0;
}

bool warden_in_userns(const struct warden *w)
{
    return w->ids.in_userns;
}
