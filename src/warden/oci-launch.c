/* The launcher: see oci.h. Runs in a copy of the warden, as root, in a pid and a mount namespace
 * of its own, and gives up what it can once the container runs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "warden/oci.h"
#include "warden/state.h"

#define CONFIG_MAX      (1024 * 1024)
#define LOG_PATH        OCI_DIR "/log"
#define LOG_MAX         (256 * 1024)
#define PID_PATH        OCI_DIR "/pid"
#define CONTAINER_ID    "sandbox"
#define CONTROLLER_MAX  16
#define GROUP_TEXT_MAX  (64 * 1024)
#define ARGS_MAX        32
#define PLATFORM_TRY_MS 1500

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

static void build_bundle(const struct cell *s, const struct child_order *o, int *mount_fds,
                         int disk_fd, const char *cgroup)
{
    uint32_t tool = o->flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    child_must(oci_mount_disk(o, disk_fd, host_id(s, SANDBOX_RUNNER_ID), host_id(s, tool)),
               "mount the disk", WALL_DISK);
    child_must(oci_mount_root(o), "mount the root", WALL_FILESYSTEM);
    child_must(oci_mount_host_dirs(o, mount_fds, host_id(s, tool)), "attach a mount",
               WALL_FILESYSTEM);
    child_must(write_config(s, o, cgroup), "write config.json", -1);
}

static void exec_runtime(const char *program, const struct oci_flavour *f, const char *platform)
    __attribute__((noreturn));

static void exec_runtime(const char *program, const struct oci_flavour *f, const char *platform)
{
    static const char *const run[] = {"--log",    LOG_PATH,     "run",    "--detach", "--bundle",
                                      OCI_BUNDLE, "--pid-file", PID_PATH, NULL};
    const char *argv[ARGS_MAX] = {program};
    static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                                      "TMPDIR=" OCI_DIR, "XDG_RUNTIME_DIR=" OCI_DIR, NULL};
    char state[64]; /* what a platform that did not work left there is in nobody's way */
    snprintf(state, sizeof(state), OCI_STATE "/%s",
             platform ? platform + strlen("--platform=") : "");
    mkdir(state, 0700);
    size_t n = 1;
    argv[n++] = "--root";
    argv[n++] = state;
    for (const char *const *o = f->options; *o; o++)
        argv[n++] = *o;
    if (platform)
        argv[n++] = platform;
    if (platform && access(OCI_KVM_DEVICE, F_OK) == 0)
        argv[n++] = "--platform_device_path=" OCI_KVM_DEVICE;
    for (const char *const *o = run; *o; o++)
        argv[n++] = *o;
    if (!f->dials) {
        argv[n++] = "--preserve-fds"; /* 3, 4 and OCI_FILTER_FD */
        argv[n++] = "3";
    }
    argv[n++] = CONTAINER_ID;
    execve(program, (char **)argv, (char **)env);
    _exit(127);
}

/* The first thing that the runtime had to say, made harmless: what follows are consequences. */
static void read_complaint(char *ret, size_t size)
{
    static const char *const marks[] = {"\"msg\":\"", "msg=\""};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(LOG_MAX);
    ret[0] = 0;
    if (fd_read_file_at(AT_FDCWD, LOG_PATH, &text) < 0 || !text.len)
        return;
    const char *line = text.data, *found = NULL;
    for (size_t i = 0; !found && i < ELEMENTS(marks); i++)
        if ((found = strstr(text.data, marks[i])))
            line = found + strlen(marks[i]);
    snprintf(ret, size, "%.*s", (int)strcspn(line, "\"\n"), line);
    for (char *p = ret; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

/* Until that child has ended; others are reaped on the way. */
static int wait_for(pid_t pid)
{
    int status = 0;
    for (;;) {
        pid_t got = waitpid(-1, &status, 0);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            return -1;
    }
}

/* In place of the launcher's failure pipe, which its own copy keeps. */
static int pass_filter(const struct sock_fprog *p)
{
    int fd = memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, p->filter, p->len * sizeof(*p->filter));
    if (r == 0 && (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0 ||
                   dup2(fd, OCI_FILTER_FD) < 0))
        r = -errno;
    return r;
}

/* Of a platform that may not work, and may not say so either. */
static bool ends_in_time(pid_t pid, int limit_ms)
{
    _cleanup_close_ int pidfd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&p, 1, limit_ms) == 1;
}

