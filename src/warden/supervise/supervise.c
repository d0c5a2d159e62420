/* SPDX-License-Identifier: Apache-2.0 */
/* Supervision, all in callbacks of the warden's loop. Everything is started of the mas-sandboxd
 * that is installed at that time.
 *
 * First SIGTERM or SIGINT: the control plane is asked to drain, and killed when it takes longer
 * than the grace. Second: it is told to stop now. A control plane that exits with 0 ends the
 * daemon; one that crashes is started again with growing pauses while the listening sockets stay
 * open, until it has crashed too often. One of a newly installed program that has not served
 * anything ends nothing, however it exits. In line mode it is not started again: half-read input
 * cannot be resumed. */
#include "warden/supervise/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "keeper/keeper-proto.h"
#include "warden/startup.h"
#include "warden/supervise/child.h"
#include "warden/supervise/notify.h"
#include "warden/supervise/program.h"
#include "warden/supervise/upgrade.h"

#define BACKOFF_FIRST_MS 10
#define BACKOFF_MAX_MS   5000
/* Beyond shutdown_grace, which the control plane counts itself. */
#define KILL_MARGIN_MS 2000
/* After the second signal. */
#define STOP_NOW_MS 2000
/* For a control plane that is to make way for the next. */
#define LEAVE_MS 10000

#define GENERATIONS_NAME "generations"
#define GENERATIONS_MAX  (1ull << 31) /* request ids have room for as many */

/* Every watch is kept: none may outlive the supervisor, because the warden's loop does. */
struct service {
    pid_t pid;           /* 0: not running */
    struct watch *exit;  /* while it runs */
    struct watch *again; /* while it waits to be started again */
    int64_t backoff_ms;
};

struct supervisor {
    const struct supervise_options *o;
    struct startup *startup;
    struct service control, gateway, keeper;
    struct program program, first_program; /* what they are started of; first: no descriptor */
    bool proven;                           /* a control plane of it has served requests */
    struct upgrade upgrade;
    uint64_t upgrade_tag; /* of the plan that asked for it; 0: a signal */
    int gateway_socks[2]; /* ours to keep: the next gateway and control plane get them again */
    int keeper_sock;      /* of this control plane's keepers; -1: no images */
    struct watch *keeper_wanted;
    uint64_t generation, generations_before;
    int64_t window_start_ms;
    int64_t crashes; /* within the window */
    int signals;
    int ready_fd;
    struct watch *signal_watch, *ready_watch, *kill_watch, *leave_watch;
    bool told_ready;
    bool leaving; /* the control plane was asked to make way */
    int code;
};

static void start_control(void *data);
static void ask_upgrade(void *data, uint64_t tag);
static void start_gateway(void *data);
static void await_keeper(void *data);
static void end_keeper(struct supervisor *s);

static void quit_supervision(struct supervisor *s, int code)
{
    s->code = code;
    warden_quit(s->o->warden);
}

/* Doubles for as long as crashes come soon after one another. */
static int next_backoff(struct service *service)
{
    service->backoff_ms = service->backoff_ms ? 2 * service->backoff_ms : BACKOFF_FIRST_MS;
    if (service->backoff_ms > BACKOFF_MAX_MS)
        service->backoff_ms = BACKOFF_MAX_MS;
    return (int)service->backoff_ms;
}

static void end_service(struct service *service)
{
    watch_remove(service->exit);
    watch_remove(service->again);
    if (service->pid) {
        kill(service->pid, SIGKILL);
        waitpid(service->pid, NULL, 0);
    }
    *service = (struct service){0};
}

/* --- readiness */

static void stop_waiting(struct supervisor *s)
{
    watch_remove(s->ready_watch);
    s->ready_watch = NULL;
    fd_close(&s->ready_fd);
}

static void on_ready(int fd, uint32_t events, void *data)
{
    struct supervisor *s = data;
    char byte = 0;
    (void)events;
    bool read_one = read(fd, &byte, 1) == 1;
    if (read_one && byte == READY_DROPPED) {
        if (!s->told_ready)
            notify_send(s->o->notify_fd, "READY=1");
        s->told_ready = true;
        return;
    }
    s->proven |= read_one && byte == READY_SERVES;
    stop_waiting(s);
}

/* --- the program */

/* Requests that the last gateway did not read were meant for it. */
static int renew_gateway(struct supervisor *s)
{
    end_service(&s->gateway);
    fd_close(&s->gateway_socks[0]);
    fd_close(&s->gateway_socks[1]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->gateway_socks) < 0)
        return -errno;
    start_gateway(s);
    return 0;
}

/* The installed program, which may be another than before: then the gateway is to be of it, too, so
 * that both are of one version. */
static int load_program(struct supervisor *s)
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

