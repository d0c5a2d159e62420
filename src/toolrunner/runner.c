/* SPDX-License-Identifier: Apache-2.0 */
/* Setting up, signals, new connections from the warden, and the end. */
#include "toolrunner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "proto/channel.h"
#include "base/landlock.h"
#include "base/log.h"
#include "toolrunner/descendants.h"
#include "toolrunner/exec.h"
#include "toolrunner/filter.h"
#include "toolrunner/landlock.h"
#include "toolrunner/own-filter.h"

#define SIGNALS_A_READ 8
#define REAP_BATCH     8

/* Every process that a command leaves running becomes a child of the runner. So once wait() knows
 * no child, none is left, which is worth knowing before ends are reported. */
void runner_reap(struct runner *r)
{
    struct {
        pid_t pid;
        int status;
        struct rusage usage;
    } ended[REAP_BATCH];
    size_t n, all = 0;
    do {
        pid_t pid = 0;
        for (n = 0; n < REAP_BATCH; n++) {
            pid = descendants_reap(-1, &ended[n].status, &ended[n].usage);
            if (pid <= 0)
                break;
            ended[n].pid = pid;
        }
        r->childless = pid < 0 && errno == ECHILD;
        if (r->childless)
            oom_order_on_empty(&r->oom_order);
        for (size_t i = 0; i < n; i++) {
            if (!listener_on_exit(&r->listener, ended[i].pid))
                exec_on_exit(r, ended[i].pid, ended[i].status, &ended[i].usage);
        }
        r->childless = false;
        all += n;
    } while (n == REAP_BATCH && all < RUNNER_REAP_MAX);
    if (n == REAP_BATCH)
        kill(getpid(), SIGCHLD); /* which brings us back in the next turn */
}

/* The first signal asks commands to end and starts the grace period; a second one during it ends
 * the runner at once. */
static void runner_shut_down(struct runner *r)
{
    if (epoll_timer_is_set(&r->shutdown)) {
        r->stop = true;
        return;
    }
    exec_signal_all(r, SIGTERM);
    epoll_timer_set_us(&r->loop, &r->shutdown, RUNNER_SHUTDOWN_GRACE_MS * 1000);
}

static void on_shutdown_over(struct epoll_timer *t)
{
    container_of(t, struct runner, shutdown)->stop = true;
}

/* The daemon and its disk may be gone for good, and nothing else would ever end this sandbox. */
static void on_orphan_over(struct epoll_timer *t)
{
    struct runner *r = container_of(t, struct runner, orphan);
    log_warn("no control plane was connected for %u s: the sandbox ends", r->config.orphan_s);
    if (exec_any_running(r))
        runner_shut_down(r);
    else
        r->stop = true;
}

void runner_set_orphan(struct runner *r, bool alone)
{
    if (alone && r->config.orphan_s)
        epoll_timer_set_us(&r->loop, &r->orphan, (uint64_t)r->config.orphan_s * 1000000);
    else
        epoll_timer_clear(&r->orphan);
}

static void on_signals_ready(struct epoll_watch *w, uint32_t ready)
{
    struct runner *r = container_of(w, struct runner, signals);
    struct signalfd_siginfo info[SIGNALS_A_READ];
    (void)ready;
    ssize_t n = read(w->fd, info, sizeof(info));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(info[0]); i++) {
        /* As PID 1 only the outside may end us: a sender in our namespace has a pid here. */
        if (info[i].ssi_signo != SIGCHLD && !(r->config.pid1 && info[i].ssi_pid != 0))
            runner_shut_down(r);
    }
    runner_reap(r);
    if (epoll_timer_is_set(&r->shutdown) && !exec_any_running(r))
        r->stop = true;
}

