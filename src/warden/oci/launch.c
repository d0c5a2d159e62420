/* The launcher: see oci.h. Runs in a copy of the warden, as root, in a pid and a mount namespace
 * of its own, and gives up what it can once the container runs. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "builder/rlimits.h"
#include "warden/local/image.h"
#include "warden/oci/oci.h"
#include "warden/state.h"

#define CONFIG_MAX     (1024 * 1024)
#define CONTROLLER_MAX 16
#define GROUP_TEXT_MAX (64 * 1024)

/* Where the launcher is in each hierarchy of version 1 that the warden made a group in; of version
 * 2 the path alone. */
struct own_groups {
    char *controllers[CONTROLLER_MAX + 1];
    char *path;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* "4:memory:/path" or "0::/path" */
static void take_group_line(struct own_groups *g, size_t *n, char *line, const char *ours)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || *n == CONTROLLER_MAX)
        return;
    *controllers++ = *path++ = 0;
    if (!ends_with(path, ours) || strncmp(controllers, "name=", 5) == 0)
        return;
    if (!g->path)
        g->path = xstrdup(path);
    if (controllers[0])
        g->controllers[(*n)++] = xstrdup(controllers);
}

static int find_own_groups(const struct cell *s, struct own_groups *g)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROUP_TEXT_MAX);
    size_t n = 0;
    *g = (struct own_groups){0};
    if (!s->cgroup.root)
        return 0;
    int r = fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", &text);
    if (r < 0)
        return r;
    _cleanup_free_ char *ours = xasprintf("/%s/%s", s->cgroup.root->instance, s->cgroup.name);
    char *save = NULL;
    for (char *l = strtok_r(text.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        take_group_line(g, &n, l, ours);
    return 0;
}

static uint32_t host_id(const struct cell *s, uint32_t inside)
{
    return id_block_host_id(&s->warden->ids, s->id_block, inside);
}

static int write_config(const struct cell *s, const struct child_order *o, const char *cgroup)
{
    const struct oci_flavour *f = oci_flavour((enum oci_backend)o->backend);
    const struct oci_config c = {
        .backend = (enum oci_backend)o->backend,
        .order = o,
        .runner_id = host_id(s, SANDBOX_RUNNER_ID),
        .tool_id = host_id(s, SANDBOX_TOOL_ID),
        .nobody_id = host_id(s, SANDBOX_NOBODY_ID),
        .rootfs = OCI_ROOTFS,
        .system = OCI_TEMPLATE,
        .cgroup = f->joins_cgroups ? cgroup : NULL,
        .filter = f->takes_filter ? &s->warden->seccomp : NULL,
    };
    _cleanup_json_ json_t *config = oci_config_new(&c);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONFIG_MAX);
    if (!config)
        return -EINVAL;
    int r = json_format(config, &text);
    if (r < 0)
        return r;
    _cleanup_close_ int fd =
        open(OCI_BUNDLE "/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
}

static void mount_root(const struct cell *s, const struct child_order *o, int image_fd)
{
    uint32_t tool = o->flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    const char *targets[PLAN_MOUNTS_MAX];
    if (image_fd < 0) {
        child_must(oci_mount_root(o), "mount the root", WALL_FILESYSTEM);
        return;
    }
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    struct image_upper upper = {
        .root_id = host_id(s, SANDBOX_RUNNER_ID),
        .tool_id = host_id(s, tool),
        .targets = targets,
        .n_targets = o->n_mounts,
    };
    const uint32_t ids[] = {host_id(s, SANDBOX_RUNNER_ID), host_id(s, SANDBOX_TOOL_ID),
                            host_id(s, SANDBOX_NOBODY_ID)};
    int r = oci_mount_image(o, image_fd, &upper, ids);
    child_must(r, upper.step, WALL_FILESYSTEM);
}

static void build_bundle(const struct cell *s, const struct child_order *o,
                         const struct child_trees *trees, const char *cgroup)
{
    uint32_t tool = o->flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    child_must(oci_mount_disk(o, trees->disk, host_id(s, SANDBOX_RUNNER_ID), host_id(s, tool)),
               "mount the disk", WALL_DISK);
    mount_root(s, o, trees->image);
    child_must(oci_mount_host_dirs(o, trees->mounts, host_id(s, tool)), "attach a mount",
               WALL_FILESYSTEM);
    child_must(write_config(s, o, cgroup), "write config.json", -1);
}

static pid_t read_pid(void)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64);
    int r = fd_read_file_at(AT_FDCWD, OCI_PID_PATH, &text);
    pid_t pid = r < 0 || !text.data ? 0 : (pid_t)atoi(text.data);
    child_must(pid > 1 && kill(pid, 0) == 0 ? 0 : -ESRCH, "find the container", -1);
    return pid;
}