/* --- control plane */

static bool too_many_crashes(struct supervisor *s)
{
    int64_t now = clock_mono_ms();
    if (now - s->window_start_ms > s->startup->control_restart_window_ms) {
        s->window_start_ms = now;
        s->crashes = 0;
        s->control.backoff_ms = 0;
    }
    return ++s->crashes > s->startup->control_restarts;
}

static void log_death(const char *who, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_error("%s died pid=%d signal=%d", who, (int)pid, WTERMSIG(status));
    else
        log_error("%s failed pid=%d exit_code=%d", who, (int)pid, WEXITSTATUS(status));
}

static void retry_control(struct supervisor *s)
{
    int pause_ms = next_backoff(&s->control);
    log_info("control plane is started again in_ms=%d", pause_ms);
    s->control.again = warden_watch_timer(s->o->warden, pause_ms, start_control, s);
    if (!s->control.again)
        quit_supervision(s, 1);
}

/* Sandboxes do not end because a program was installed that cannot serve them: it, or a better one,
 * is tried for as long as it takes. */
static bool lives_without_control(const struct supervisor *s)
{
    return s->told_ready && !s->proven && !s->startup->line_mode;
}

static void restart_control(struct supervisor *s, pid_t pid, int status)
{
    log_death("control plane", pid, status);
    if (lives_without_control(s)) {
        log_error("the installed %s cannot take over; sandboxes live on without a control plane "
                  "until it can, or the one of before is installed again",
                  s->startup->daemon_name);
        retry_control(s);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_REFUSED) {
        quit_supervision(s, 1);
        return;
    }
    bool full = WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_NO_SPACE;
    if (s->startup->line_mode || (!full && too_many_crashes(s))) {
        log_error("control plane is not started again crashes=%lld", (long long)s->crashes);
        quit_supervision(s, 1);
        return;
    }
    retry_control(s);
}

static void end_leave(struct supervisor *s)
{
    watch_remove(s->leave_watch);
    s->leave_watch = NULL;
    s->leaving = false;
}

/* Before it had a handler, the signal that asked it to make way is what ended it. */
static bool has_left(int status)
{
    return (WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_LEFT) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
}

static void on_control_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->control.pid = 0;
    s->control.exit = NULL;
    /* The next one is of the installed program in any case, and is not to make way for it. */
    upgrade_cancel(&s->upgrade);
    bool left = s->leaving && has_left(status);
    end_leave(s);
    stop_waiting(s);
    end_keeper(s);
    bool clean =
        WIFEXITED(status) && WEXITSTATUS(status) == 0 && (s->signals || !lives_without_control(s));
    /* Before it had a handler, the signal that asked it to drain is what ended it. */
    clean = clean || (s->signals && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    clean = clean || (s->signals && left);
    if (left && !s->signals) {
        log_info("control plane made way for the next pid=%d", (int)pid);
        start_control(s);
    } else if (clean) {
        quit_supervision(s, 0);
    } else if (s->signals) {
        log_death("control plane", pid, status);
        quit_supervision(s, 1);
    } else {
        restart_control(s, pid, status);
    }
}

static int watch_control(struct supervisor *s, pid_t pid, int ready_fd)
{
    s->control.pid = pid;
    s->ready_fd = ready_fd;
    s->ready_watch = warden_watch(s->o->warden, ready_fd, EPOLLIN, on_ready, s);
    s->control.exit = warden_watch_child(s->o->warden, pid, on_control_exit, s);
    return s->ready_watch && s->control.exit ? 0 : -errno;
}

/* A pair for each control plane, so that none hears answers to another's calls. Our end goes to
 * the keeper, once there is something to read from it. */
static int open_keeper_socks(struct supervisor *s)
{
    int socks[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return -errno;
    s->keeper_sock = socks[0];
    if (s->startup->images)
        await_keeper(s);
    return socks[1];
}

/* A runner that outlives the warden must never take a new control plane for one it knew. */
static void load_generations(struct supervisor *s)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64);
    if (fd_read_file_at(s->startup->state_fd, GENERATIONS_NAME, &text) >= 0 && text.data)
        s->generations_before = strtoull(text.data, NULL, 10) % GENERATIONS_MAX;
}

static void save_generations(const struct supervisor *s)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu\n",
                     (unsigned long long)(s->generations_before + s->generation));
    _cleanup_close_ int fd = openat(s->startup->state_fd, GENERATIONS_NAME,
                                    O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        log_warn("the number of control planes is not kept error=%s", strerror(errno));
}