static void on_channel_ready(struct epoll_watch *w, uint32_t ready)
{
    struct runner *r = container_of(w, struct runner, channel);
    int fds[FD_PASS_MAX];
    char byte;
    (void)ready;
    /* A message whose descriptor finds no free number is lost with it. The spare number is given
     * up for the receive and taken again afterwards, so that commands that use up all
     * descriptors cannot lock the control plane out. */
    fd_close(&r->spare_fd);
    ssize_t n = fd_recv_msg(w->fd, &byte, 1, fds);
    if (n <= 0 && n != -EAGAIN && n != -EMSGSIZE)
        r->stop = true; /* the warden is gone, and we go with it */
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (fds[0] >= 0 && byte == CHANNEL_CLIENT[0])
        listener_take(&r->listener, fds[0]);
    else if (fds[0] >= 0 && byte == CHANNEL_EVENTS[0] && r->events_fd < 0)
        r->events_fd = fds[0];
    else if (fds[0] >= 0 && byte == CHANNEL_EVENTS[0])
        fd_close(&fds[0]);
    else if (fds[0] >= 0)
        newcomers_take(&r->newcomers, fds[0]);
    r->spare_fd = fcntl(r->null_fd, F_DUPFD_CLOEXEC, 3);
}

/* Without a dialer, channel or listener no other connection can ever come, so the runner ends. */
void runner_on_disconnect(struct runner *r)
{
    if (r->dialer.path)
        dialer_again(&r->dialer);
    else if (r->channel.fd < 0 && r->listener.watch.fd < 0)
        r->stop = true;
}

static int runner_open_signals(struct runner *r)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    /* A parent may have left signals ignored, which commands must not inherit; the warden has not.
     */
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int s = 1; s < NSIG && !r->config.pid1; s++)
        sigaction(s, &dfl, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    /* Not ignored, which each command would have to undo: an unblocked mask undoes all of it. */
    sigaddset(&set, SIGPIPE);
    sigaction(SIGPIPE, &dfl, NULL);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -errno;
    epoll_watch_init(&r->signals, fd, on_signals_ready);
    epoll_watch_set(&r->loop, &r->signals, EPOLLIN);
    return 0;
}

/* Nothing but the descriptors we were given stays open, and none of them outlives an exec. */
static int runner_open_fds(struct runner *r)
{
    const struct runner_config *c = &r->config;
    int last = 2;
    r->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (r->null_fd < 0)
        return -errno;
    while (r->null_fd < 3) { /* 0, 1 and 2 must be taken before pipes are made */
        int fd = fcntl(r->null_fd, F_DUPFD_CLOEXEC, r->null_fd + 1);
        if (fd < 0)
            return -errno;
        r->null_fd = fd;
    }
    int given[] = {c->conn_fd, c->channel_fd, c->rules_fd, c->score_fd, r->null_fd};
    for (size_t i = 0; i < ELEMENTS(given); i++)
        last = given[i] > last ? given[i] : last;
    for (int fd = 3; fd <= last; fd++) {
        bool ours = false;
        for (size_t i = 0; i < ELEMENTS(given); i++)
            ours |= given[i] == fd;
        if (!ours)
            close(fd);
        else
            fd_set_cloexec(fd, true);
    }
    fd_close_from((unsigned)last + 1);
    return 0;
}

static int runner_open_channel(struct runner *r)
{
    epoll_watch_init(&r->channel, r->config.channel_fd, on_channel_ready);
    if (r->channel.fd < 0)
        return 0;
    int n = fd_set_nonblock(r->channel.fd, true);
    r->spare_fd = fcntl(r->null_fd, F_DUPFD_CLOEXEC, 3);
    epoll_watch_set(&r->loop, &r->channel, EPOLLIN);
    return n;
}

/* Real and saved ids stay our own, so that no command may signal, trace or limit us; by the
 * effective ones we may signal commands, and become their user, without any right. What gave us
 * these ids ends here. */