static bool run_once(const struct cell *s, enum oci_backend b, const char *platform, int limit_ms)
{
    unlink(LOG_PATH);
    pid_t pid = fork();
    child_must(pid < 0 ? -errno : 0, "fork", -1);
    if (pid == 0 && !oci_flavour(b)->own_kernel && pass_filter(&s->warden->seccomp) < 0)
        _exit(126);
    if (pid == 0)
        exec_runtime(s->warden->oci.path[b], oci_flavour(b), platform);
    bool in_time = limit_ms < 0 || ends_in_time(pid, limit_ms);
    int status = in_time ? wait_for(pid) : -1;
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    kill(-1, SIGKILL); /* whatever it started is in our pid namespace */
    while (waitpid(-1, &status, 0) > 0)
        continue;
    return false;
}

/* On the platform that worked before, or the best that works now: its index is returned. */
static unsigned run_runtime(const struct cell *s, enum oci_backend b, unsigned known)
{
    const char *const *platforms = oci_flavour(b)->platforms;
    if (!platforms && run_once(s, b, NULL, -1))
        return 0;
    for (unsigned i = 0; platforms && platforms[i]; i++) {
        bool last = known || !platforms[i + 1];
        if (known && known != i + 1)
            continue;
        if (run_once(s, b, platforms[i], last ? -1 : PLATFORM_TRY_MS))
            return i + 1;
    }
    char complaint[128], step[160];
    read_complaint(complaint, sizeof(complaint));
    snprintf(step, sizeof(step), "%s: %s", oci_backend_name(b),
             complaint[0] ? complaint : "ended without a word");
    child_must(-EIO, step, -1);
    return 0;
}

static pid_t read_pid(void)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64);
    int r = fd_read_file_at(AT_FDCWD, PID_PATH, &text);
    pid_t pid = r < 0 || !text.data ? 0 : (pid_t)atoi(text.data);
    child_must(pid > 1 ? 0 : -ESRCH, "find the container", -1);
    return pid;
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
    child_must(child_lower_user_limits(&s->warden->child_template), "lower user limits",
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
static void serve_link(const struct cell *s, enum oci_backend b, unsigned known)
    __attribute__((noreturn));

static void serve_link(const struct cell *s, enum oci_backend b, unsigned known)
{
    int listen_fd = oci_link_listen(host_id(s, SANDBOX_RUNNER_ID));
    child_must(listen_fd, "listen for the runner", -1);
    close(CHILD_STREAM_FD);
    make_kvm_device(s->warden);
    unsigned platform = run_runtime(s, b, known);
    pid_t container = read_pid();
    int pidfd = pidfd_open(container, 0);
    child_must(pidfd < 0 ? -errno : 0, "watch the container", -1);
    char byte = (char)(OCI_LINK_FIRST + platform);
    child_must(oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD, byte), "wait for the runner", -1);
    child_report_running();
    while (oci_link_pass(listen_fd, pidfd, CHILD_CHANNEL_FD, OCI_LINK_FIRST) != -ECHILD)
        continue;
    int status = wait_for(container);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void oci_main(const struct cell *s, int stream_fd, int channel_fd, int failure_fd)
{
    struct child_order order;
    struct own_groups groups;
    int mount_fds[FD_PASS_MAX], disk_fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int joined = cgroup_join(&s->cgroup);
    if (child_keep_descriptors(stream_fd, channel_fd, failure_fd, NULL) < 0)
        _exit(125);
    child_must(joined, "join the cgroup", -1);
    become_launcher(s, &groups);
    child_receive_order(&order, mount_fds, &disk_fd);
    enum oci_backend backend = (enum oci_backend)order.backend;
    build_bundle(s, &order, mount_fds, disk_fd, groups.path);
    if (oci_flavour(backend)->dials)
        serve_link(s, backend, order.platform);
    run_runtime(s, backend, 0);
    pid_t container = read_pid();
    settle(s, container);
    /* Only the runner's ends are left, and the warden learns that it runs. */
    close_range(3, ~0U, 0);
    int status = wait_for(container);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
