/* Start and end of the warden; see warden.h. The order of warden_new() matters: what needs the
 * host's view is opened first, ids before mounts (an ordinary user gets rights over mounts only
 * with a user namespace), the template root last. */
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
#include "base/landlock.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/armed.h"
#include "warden/ceiling.h"
#include "warden/control.h"
#include "warden/landlock.h"
#include "warden/limits.h"
#include "warden/oci-platform.h"
#include "warden/root.h"
#include "warden/cell.h"
#include "warden/state.h"
#include "warden/sweep.h"

#define MIB (1024ull * 1024)

void warden_options_init(struct warden_options *o)
{
    *o = (struct warden_options){
        .cgroup_prefix = "mas-sandbox",
        .fence_dir = "/var/tmp",
        .id_first = 2000000000,
        .id_count = 65536,
        .id_block = 4,
        .max_sandboxes = 1000,
        .blanks = 4,
        .oci_blanks = 2,
        .memory_reserve_bytes = 32 * MIB,
        .disk_default_bytes = 256 * MIB,
        .disk_default_inodes = 65536,
        .tmpfs_max_bytes = 1024 * MIB,
        .disk_templates = 8,
        .open_files_default = 4096,
        .inotify_instances = 32,
        .inotify_watches = 8192,
        .fanotify_groups = 0,
        .fanotify_marks = 0,
        .create_timeout_ms = 10000,
        .runner_fd = -1,
        .toolnet_fd = -1,
        .engine_fd = -1,
        .engine_timeout_ms = 30000,
    };
}

static int check_options(const struct warden_options *o, struct error *err)
{
    if (!o->state_dir || o->runner_fd < 0)
        return error_set(err, ERROR_INVALID, 0, "a warden needs a state directory and a runner");
    if (!o->cgroup_prefix || !o->cgroup_prefix[0] || strlen(o->cgroup_prefix) > 24 ||
        strchr(o->cgroup_prefix, '/'))
        return error_set(err, ERROR_INVALID, 0, "cgroup_prefix is not 1 to 24 bytes without '/'");
    if (o->mounts_allow && strv_length(o->mounts_allow) > WARDEN_ALLOWED_MAX)
        return error_set(err, ERROR_INVALID, 0, "more than %d directories in mounts.allow",
                         WARDEN_ALLOWED_MAX);
    if (!o->max_sandboxes || !o->create_timeout_ms || !o->open_files_default)
        return error_set(err, ERROR_INVALID, 0, "a limit of the warden is 0");
    return 0;
}

static int open_state(struct warden *w, struct error *err)
{
    const char *path = w->options.state_dir;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make '%s'", path);
    w->state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->state_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", path);
    return 0;
}

static int open_signer(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = o->sign_audit ? signer_open(&w->signer, w->state_fd, err) : 0;
    if (r >= 0 && o->sign_audit && o->audit_checkpoint_file)
        r = signer_open_file(&w->signer, o->audit_checkpoint_file, err);
    if (r >= 0 && o->sign_audit && o->audit_checkpoint_syslog)
        r = signer_open_syslog(&w->signer, err);
    return r;
}

/* Leftovers, cgroups, disks: all that is found by host paths and kept as descriptors. */
static int open_host_parts(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = open_state(w, err);
    r = r < 0 ? r : open_signer(w, err);
    if (r < 0)
        return r;
    int swept = sweep_cgroups(o->cgroup_prefix);
    swept = (swept < 0 ? 0 : swept) + sweep_images(w->state_fd, o->cgroup_prefix);
    if (swept)
        log_info("swept leftovers of dead wardens count=%d", swept);
    cgroup_root_open(&w->cgroups, o->cgroup_prefix);
    cgroup_root_add_disk(&w->cgroups, w->state_fd);
    _cleanup_close_ int usr = open("/usr", O_PATH | O_CLOEXEC);
    if (usr >= 0)
        cgroup_root_add_disk(&w->cgroups, usr);
    struct stat kvm;
    if (w->was_root)
        oci_programs_find(&w->oci);
    oci_platform_open(w);
    if (stat("/dev/kvm", &kvm) == 0 && S_ISCHR(kvm.st_mode))
        w->kvm_device = kvm.st_rdev;
    disk_maker_open(&w->disks, w->state_fd, o->disk_templates, w->cgroups.instance);
    fence_host_open(&w->fence, o->fence_dir, o->runner_fd);
    w->engine_fd = o->engine_fd < 0 ? -1 : fcntl(o->engine_fd, F_DUPFD_CLOEXEC, 0);
    return engines_open(w, err);
}

static int open_store(struct warden *w, struct error *err)
{
    const char *dir = w->options.store_dir ? w->options.store_dir : w->options.state_dir;
    w->store_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->store_fd < 0 ? error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", dir) : 0;
}

