/* SPDX-License-Identifier: Apache-2.0 */
/* Supervision, all in callbacks of the warden's loop. Everything is started of the mas-sandboxd
 * that is installed at that time. Here are signals and the program; control-service.c starts the
 * control plane and replaces it, services.c has the gateway and the image keeper.
 *
 * First SIGTERM or SIGINT: the control plane is asked to drain, and killed when it takes longer
 * than the grace. Second: it has to stop now. A control plane that exits with 0 ends the
 * daemon; one that crashes is started again with growing pauses while the listening sockets stay
 * open, until it has crashed too often. One of a newly installed program that has not served
 * anything ends nothing, however it exits. In line mode it is not started again: half-read input
 * cannot be resumed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/startup.h"
#include "warden/supervise/internal.h"
#include "warden/supervise/notify.h"

/* Beyond shutdown_grace, which the control plane counts itself. */
#define KILL_MARGIN_MS 2000
/* After the second signal. */
#define STOP_NOW_MS 2000

void supervisor_quit(struct supervisor *s, int code)
{
    s->code = code;
    warden_quit(s->o->warden);
}

/* --- the program */

/* Requests that the last gateway did not read were meant for it. */
static int renew_gateway(struct supervisor *s)
{
    service_end(&s->gateway);
    fd_close(&s->gateway_socks[0]);
    fd_close(&s->gateway_socks[1]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->gateway_socks) < 0)
        return -errno;
    gateway_start(s);
    return 0;
}

int supervisor_load_program(struct supervisor *s)
{
    struct program now;
    char why[128];
    bool again = s->program.fd >= 0;
    int r = program_open(s->startup, again ? &s->first_program : NULL, &now, why, sizeof(why));
    if (r < 0) {
        log_error("the installed %s is not started: %s", s->startup->daemon_name, why);
        return r;
    }
    bool same = again && program_is_same(&now, &s->program);
    fd_close(&s->program.fd);
    s->program = now;
    if (same && s->gateway_socks[0] >= 0) /* without one, the last attempt to renew it failed */
        return 0;
    s->proven = false;
    if (again)
        return renew_gateway(s);
    s->first_program.st = now.st;
    return 0;
}

/* --- signals */

static void on_grace_over(void *data)
{
    struct supervisor *s = data;
    s->kill_watch = NULL;
    if (s->control.pid) {
        log_warn("control plane did not stop in time; killed pid=%d", (int)s->control.pid);
        kill(s->control.pid, SIGKILL);
    }
}

static void stop_control(struct supervisor *s)
{
    if (++s->signals == 1)
        notify_send(s->o->notify_fd, "STOPPING=1");
    if (!s->control.pid) {
        supervisor_quit(s, 0);
        return;
    }
    int64_t grace_ms =
        s->signals == 1 ? s->startup->shutdown_grace_ms + KILL_MARGIN_MS : STOP_NOW_MS;
    log_info("stopping now=%s", s->signals == 1 ? "no" : "yes");
    watch_remove(s->leave_watch); /* the grace of a stop is another */
    s->leave_watch = NULL;
    kill(s->control.pid, SIGTERM);
    watch_remove(s->kill_watch);
    s->kill_watch = warden_watch_timer(s->o->warden, (int)grace_ms, on_grace_over, s);
}

/* The control plane reads the policy again; and makes way for one of the installed program where
 * that is another. */
static void reload_control(struct supervisor *s)
{
    struct program now = PROGRAM_INIT;
    char why[128];
    if (!s->control.pid)
        return;
    kill(s->control.pid, SIGHUP);
    if (program_open(s->startup, &s->first_program, &now, why, sizeof(why)) < 0)
        log_warn("the installed %s is left alone: %s", s->startup->daemon_name, why);
    else if (!program_is_same(&now, &s->program))
        control_ask_upgrade(s, 0);
    fd_close(&now.fd);
}

static void on_signal(int fd, uint32_t events, void *data)
{
    struct signalfd_siginfo info;
    (void)events;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP)
            reload_control(data);
        else
            stop_control(data);
    }
}

/* --- the whole */

static void supervisor_done(struct supervisor *s)
{
    control_end_ready(s);
    watch_remove(s->signal_watch);
    watch_remove(s->kill_watch);
    watch_remove(s->leave_watch);
    warden_on_upgrade(s->o->warden, NULL, NULL);
    upgrade_cancel(&s->upgrade);
    service_end(&s->control);
    service_end(&s->gateway);
    service_end(&s->kube);
    keeper_stop(s);
    fd_close(&s->gateway_socks[0]);
    fd_close(&s->gateway_socks[1]);
    fd_close(&s->kube_socks[0]);
    fd_close(&s->kube_socks[1]);
    fd_close(&s->program.fd);
}

int supervise(const struct supervise_options *options)
{
    struct supervisor s = {.o = options,
                           .startup = options->startup,
                           .ready_fd = -1,
                           .window_start_ms = clock_mono_ms(),
                           .gateway_socks = {-1, -1},
                           .kube_socks = {-1, -1},
                           .keeper_sock = -1,
                           .program = PROGRAM_INIT,
                           .upgrade = UPGRADE_INIT,
                           .code = -1};
    control_load_generations(&s);
    s.signal_watch = warden_watch(options->warden, options->signal_fd, EPOLLIN, on_signal, &s);
    if (!s.signal_watch ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s.gateway_socks) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s.kube_socks) < 0) {
        log_error("supervision cannot start: %s", strerror(errno));
    } else if (supervisor_load_program(&s) == 0) {
        warden_on_upgrade(options->warden, control_ask_upgrade, &s);
        gateway_start(&s);
        kube_start(&s);
        control_start(&s);
        if (s.code < 0 && warden_loop(options->warden) < 0)
            s.code = 1;
    }
    supervisor_done(&s);
    return s.code < 0 ? 1 : s.code;
}