static int try_start_control(struct supervisor *s)
{
    int plans[2], ready[2];
    int r = load_program(s);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, plans) < 0)
        return -errno;
    _cleanup_close_ int control_end = plans[1], warden_end = plans[0];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int ready_read = ready[0], ready_write = ready[1];
    _cleanup_close_ int keeper_end = open_keeper_socks(s);
    if (keeper_end < 0)
        return keeper_end;
    struct child_control child = {
        .generation = s->generation + 1,
        .generations_before = s->generations_before,
        .announce = !s->told_ready,
        .warden_sock = control_end,
        .gateway_sock = s->gateway_socks[1],
        .keeper_sock = keeper_end,
        .ready_fd = ready_write,
    };
    r = child_send_handover(s->o, &child, warden_end);
    pid_t pid = r < 0 ? r : child_start_control(s->o, s->program.fd, &child);
    if (pid < 0)
        return pid;
    s->generation++;
    save_generations(s);
    fd_close(&s->startup->line_in);
    fd_close(&s->startup->line_out);
    r = watch_control(s, pid, fd_steal(&ready_read));
    return r < 0 ? r : warden_attach(s->o->warden, fd_steal(&warden_end));
}

static void start_control(void *data)
{
    struct supervisor *s = data;
    s->control.again = NULL;
    if (s->signals) {
        quit_supervision(s, 0);
        return;
    }
    int r = try_start_control(s);
    if (r < 0) {
        log_error("control plane cannot be started: %s", strerror(-r));
        if (s->told_ready)
            retry_control(s);
        else
            quit_supervision(s, 1);
    }
}

/* --- gateway */

static void on_gateway_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->gateway.pid = 0;
    s->gateway.exit = NULL;
    if (s->signals)
        return;
    log_death("gateway", pid, status);
    /* Without it URL tools fail, and nothing else: worth trying for ever, at the slowest pace. */
    s->gateway.again =
        warden_watch_timer(s->o->warden, next_backoff(&s->gateway), start_gateway, s);
    if (!s->gateway.again)
        log_error("gateway is not started again");
}

static void start_gateway(void *data)
{
    struct supervisor *s = data;
    s->gateway.again = NULL;
    pid_t pid = child_start_gateway(s->o, s->program.fd, s->gateway_socks[0]);
    if (pid < 0) {
        log_error("gateway cannot be started: %s", strerror(-pid));
        return;
    }
    s->gateway.pid = pid;
    s->gateway.exit = warden_watch_child(s->o->warden, pid, on_gateway_exit, s);
    if (!s->gateway.exit)
        log_error("gateway cannot be watched: %s", strerror(errno));
}

/* --- image keeper: no process until it is asked for something, none when it has been idle */