/* Opened from the host view's own namespace: only there may they be cloned later. */
static int open_allowed(struct warden *w, struct error *err)
{
    char *const *dirs = w->options.mounts_allow;
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "enter the host view");
    int r = open_store(w, err);
    for (; r == 0 && dirs && dirs[w->n_allowed]; w->n_allowed++) {
        int fd = open(dirs[w->n_allowed], O_PATH | O_DIRECTORY | O_CLOEXEC);
        w->allowed_fds[w->n_allowed] = fd;
        if (fd < 0)
            r = error_set(err, ERROR_INVALID, errno, "mounts.allow: '%s'", dirs[w->n_allowed]);
    }
    if (setns(w->own_ns_fd, CLONE_NEWNS) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "leave the host view");
    return r;
}

/* The directory, not the file: editors replace a file by another of its name. */
static int open_policy_dir(struct warden *w, struct error *err)
{
    const char *path = w->options.policy_file;
    if (!path)
        return 0;
    const char *slash = strrchr(path, '/');
    if (!slash || !slash[1])
        return error_set(err, ERROR_INVALID, 0, "policy_file: '%s' names no file", path);
    _cleanup_free_ char *dir = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    w->policy_dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->policy_dir_fd < 0)
        return error_set(err, ERROR_INVALID, errno, "policy_file: '%s'", dir);
    w->policy_name = xstrdup(slash + 1);
    return 0;
}

void warden_set_no_namespaces(struct warden *w, const char *why)
{
    if (w->no_namespaces[0])
        return;
    snprintf(w->no_namespaces, sizeof(w->no_namespaces), "%s", why);
    log_warn("this host allows no namespaces: %s; sandboxes can be of the landlock runtime only",
             why);
}

/* What the host forbids is known from now on, and no reason not to start: the landlock runtime
 * needs none of it. */
static int forgive(struct warden *w, int r, struct error *err)
{
    if (r >= 0 || err->code != ERROR_UNSUPPORTED)
        return r;
    warden_set_no_namespaces(w, err->message);
    error_clear(err);
    return 0;
}

static int enter_root(struct warden *w, struct error *err)
{
    const struct root_options root = {
        .scratch_dir = w->options.state_dir,
        .runner_fd = w->options.runner_fd,
        .toolnet_fd = w->options.toolnet_fd,
    };
    int r = w->no_namespaces[0] ? 0 : root_enter(&root, &w->host_ns_fd, &w->own_ns_fd, err);
    r = forgive(w, r, err);
    if (r < 0)
        return r;
    w->disks.host_ns_fd = w->host_ns_fd;
    w->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->proc_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open /proc");
    return w->no_namespaces[0] ? 0 : open_allowed(w, err); /* nothing else has mounts */
}

static int open_ids(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = id_range_open(&w->ids, o->id_first, o->id_count, o->id_block, err);
    if (r < 0 && forgive(w, r, err) == 0) {
        id_range_share(&w->ids);
        return 0;
    }
    return r;
}

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
        .inotify_instances = o->inotify_instances,
        .inotify_watches = o->inotify_watches,
        .fanotify_groups = o->fanotify_groups,
        .fanotify_marks = o->fanotify_marks,
    };
}

static struct warden *warden_alloc(const struct warden_options *o)
{
    struct warden *w = new0(struct warden);
    w->options = *o;
    w->run_fd = -1;
    oci_versions_init(w);
    w->control_fd = w->host_ns_fd = w->own_ns_fd = w->proc_fd = w->state_fd = -1;
    w->store_fd = w->policy_dir_fd = w->engine_fd = w->engines.dir_fd = -1;
    w->disks = (struct disk_maker){.loop_control_fd = -1, .dev_fd = -1};
    w->janitor.sock = -1;
    w->signer = (struct signer)SIGNER_INIT;
    w->fence = (struct fence_host)FENCE_HOST_INIT;
    w->cgroups.block_fd = -1;
    for (int i = 0; i < _CGROUP_MAX; i++)
        w->cgroups.fd[i] = w->cgroups.parent_fd[i] = -1;
    list_init(&w->outgoing);
    for (int i = 0; i < _CELL_KIND_MAX; i++)
        list_init(&w->blanks[i]);
    list_init(&w->armed);
    list_init(&w->exited);
    w->by_id = map_new();
    w->was_root = geteuid() == 0;
    w->has_toolnet = o->toolnet_fd >= 0;
    return w;
}

static int start_janitor(struct warden *w);

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

/* Two descriptors a sandbox, and the daemon's; children lower theirs again. */
static void raise_open_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= l.rlim_max)
        return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0)
        log_warn("cannot raise the limit of open files error=%s", strerror(errno));
}

/* Not before the loop turns: the start does not wait for it. */
static void on_version_timer(void *data)
{
    struct warden *w = data;
    w->version_timer = NULL;
    oci_versions_ask(w);
}

