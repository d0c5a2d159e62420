/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote's own side, see zygote.h. Part of the runner's program. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "builder/rlimits.h"
#include "filter/filter.h"
#include "warden/local/network.h"
#include "warden/local/zygote.h"

#define AT_RANDOM_BYTES 16 /* at that address, as the kernel promises */

/* What "ps" shows: the arguments, as they were at the exec. */
static struct {
    char *start;
    size_t size;
    int (*run)(int argc, char **argv);
} program;

struct server {
    struct child_template template;
    struct sock_fprog seccomp;
    struct cgroup_root cgroups;
};

static void __attribute__((noreturn)) zygote_die(const char *step, int error)
{
    log_error("zygote: cannot %s error=\"%s\"", step, strerror(error));
    _exit(1);
}

/* As every sandbox has them from then on. Signals that are for the warden are blocked, not ignored:
 * a child undoes that with one call. */
static void reset_process(void)
{
    sigset_t wardens;
    log_setup("mas-zygote", LOG_INFO, false);
    prctl(PR_SET_NAME, "mas-zygote", 0, 0, 0);
    setsid(); /* away from the terminal's signals */
    child_reset_signals();
    sigemptyset(&wardens);
    sigaddset(&wardens, SIGTERM);
    sigaddset(&wardens, SIGINT);
    sigaddset(&wardens, SIGHUP);
    sigprocmask(SIG_SETMASK, &wardens, NULL);
    fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", CHILD_OOM_ADJ);
    int r = rlimits_apply_fixed();
    if (r < 0)
        zygote_die("set limits", -r);
}

static size_t title_size(size_t argc, const char *const *argv)
{
    size_t size = 0;
    for (size_t i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    return size;
}

static void set_title(size_t argc, const char *const *argv)
{
    char *at = program.start;
    for (size_t i = 0; i < argc; i++)
        at = stpcpy(at, argv[i]) + 1;
    memset(at, 0, (size_t)(program.start + program.size - at));
}

#ifndef __GLIBC__
void __init_ssp(void *entropy); /* musl's own, as at a start */

/* An exec would have brought random bytes of its own; the C library makes the stack protector's
 * mark and the heap's secret from them (there is no heap yet). Never returns to a frame with the
 * old mark. */
static bool __attribute__((no_stack_protector)) renew_secrets(void)
{
    void *random = (void *)getauxval(AT_RANDOM);
    if (!random || getrandom(random, AT_RANDOM_BYTES, 0) != AT_RANDOM_BYTES)
        return false;
    __init_ssp(random);
    return true;
}
#else
static bool renew_secrets(void)
{
    return false;
}
#endif

/* Instead of an exec, which would load the same program again. All walls are up, the descriptors
 * are those that a runner gets, and the memory is as it was when the zygote had read its setup. The
 * order is the caller's to keep. Returns where that is not possible. */
static void __attribute__((no_stack_protector)) become_runner(size_t argc, const char **argv)
{
    if (title_size(argc, argv) > program.size || !renew_secrets())
        return;
    set_title(argc, argv);
    prctl(PR_SET_NAME, "mas-toolrunner", 0, 0, 0);
    child_report_running();
    _exit(program.run((int)argc, (char **)argv));
}

/* One of the two parts of the system call filter, in the one place that there is for them. */
static struct sock_fprog receive_filter(void)
{
    static struct sock_filter code[BPF_MAXINSNS];
    ssize_t n = recv(ZYGOTE_SOCKET_FD, code, sizeof(code), 0);
    if (n <= 0 || n % (ssize_t)sizeof(*code))
        zygote_die("receive the filter", n < 0 ? errno : EPROTO);
    return (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof(*code)), .filter = code};
}

static void receive_setup(struct server *z)
{
    struct zygote_setup setup;
    int fds[FD_PASS_MAX];
    size_t next = 0;
    ssize_t n = fd_recv_msg(ZYGOTE_SOCKET_FD, &setup, sizeof(setup), fds);
    if (n != sizeof(setup))
        zygote_die("receive the setup", n < 0 ? (int)-n : EPROTO);
    for (int i = 0; i < _CGROUP_MAX; i++)
        z->cgroups.fd[i] = setup.has[i] ? fds[next++] : -1;
    struct sock_fprog shared = receive_filter();
    int r = filter_install(&shared); /* which takes the rights that the zygote has */
    if (r < 0)
        zygote_die("put on the system call filter", -r);
    z->seccomp = receive_filter();
    z->template = setup.template;
    z->template.seccomp = &z->seccomp;
    z->template.from_zygote = true;
    z->template.become_runner = become_runner;
}

static void __attribute__((noreturn))
become_child(const struct server *z, const struct zygote_request *q, const int *fds)
{
    struct cgroup cg = {.root = &z->cgroups};
    sigset_t none;
    memcpy(cg.name, q->cgroup, sizeof(cg.name));
    memcpy(cg.in, q->in, sizeof(cg.in));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    child_main(&z->template, &cg, fds[0], fds[1], fds[2]);
}

/* The network is not among the flags, so that it belongs to the warden's user namespace and not to
 * the sandbox's (network.h). */
static pid_t clone_one(const struct server *z, const struct zygote_request *q, const int *fds)
{
    struct clone_args args = {
        .flags =
            CLONE_PARENT | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS,
    };
    if (q->into_cgroup) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)fds[ZYGOTE_CGROUP];
    }
    int r = network_prepare();
    if (r < 0)
        return r;
    network_give();
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        become_child(z, q, fds);
    return pid < 0 ? -errno : pid;
}

static bool serve_request(const struct server *z)
{
    struct zygote_request q;
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(ZYGOTE_SOCKET_FD, &q, sizeof(q), fds);
    if (n == -EINTR)
        return true;
    if (n != sizeof(q))
        return false;
    struct zygote_reply reply = {.pid = clone_one(z, &q, fds)};
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    return send(ZYGOTE_SOCKET_FD, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

void zygote_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    static struct server z;
    program.start = argv[0];
    program.size = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
    program.run = run;
    char *padding = argv[1] + strlen(argv[1]) + 1;
    memset(padding, 0, (size_t)(program.start + program.size - padding));
    reset_process();
    receive_setup(&z);
    do
        network_prepare(); /* for the next one; where it fails, clone_one() says so */
    while (serve_request(&z));
    _exit(0);
}