/* The control plane would wait in vain for the answer of a keeper that died. */
static void tell_keeper_gone(struct supervisor *s)
{
    if (send(s->keeper_sock, KEEPER_GONE, strlen(KEEPER_GONE), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_warn("control plane cannot be told that the image keeper died: %s", strerror(errno));
}

static void on_keeper_exit(pid_t pid, int status, void *data)
{
    struct supervisor *s = data;
    s->keeper.pid = 0;
    s->keeper.exit = NULL;
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (s->signals || s->keeper_sock < 0)
        return;
    if (clean) {
        s->keeper.backoff_ms = 0;
        await_keeper(s);
        return;
    }
    log_death("image keeper", pid, status);
    tell_keeper_gone(s);
    s->keeper.again = warden_watch_timer(s->o->warden, next_backoff(&s->keeper), await_keeper, s);
}

static void start_keeper(struct supervisor *s)
{
    pid_t pid = child_start_keeper(s->o, s->program.fd, s->keeper_sock);
    if (pid < 0) {
        log_error("image keeper cannot be started: %s", strerror(-pid));
        tell_keeper_gone(s);
        s->keeper.again = warden_watch_timer(s->o->warden, BACKOFF_MAX_MS, await_keeper, s);
        return;
    }
    s->keeper.pid = pid;
    s->keeper.exit = warden_watch_child(s->o->warden, pid, on_keeper_exit, s);
}

static void on_keeper_wanted(int fd, uint32_t events, void *data)
{
    struct supervisor *s = data;
    (void)fd;
    watch_remove(s->keeper_wanted);
    s->keeper_wanted = NULL;
    if (events & EPOLLIN)
        start_keeper(s);
}

static void await_keeper(void *data)
{
    struct supervisor *s = data;
    s->keeper.again = NULL;
    s->keeper_wanted = warden_watch(s->o->warden, s->keeper_sock, EPOLLIN, on_keeper_wanted, s);
    if (!s->keeper_wanted)
        log_error("image keeper is not started again");
}

/* --- another control plane, of the program that is installed now */

static void on_leave_over(void *data)
{
    struct supervisor *s = data;
    s->leave_watch = NULL;
    if (s->control.pid) {
        log_warn("control plane did not make way in time; killed pid=%d", (int)s->control.pid);
        kill(s->control.pid, SIGKILL);
    }
}

static void answer_upgrade(struct supervisor *s, uint64_t tag, int error, const char *message)
{
    if (error)
        log_error("not upgraded: %s", message);
    if (tag)
        warden_reply_upgrade(s->o->warden, tag, error, message);
}

static void on_upgrade_answer(void *data, int error, const char *message)
{
    struct supervisor *s = data;
    if (!error && (!s->control.pid || s->signals)) {
        error = EAGAIN;
        message = "the control plane is being started or stopped";
    }
    answer_upgrade(s, s->upgrade_tag, error, message);
    if (error)
        return;
    log_info("control plane makes way for one of version %s", message);
    s->leaving = true;
    kill(s->control.pid, SIGUSR2);
    s->leave_watch = warden_watch_timer(s->o->warden, LEAVE_MS, on_leave_over, s);
}

static void ask_upgrade(void *data, uint64_t tag)
{
    struct supervisor *s = data;
    struct program now = PROGRAM_INIT;
    char why[128], message[256];
    if (s->startup->line_mode)
        return answer_upgrade(s, tag, EOPNOTSUPP, "a daemon on stdin and stdout has one client");
    if (s->upgrade.pid || s->leaving)
        return answer_upgrade(s, tag, EBUSY, "an upgrade is under way");
    int r = program_open(s->startup, &s->first_program, &now, why, sizeof(why));
    if (r == 0) {
        s->upgrade_tag = tag;
        r = upgrade_ask(&s->upgrade, s->o, now.fd, on_upgrade_answer, s);
        snprintf(why, sizeof(why), "%s", strerror(-r));
    }
    fd_close(&now.fd);
    if (r < 0) {
        snprintf(message, sizeof(message), "the installed %s: %s", s->startup->daemon_name, why);
        answer_upgrade(s, tag, -r, message);
    }
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

static void stop(struct supervisor *s)
{
    if (++s->signals == 1)
        notify_send(s->o->notify_fd, "STOPPING=1");
    if (!s->control.pid) {
        quit_supervision(s, 0);
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
static void reload(struct supervisor *s)
{
    struct program now = PROGRAM_INIT;
    char why[128];
    if (!s->control.pid)
        return;
    kill(s->control.pid, SIGHUP);
    if (program_open(s->startup, &s->first_program, &now, why, sizeof(why)) < 0)
        log_warn("the installed %s is left alone: %s", s->startup->daemon_name, why);
    else if (!program_is_same(&now, &s->program))
        ask_upgrade(s, 0);
    fd_close(&now.fd);
}

static void on_signal(int fd, uint32_t events, void *data)
{
    struct signalfd_siginfo info;
    (void)events;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP)
            reload(data);
        else
            stop(data);
    }
}

/* --- the whole */

/* With its control plane: nobody waits for what it does any more. */
static void end_keeper(struct supervisor *s)
{
    watch_remove(s->keeper_wanted);
    s->keeper_wanted = NULL;
    end_service(&s->keeper);
    fd_close(&s->keeper_sock);
}

static void supervisor_done(struct supervisor *s)
{
    stop_waiting(s);
    watch_remove(s->signal_watch);
    watch_remove(s->kill_watch);
    watch_remove(s->leave_watch);
    warden_on_upgrade(s->o->warden, NULL, NULL);
    upgrade_cancel(&s->upgrade);
    end_service(&s->control);
    end_service(&s->gateway);
    end_keeper(s);
    fd_close(&s->gateway_socks[0]);
    fd_close(&s->gateway_socks[1]);
    fd_close(&s->program.fd);
}

int supervise(const struct supervise_options *options)
{
    struct supervisor s = {.o = options,
                           .startup = options->startup,
                           .ready_fd = -1,
                           .window_start_ms = clock_mono_ms(),
                           .gateway_socks = {-1, -1},
                           .keeper_sock = -1,
                           .program = PROGRAM_INIT,
                           .upgrade = UPGRADE_INIT,
                           .code = -1};
    load_generations(&s);
    s.signal_watch = warden_watch(options->warden, options->signal_fd, EPOLLIN, on_signal, &s);
    if (!s.signal_watch ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s.gateway_socks) < 0) {
        log_error("supervision cannot start: %s", strerror(errno));
    } else if (load_program(&s) == 0) {
        warden_on_upgrade(options->warden, ask_upgrade, &s);
        start_gateway(&s);
        start_control(&s);
        if (s.code < 0 && warden_loop(options->warden) < 0)
            s.code = 1;
    }
    supervisor_done(&s);
    return s.code < 0 ? 1 : s.code;
}
