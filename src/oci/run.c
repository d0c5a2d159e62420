/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher's child: the OCI runtime's own program, which makes the container and ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "filter/filter.h"
#include "oci/launcher.h"

#define LOG_PATH        OCI_DIR "/log"
#define LOG_MAX         (256 * 1024)
#define CONTAINER_ID    "sandbox"
#define ARGS_MAX        32
#define PLATFORM_TRY_MS 1500

static void exec_runtime(const struct launcher *l, const char *platform) __attribute__((noreturn));

static void exec_runtime(const struct launcher *l, const char *platform)
{
    const struct oci_flavour *f = launcher_flavour(l);
    const char *program = l->start->programs[l->order.backend];
    static const char *const run[] = {"--log",      LOG_PATH,     "run",
                                      "--detach",   "--bundle",   OCI_BUNDLE,
                                      "--pid-file", OCI_PID_PATH, NULL};
    const char *argv[ARGS_MAX] = {program};
    static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                                      "TMPDIR=" OCI_DIR, "XDG_RUNTIME_DIR=" OCI_DIR, NULL};
    char state[64]; /* what a platform that did not work left there does no harm */
    snprintf(state, sizeof(state), OCI_STATE "/%s",
             platform ? platform + strlen("--platform=") : "");
    mkdir(state, 0700);
    size_t n = 1;
    argv[n++] = "--root";
    argv[n++] = state;
    for (const char *const *o = f->options; *o; o++)
        argv[n++] = *o;
    if (f->no_network)
        argv[n++] = oci_copies_network(&l->order) ? f->copy_network : f->no_network;
    if (f->unshared && !l->order.n_mounts)
        argv[n++] = f->unshared;
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

int oci_wait_for(pid_t pid)
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

static pid_t start_runtime(const struct launcher *l, const char *platform)
{
    const struct oci_flavour *f = launcher_flavour(l);
    unlink(LOG_PATH);
    pid_t pid = fork();
    child_must(pid < 0 ? -errno : 0, "fork", -1);
    if (pid == 0 && !f->own_kernel && pass_filter(&l->filter) < 0)
        _exit(126);
    if (pid == 0)
        exec_runtime(l, platform);
    return pid;
}

bool oci_run_finish(struct oci_run *r)
{
    int status = r->program > 0 ? oci_wait_for(r->program) : 0;
    r->program = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A platform may not work, and may not say so either. A runner that dials runs: what its runtime
 * does after that is not waited for. */
static bool is_up(struct oci_run *r, int listen_fd, int limit_ms)
{
    _cleanup_close_ int pidfd = pidfd_open(r->program, 0);
    struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = listen_fd, .events = POLLIN}};
    if (pidfd < 0 || poll(p, 2, limit_ms) < 1)
        return false;
    return p[1].revents || oci_run_finish(r);
}

static bool try_platform(const struct launcher *l, unsigned platform, int listen_fd, int limit_ms,
                         struct oci_run *ret)
{
    const char *const *platforms = launcher_flavour(l)->platforms;
    ret->platform = platform;
    ret->program = start_runtime(l, platform ? platforms[platform - 1] : NULL);
    if (is_up(ret, listen_fd, limit_ms))
        return true;
    kill(-1, SIGKILL); /* whatever it started is in our pid namespace */
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return false;
}

static void complain_backend(enum oci_backend b)
{
    char complaint[128], step[160];
    read_complaint(complaint, sizeof(complaint));
    snprintf(step, sizeof(step), "%s: %s", oci_backend_name(b),
             complaint[0] ? complaint : "ended without a word");
    child_must(-EIO, step, -1);
}

/* The filter is the last thing that a container gets, after the runtime has reported success or in
 * the runner itself: that the host has no memory for it would show as a container that is gone.
 * Tried without rights, because the kernel keeps a reserve for processes with rights. */
static int try_filter(const struct sock_fprog *p)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    _cleanup_close_ int report = -1;
    int pair[2], error = EIO;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    report = pair[0];
    pid_t pid = fork();
    if (pid == 0) {
        error = syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
                    ? errno
                    : -filter_install(p);
        _exit(write(pair[1], &error, sizeof(error)) == sizeof(error) ? 0 : 1);
    }
    close(pair[1]);
    if (pid < 0)
        return -EAGAIN;
    if (read(report, &error, sizeof(error)) != sizeof(error))
        error = EIO;
    oci_wait_for(pid);
    return -error;
}

/* A platform that worked before is the only one to be tried: the warden forgets it where it does
 * not work any more. */
static bool try_all(struct launcher *l, int listen_fd, struct oci_run *ret)
{
    const char *const *platforms = launcher_flavour(l)->platforms;
    const char *program = l->start->programs[l->order.backend];
    unsigned known = platforms ? platform_load(l->run_fd, program, platforms) : 0;
    if (!platforms || known)
        return try_platform(l, known, listen_fd, -1, ret);
    for (unsigned i = 0; platforms[i]; i++) {
        if (!try_platform(l, i + 1, listen_fd, platforms[i + 1] ? PLATFORM_TRY_MS : -1, ret))
            continue;
        platform_save(l->run_fd, program, platforms[i]);
        return true;
    }
    return false;
}

void oci_run(struct launcher *l, int listen_fd, struct oci_run *ret)
{
    if (!launcher_flavour(l)->own_kernel)
        child_must(try_filter(&l->filter), "seccomp", WALL_SYSCALLS);
    if (!try_all(l, listen_fd, ret))
        complain_backend((enum oci_backend)l->order.backend);
    fd_close(&l->run_fd);
}
