/* SPDX-License-Identifier: Apache-2.0 */
/* See launcher.h. Runs as root, in a pid and a mount namespace of its own, and gives up what it can
 * once the container runs. */
#include "oci/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/capability.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "builder/image.h"
#include "builder/mount.h"
#include "builder/rlimits.h"
#include "builder/root.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

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

static int find_own_groups(const struct launcher *l, struct own_groups *g)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROUP_TEXT_MAX);
    size_t n = 0;
    *g = (struct own_groups){0};
    if (!l->start->group[0])
        return 0;
    int r = fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", &text);
    if (r < 0)
        return r;
    char *save = NULL;
    for (char *p = strtok_r(text.data, "\n", &save); p; p = strtok_r(NULL, "\n", &save))
        take_group_line(g, &n, p, l->start->group);
    return 0;
}

const struct oci_flavour *launcher_flavour(const struct launcher *l)
{
    return oci_flavour((enum oci_backend)l->order.backend);
}

static int write_config(const struct launcher *l, const char *cgroup)
{
    const struct oci_flavour *f = launcher_flavour(l);
    const struct oci_config c = {
        .backend = (enum oci_backend)l->order.backend,
        .order = &l->order,
        .runner_id = l->start->runner_id,
        .tool_id = l->start->tool_id,
        .nobody_id = l->start->nobody_id,
        .rootfs = OCI_ROOTFS,
        .system = OCI_TEMPLATE,
        .cgroup = f->joins_cgroups ? cgroup : NULL,
        .filter = f->takes_filter ? &l->filter : NULL,
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

static void mount_root(const struct launcher *l, uint32_t tool_id)
{
    const struct child_order *o = &l->order;
    const uint32_t ids[] = {l->start->runner_id, l->start->tool_id, l->start->nobody_id};
    const char *targets[PLAN_MOUNTS_MAX];
    if (l->trees.image < 0) {
        child_must(oci_mount_root(o), "mount the root", WALL_FILESYSTEM);
        return;
    }
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    struct image_upper upper = {
        .root_id = l->start->runner_id,
        .tool_id = tool_id,
        .targets = targets,
        .n_targets = o->n_mounts,
        .authority_fd = l->trees.authority,
    };
    int r = oci_mount_image(o, l->trees.image, &upper, ids);
    child_must(r, upper.step, WALL_FILESYSTEM);
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

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    int r = capability_bound(0);
    if (r < 0)
        return r;
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* From here on the launcher waits, and takes connections that others make to it. The launcher of a
 * runtime with a kernel of its own has not left the host's user namespace, so what it gives up here
 * are root's rights. Giving up rights does not untie it from the warden: the kernel does that only
 * where a process gains some or changes its user. */
static void confine_launcher(void)
{
    struct error err = {0};
    if (drop_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        filter_enter(&filter_launcher, &err) < 0)
        _exit(EXIT_FAILURE); /* and everything in this pid namespace with it */
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

static void become_launcher(const struct launcher *l, struct own_groups *groups)
{
    umask(022);
    child_must(rlimits_apply_fixed(), "set limits", -1);
    child_must(find_own_groups(l, groups), "find the cgroup", -1);
    child_must(oci_mount_base(l->start->cgroup_v2, groups->controllers), "prepare a bundle",
               WALL_FILESYSTEM);
    child_must((int)fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0), "report", -1);
}

/* Where the runner dials: its connections are passed on, the first one before the warden learns
 * that it runs. */
static void serve_link(struct launcher *l) __attribute__((noreturn));

static void serve_link(struct launcher *l)
{
    struct oci_run run;
    int listen_fd = oci_link_listen(l->start->runner_id);
    child_must(listen_fd, "listen for the runner", -1);
    close(CHILD_STREAM_FD);
    /* The device is in no sandbox: only its runtime opens it. */
    if (l->start->kvm_device)
        mknod(OCI_KVM_DEVICE, S_IFCHR | 0600, l->start->kvm_device);
    oci_run(l, listen_fd, &run);
    _cleanup_close_ int pidfd = -1;
    bool early = run.program > 0;
    if (!early)
        pidfd = open_container();
    child_must(oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD), "wait for the runner", -1);
    child_report_running();
    if (early && !oci_run_finish(&run))
        _exit(EXIT_FAILURE);
    if (early)
        pidfd = open_container();
    pid_t container = read_pid();
    confine_launcher();
    while (oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD) != -ECHILD)
        continue;
    end_with(container);
}

void launcher_main(struct launcher *l)
{
    struct own_groups groups;
    struct oci_run run;
    become_launcher(l, &groups);
    child_receive_order(&l->order, &l->trees);
    const char *cgroup = groups.path;
    const struct child_order *o = &l->order;
    uint32_t tool_id = o->flags & PLAN_TOOL_NOBODY ? l->start->nobody_id : l->start->tool_id;
    child_must(oci_mount_disk(o, l->trees.disk, l->start->runner_id, tool_id), "mount the disk",
               WALL_DISK);
    mount_root(l, tool_id);
    child_must(oci_mount_host_dirs(o, l->trees.mounts, tool_id), "attach a mount", WALL_FILESYSTEM);
    if (l->trees.authority >= 0 && l->trees.image < 0)
        child_must(mount_write_authorities(OCI_TEMPLATE ROOT_AUTHORITIES, l->trees.authority,
                                           OCI_AUTHORITIES),
                   "add a certificate authority", WALL_FILESYSTEM);
    child_must(write_config(l, cgroup), "write config.json", -1);
    if (oci_copies_network(o))
        child_must(oci_mount_over_settings(), "cover settings of the network", WALL_NETWORK);
    if (launcher_flavour(l)->dials)
        serve_link(l);
    oci_run(l, -1, &run);
    pid_t container = read_pid();
    /* What runtimes do not do for a container, and must hold before its first command: it has none
     * yet, because no process has the runner's connection yet. From here on the launcher has no
     * rights outside of the container's own user namespace. */
    child_must(enter_ns(container, "net", CLONE_NEWNET), "enter the network", WALL_NETWORK);
    child_must(child_raise_loopback(), "loopback", WALL_NETWORK);
    child_must(enter_ns(container, "user", CLONE_NEWUSER), "enter the user namespace", WALL_USERS);
    child_must(child_lower_user_limits(&l->start->user_limits), "lower user limits", WALL_USERS);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    /* Only the runner's ends are left, and the warden learns that it runs. */
    close_range(3, ~0U, 0);
    confine_launcher();
    end_with(container);
}
