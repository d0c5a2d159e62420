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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/zygote.h"

struct server {
    struct child_template template;
    struct sock_fprog seccomp;
    struct cgroup_root cgroups;
};

static void __attribute__((noreturn)) die(const char *step, int error)
{
    log_error("zygote: cannot %s error=\"%s\"", step, strerror(error));
    _exit(1);
}

/* As every sandbox has them from then on. Signals that are for the warden are blocked, not ignored:
 * a child undoes that with one call. */
static void settle(void)
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
}

static void receive_setup(struct server *z)
{
    static struct sock_filter code[BPF_MAXINSNS];
    struct zygote_setup setup;
    int fds[FD_PASS_MAX];
    size_t next = 0;
    ssize_t n = fd_recv_msg(ZYGOTE_SOCKET_FD, &setup, sizeof(setup), fds);
    if (n != sizeof(setup))
        die("receive the setup", n < 0 ? (int)-n : EPROTO);
    for (int i = 0; i < _CGROUP_MAX; i++)
        z->cgroups.fd[i] = setup.has[i] ? fds[next++] : -1;
    n = recv(ZYGOTE_SOCKET_FD, code, sizeof(code), 0);
    if (n <= 0 || n % (ssize_t)sizeof(*code))
        die("receive the filter", n < 0 ? errno : EPROTO);
    z->seccomp =
        (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof(*code)), .filter = code};
    z->template = setup.template;
    z->template.seccomp = &z->seccomp;
    z->template.from_zygote = true;
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

static pid_t clone_one(const struct server *z, const struct zygote_request *q, const int *fds)
{
    struct clone_args args = {
        .flags = CLONE_PARENT | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET |
                 CLONE_NEWIPC | CLONE_NEWUTS,
    };
    if (q->into_cgroup) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)fds[3];
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        become_child(z, q, fds);
    return pid < 0 ? -errno : pid;
}

static bool serve(const struct server *z)
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

void zygote_main(void)
{
    static struct server z;
    settle();
    receive_setup(&z);
    while (serve(&z))
        ;
    _exit(0);
}