static int prepare(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = check_options(o, err);
    r = r < 0 ? r : seccomp_program_init(&w->seccomp, err);
    r = r < 0 ? r : open_host_parts(w, err);
    r = r < 0 ? r : open_policy_dir(w, err);
    r = r < 0 ? r : open_ids(w, err);
    r = r < 0 ? r : enter_root(w, err);
    if (r < 0)
        return r;
    w->watcher = watcher_new();
    if (!w->watcher)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make an event loop");
    r = start_janitor(w);
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "start the janitor");
    signal(SIGPIPE, SIG_IGN);
    raise_open_files();
    w->tmpfs_attributes = probe_tmpfs_attributes();
    fill_child_template(w);
    armed_init(w);
    fence_host_finish(&w->fence, w->ids.shared);
    engines_start(w); /* before ids are given out that are in use already */
    cell_fill_blanks(w);
    w->version_timer = warden_watch_timer(w, 0, on_version_timer, w);
    oci_platform_plan(w);
    return 0;
}

struct warden *warden_new(const struct warden_options *o, struct error *err)
{
    struct warden *w = warden_alloc(o);
    if (prepare(w, err) < 0) {
        warden_free(w);
        return NULL;
    }
    /* Paths of the caller's are not used after the start. */
    w->options.state_dir = w->options.cgroup_prefix = w->options.audit_checkpoint_file = NULL;
    w->options.mounts_allow = NULL;
    w->options.policy_file = w->options.fence_dir = NULL;
    w->options.runner_fd = w->options.toolnet_fd = w->options.engine_fd = -1;
    w->options.podman_socket = w->options.docker_socket = NULL;
    return w;
}

void warden_free(struct warden *w)
{
    if (!w)
        return;
    watch_remove(w->version_timer);
    watch_remove(w->trial_timer);
    oci_versions_done(w);
    if (w->watcher)
        cell_end_all(w);
    engines_close(w);
    fd_close(&w->engine_fd);
    watch_remove(w->janitor_watch);
    janitor_stop(&w->janitor);
    cgroup_root_close(&w->cgroups);
    disk_maker_close(&w->disks);
    id_range_done(&w->ids);
    fence_host_close(&w->fence);
    seccomp_program_done(&w->seccomp);
    signer_close(&w->signer);
    for (unsigned i = 0; i < w->n_allowed; i++)
        fd_close(&w->allowed_fds[i]);
    fd_close(&w->policy_dir_fd);
    free(w->policy_name);
    fd_close(&w->host_ns_fd);
    fd_close(&w->own_ns_fd);
    fd_close(&w->proc_fd);
    fd_close(&w->run_fd);
    fd_close(&w->state_fd);
    fd_close(&w->store_fd);
    watcher_free(w->watcher);
    map_free(w->by_id);
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

bool warden_has_own_root(const struct warden *w)
{
    return w->host_ns_fd >= 0;
}

bool warden_in_userns(const struct warden *w)
{
    return w->ids.in_userns;
}

static void probe_limits(const struct warden *w, struct plan_reply *ret)
{
    static const enum wall limited[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};
    for (size_t i = 0; i < ELEMENTS(limited); i++)
        ret->mechanism[limited[i]] = (uint8_t)cgroup_root_enforces(&w->cgroups, limited[i]);
    if (!ret->mechanism[WALL_PROCESSES])
        ret->mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    if (w->cgroups.driver && w->cgroups.has[CGROUP_FREEZER])
        ret->features |= FEATURE_FREEZER;
}

void warden_probe_fence(const struct warden *w, struct plan_reply *ret)
{
    *ret = (struct plan_reply){.version = PLAN_VERSION, .wall = -1};
    probe_limits(w, ret);
    limits_describe_fence(w, ret->mechanism);
    ret->landlock_abi = (uint32_t)w->child_template.landlock_abi;
    if (ceiling_check_fence(w, ret) < 0)
        ret->error = EOPNOTSUPP;
}

void warden_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    *ret = (struct plan_reply){.version = PLAN_VERSION, .wall = -1};
    probe_limits(w, ret);
    ret->mechanism[WALL_DISK] = w->disks.usable ? MECHANISM_LOOP : MECHANISM_TMPFS;
    limits_describe_walls(w, b, ret->mechanism);
    if (!b)
        snprintf(ret->message, sizeof(ret->message), "%s", w->no_namespaces);
    ret->landlock_abi = b ? 0 : (uint32_t)w->child_template.landlock_abi;
    ret->features |= (w->no_namespaces[0] ? 0 : FEATURE_USERNS) | (w->was_root ? FEATURE_ROOT : 0) |
                     (w->ids.shared ? 0 : FEATURE_SUBUIDS) | (w->disks.usable ? FEATURE_LOOP : 0);
    for (int i = OCI_NONE + 1; i < _OCI_BACKEND_MAX; i++)
        ret->features |= w->oci.path[i][0] ? FEATURE_OCI(i) : 0;
    ret->backend = b;
    if (oci_backend_is_engine(b))
        engine_describe(w, b, ret);
    else if (b)
        oci_version_describe(w, b, ret);
}