static int open_container(void)
{
    int pidfd = pidfd_open(read_pid(), 0);
    child_must(pidfd < 0 ? -errno : 0, "watch the container", -1);
    return pidfd;
}

static void end_with(pid_t container) __attribute__((noreturn));

static void end_with(pid_t container)
{
    int status = oci_wait_for(container);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int enter_ns(pid_t pid, const char *name, int type)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || setns(fd, type) < 0 ? -errno : 0;
}

/* What runtimes do not do for a container, and must hold before its first command: it has none yet,
 * because nobody has been given the runner's connection. From here on the launcher has no rights
 * outside of the container's own user namespace. */
static void settle(const struct cell *s, pid_t container)
{
    child_must(enter_ns(container, "net", CLONE_NEWNET), "enter the network", WALL_NETWORK);
    child_must(child_raise_loopback(), "loopback", WALL_NETWORK);
    child_must(enter_ns(container, "user", CLONE_NEWUSER), "enter the user namespace", WALL_USERS);
    child_must(child_lower_user_limits(&s->warden->child_template.user_limits), "lower user limits",
               WALL_USERS);
    child_must(child_die_with_warden(), "tie to the warden", -1);
}

static void become_launcher(const struct cell *s, struct own_groups *groups)
{
    bool v2 = s->cgroup.root && s->cgroup.root->driver == &cgroup_v2;
    child_reset_signals();
    child_wait_for_byte("wait for the warden");
    child_must(child_die_with_warden(), "tie to the warden", -1);
    child_must(setsid() < 0 ? -errno : 0, "setsid", -1);
    umask(022);
    child_must(rlimits_apply_fixed(), "set limits", -1);
    child_must(find_own_groups(s, groups), "find the cgroup", -1);
    child_must(oci_mount_base(v2, groups->controllers), "prepare a bundle", WALL_FILESYSTEM);
    child_must((int)fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0), "report", -1);
}

/* The device is in no sandbox: only its runtime opens it. */
static void make_kvm_device(const struct warden *w)
{
    if (w->kvm_device)
        mknod(OCI_KVM_DEVICE, S_IFCHR | 0600, w->kvm_device);
}

/* Where the runner dials: its connections are passed on, the first one before the warden learns
 * that it runs. That byte says on which platform. */
static void serve_link(const struct cell *s, const struct child_order *o) __attribute__((noreturn));

static void serve_link(const struct cell *s, const struct child_order *o)
{
    struct oci_run run;
    int listen_fd = oci_link_listen(host_id(s, SANDBOX_RUNNER_ID));
    child_must(listen_fd, "listen for the runner", -1);
    close(CHILD_STREAM_FD);
    make_kvm_device(s->warden);
    oci_run(s, o, listen_fd, &run);
    _cleanup_close_ int pidfd = -1;
    bool early = run.program > 0;
    char byte = (char)(OCI_LINK_FIRST + run.platform);
    if (!early)
        pidfd = open_container();
    child_must(oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD, byte), "wait for the runner", -1);
    child_report_running();
    if (early && !oci_run_finish(&run))
        _exit(EXIT_FAILURE);
    if (early)
        pidfd = open_container();
    while (oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD, OCI_LINK_FIRST) != -ECHILD)
        continue;
    end_with(read_pid());
}

void oci_main(const struct cell *s, const struct cell_ends *ends)
{
    struct child_order order;
    struct own_groups groups;
    struct child_trees trees;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int joined = cgroup_join(&s->cgroup);
    if (child_keep_descriptors(ends->stream, ends->channel, ends->failure, NULL) < 0)
        _exit(125);
    child_must(joined, "join the cgroup", -1);
    become_launcher(s, &groups);
    child_receive_order(&order, &trees);
    enum oci_backend backend = (enum oci_backend)order.backend;
    build_bundle(s, &order, &trees, groups.path);
    if (oci_flavour(backend)->dials)
        serve_link(s, &order);
    struct oci_run run;
    oci_run(s, &order, -1, &run);
    pid_t container = read_pid();
    settle(s, container);
    /* Only the runner's ends are left, and the warden learns that it runs. */
    close_range(3, ~0U, 0);
    end_with(container);
}