static int runner_act(const struct runner_config *c)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    pid_t parent = getppid();
    if (!c->acting)
        return 0;
    if (setresgid(-1, c->gid, -1) < 0 || setresuid(-1, c->uid, -1) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        return -errno;
    /* A change of ids takes it away. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

/* The order matters. Groups and ids change while the runner may still change them. A change of ids
 * also resets whether the process is dumpable, so that is cleared after it, and makes the files of
 * /proc/self another's, so the score is opened before it; and the filter comes last, because it
 * would refuse these calls. */
static int runner_protect(struct runner *r)
{
    bool walled = r->config.pid1 || r->config.rules_fd >= 0 || r->config.own_filter;
    umask(022);
    /* One that connects out and has no filter is under gVisor or kata. Under the former commands
     * can open again what others have open. */
    if (r->config.score_fd < 0 && (!r->config.connect_path || r->config.filter_fd >= 0))
        r->config.score_fd = oom_order_open();
    if (r->config.switch_user && setgroups(0, NULL) < 0)
        return -errno;
    int n = runner_act(&r->config);
    if (n < 0)
        return n;
    /* The kernel counts processes by user: it is a wall where no other sandbox has the same one. */
    struct rlimit limit = {.rlim_cur = r->config.processes, .rlim_max = r->config.processes};
    n = r->config.processes && setrlimit(RLIMIT_NPROC, &limit) < 0 ? -errno : 0;
    if (n < 0)
        return n;
    if (walled &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
        return -errno;
    if (!r->config.pid1)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    n = r->config.filter_fd >= 0 ? filter_apply(r->config.filter_fd) : 0;
    return n == 0 && r->config.own_filter ? own_filter_apply(r->identity.landlock_abi) : n;
}

static int runner_open_loop(struct runner *r)
{
    int n = epoll_loop_init(&r->loop);
    if (n < 0)
        return n;
    runner_set_orphan(r, true);
    oom_order_init(&r->oom_order, &r->loop, r->config.score_fd);
    return 0;
}

static int runner_open_gateway(struct runner *r)
{
    return gateway_init(&r->gateway, r, r->config.gateway_socket, r->config.proxy_port);
}

static int runner_open_listener(struct runner *r)
{
    return listener_init(&r->listener, r, r->config.unix_path, r->config.vsock_port);
}

static int runner_open_dialer(struct runner *r)
{
    return dialer_init(&r->dialer, r, r->config.connect_path);
}

void runner_init_state(struct runner *r, const struct runner_config *config)
{
    *r = (struct runner){.config = *config, .null_fd = -1, .spare_fd = -1, .events_fd = -1};
    list_init(&r->execs);
    list_init(&r->pending);
    list_init(&r->sinks);
    epoll_timer_init(&r->shutdown, on_shutdown_over);
    epoll_timer_init(&r->orphan, on_orphan_over);
    conn_init(&r->conn);
    ports_init(&r->ports, r);
    newcomers_init(&r->newcomers, r);
    list_init(&r->gateway.own);
    epoll_watch_init(&r->channel, -1, on_channel_ready);
    epoll_watch_init(&r->listener.watch, -1, NULL);
    const struct runner_config *c = &r->config;
    r->identity = (struct spawn_identity){
        .switch_user = c->switch_user,
        .shared_uid = c->shared_uid,
        .die_with_us = !c->pid1,
        .rules_fd = c->rules_fd,
        .uid = c->uid,
        .gid = c->gid,
        .workdir = c->workdir,
        .landlock_abi = landlock_abi(),
        .runner_pid = getpid(),
    };
}

int runner_init(struct runner *r, const struct runner_config *config, const char **ret_what)
{
    /* Rights go first, before anything is opened. The signal mask is set before any connection
     * can ask for a command, so that no child's end is missed. */
    static const struct {
        const char *what;
        int (*run)(struct runner *r);
    } steps[] = {
        {"protect the runner", runner_protect},
        {"descriptors", runner_open_fds},
        {"epoll", runner_open_loop},
        {"signals", runner_open_signals},
        {"channel", runner_open_channel},
        {"gateway socket", runner_open_gateway},
        {"listen", runner_open_listener},
        {"connect", runner_open_dialer},
    };
    runner_init_state(r, config);
    int n = 0;
    for (size_t i = 0; n >= 0 && i < ELEMENTS(steps); i++) {
        *ret_what = steps[i].what;
        n = steps[i].run(r);
    }
    if (n >= 0 && config->conn_fd >= 0)
        conn_adopt(r, config->conn_fd, NULL, 0);
    return n;
}

void runner_run(struct runner *r)
{
    conn_pump(r);
    while (!r->stop) {
        epoll_loop_once(&r->loop, -1);
        conn_pump(r);
    }
}

/* As PID 1 the kernel ends everything with us; otherwise what descends from us is ours to end. */
void runner_done(struct runner *r)
{
    if (!r->config.pid1)
        descendants_kill();
    newcomers_done(&r->newcomers);
    conn_drop(r);
    exec_free_all(r);
    exec_free_sinks(r);
    fd_close(&r->events_fd);
    if (r->config.gateway_socket)
        unlink(r->config.gateway_socket);
    epoll_loop_done(&r->loop);
}
