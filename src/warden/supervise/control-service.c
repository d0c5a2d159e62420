/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: its start, what its end means, and the way to one of another program. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "warden/startup.h"
#include "warden/supervise/child.h"
#include "warden/supervise/internal.h"
#include "warden/supervise/notify.h"

/* For a control plane that is to make way for the next. */
#define LEAVE_MS 10000

#define GENERATIONS_NAME "generations"
#define GENERATIONS_MAX  (1ull << 31) /* request ids have room for as many */

/* --- readiness */

void control_end_ready(struct supervisor *s)
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
    if (read_one && byte == READY_SERVES)
        s->proven = s->served = true;
    control_end_ready(s);
}

/* --- its end */

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

static void retry_control(struct supervisor *s)
{
    int pause_ms = service_next_backoff(&s->control);
    log_info("control plane is started again in_ms=%d", pause_ms);
    s->control.again = warden_watch_timer(s->o->warden, pause_ms, control_start, s);
    if (!s->control.again)
        supervisor_quit(s, 1);
}

/* Sandboxes do not end because a program was installed that cannot serve them: it, or a better one,
 * is tried for as long as it takes. Before any control plane has served there are no sandboxes, and
 * the operator who starts the daemon must see it end. */
static bool lives_without_control(const struct supervisor *s)
{
    return s->served && !s->proven && !s->startup->line_mode;
}

/* It waits for room on the disk, or has made way by itself. */
static bool is_no_crash(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return code == CONTROL_EXIT_NO_SPACE || code == CONTROL_EXIT_LEFT;
}

static void restart_control(struct supervisor *s, pid_t pid, int status)
{
    service_log_death("control plane", pid, status);
    if (lives_without_control(s)) {
        log_error("the installed %s cannot take over; sandboxes live on without a control plane "
                  "until it can, or the earlier one is installed again",
                  s->startup->daemon_name);
        retry_control(s);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_REFUSED) {
        supervisor_quit(s, 1);
        return;
    }
    if (s->startup->line_mode || (!is_no_crash(status) && too_many_crashes(s))) {
        log_error("control plane is not started again crashes=%lld", (long long)s->crashes);
        supervisor_quit(s, 1);
        return;
    }
    /* However often its home is lost, one that has served is not at fault. */
    if (s->proven && WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_LEFT)
        s->control.backoff_ms = 0;
    retry_control(s);
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
    watch_remove(s->leave_watch);
    s->leave_watch = NULL;
    s->leaving = false;
    control_end_ready(s);
    keeper_stop(s);
    bool clean =
        WIFEXITED(status) && WEXITSTATUS(status) == 0 && (s->signals || !lives_without_control(s));
    /* Before it had a handler, the signal that asked it to drain is what ended it. */
    clean = clean || (s->signals && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    clean = clean || (s->signals && left);
    if (left && !s->signals) {
        log_info("control plane made way for the next pid=%d", (int)pid);
        control_start(s);
    } else if (clean) {
        supervisor_quit(s, 0);
    } else if (s->signals) {
        service_log_death("control plane", pid, status);
        supervisor_quit(s, 1);
    } else {
        restart_control(s, pid, status);
    }
}

/* --- its start */

static int watch_control(struct supervisor *s, pid_t pid, int ready_fd)
{
    s->control.pid = pid;
    s->ready_fd = ready_fd;
    s->ready_watch = warden_watch(s->o->warden, ready_fd, EPOLLIN, on_ready, s);
    s->control.exit = warden_watch_child(s->o->warden, pid, on_control_exit, s);
    return s->ready_watch && s->control.exit ? 0 : -errno;
}

/* A runner that outlives the warden must never take a new control plane for one it knew. */
void control_load_generations(struct supervisor *s)
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
    int r = supervisor_load_program(s);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, plans) < 0)
        return -errno;
    _cleanup_close_ int control_end = plans[1], warden_end = plans[0];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int ready_read = ready[0], ready_write = ready[1];
    _cleanup_close_ int keeper_end = keeper_open_socks(s);
    if (keeper_end < 0)
        return keeper_end;
    /* On record before it is used, so that no generation comes twice. */
    s->generation++;
    save_generations(s);
    struct child_control child = {
        .generation = s->generation,
        .generations_before = s->generations_before,
        .announce = !s->told_ready,
        .warden_sock = control_end,
        .gateway_sock = s->gateway_socks[1],
        .keeper_sock = keeper_end,
        .kube_sock = s->kube_socks[1],
        .ready_fd = ready_write,
    };
    r = child_send_handover(s->o, &child, warden_end);
    pid_t pid = r < 0 ? r : child_start_control(s->o, s->program.fd, &child);
    if (pid < 0)
        return pid;
    fd_close(&s->startup->line_in);
    fd_close(&s->startup->line_out);
    r = watch_control(s, pid, fd_steal(&ready_read));
    if (r < 0)
        return r;
    return warden_attach(s->o->warden, fd_steal(&warden_end));
}

void control_start(void *data)
{
    struct supervisor *s = data;
    s->control.again = NULL;
    if (s->signals) {
        supervisor_quit(s, 0);
        return;
    }
    int r = try_start_control(s);
    if (r < 0) {
        log_error("control plane cannot be started: %s", strerror(-r));
        if (s->told_ready)
            retry_control(s);
        else
            supervisor_quit(s, 1);
    }
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

void control_ask_upgrade(void *data, uint64_t tag)
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
