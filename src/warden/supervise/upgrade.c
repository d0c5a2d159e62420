/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/supervise/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/handover.h"
#include "warden/supervise/child.h"
#include "warden/supervise/supervise.h"
#include "warden/warden.h"

#define ANSWER_MS 10000

static void stop_watching(struct upgrade *u)
{
    watch_remove(u->exit);
    watch_remove(u->timer);
    u->exit = u->timer = NULL;
    u->pid = 0;
    fd_close(&u->answer_fd);
}

/* 0 with the version in message, or an errno with a reason. */
static int judge_answer(const char *answer, int status, char *message, size_t size)
{
    char version[PROBE_VERSION_SIZE];
    unsigned major, minor;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        snprintf(message, size, "the installed mas-sandboxd cannot take over: %s",
                 *answer ? answer : "it does not say which protocol it speaks");
        return EPROTO;
    }
    if (sscanf(answer, "mas-sandboxd %63s protocol %u.%u", version, &major, &minor) != 3) {
        snprintf(message, size, "the installed mas-sandboxd does not say which protocol it speaks");
        return EPROTO;
    }
    if (major != PROTOCOL_MAJOR) {
        snprintf(
            message, size,
            "the installed mas-sandboxd (%s) speaks protocol %u.%u and the running warden %d.%d: "
            "only a restart of the daemon, which ends its sandboxes, brings them together",
            version, major, minor, PROTOCOL_MAJOR, PROTOCOL_MINOR);
        return EPROTONOSUPPORT;
    }
    snprintf(message, size, "%s", version);
    return 0;
}

static void on_exit_of_probe(pid_t pid, int status, void *data)
{
    struct upgrade *u = data;
    char answer[PROBE_ANSWER_MAX + 1] = "", message[sizeof(answer) + 256];
    (void)pid;
    /* Everything that it wrote is in the pipe, which has room for more than this. */
    ssize_t n = read(u->answer_fd, answer, PROBE_ANSWER_MAX);
    answer[n > 0 ? n : 0] = 0;
    for (char *p = answer; *p; p++) /* it goes to a log and to a client */
        if (*p < ' ' || *p > '~')
            *p = '?';
    u->exit = NULL;
    stop_watching(u);
    int error = judge_answer(answer, status, message, sizeof(message));
    u->on_answer(u->data, error, message);
}

static void on_no_answer(void *data)
{
    struct upgrade *u = data;
    u->timer = NULL;
    kill(u->pid, SIGKILL); /* and its end is the answer */
}

int upgrade_ask(struct upgrade *u, const struct supervise_options *o, int program,
                void (*on_answer)(void *data, int error, const char *message), void *data)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    _cleanup_close_ int write_end = ends[1];
    *u = (struct upgrade){.answer_fd = ends[0], .on_answer = on_answer, .data = data};
    u->pid = child_start_probe(o, program, write_end);
    if (u->pid < 0) {
        int r = u->pid;
        stop_watching(u);
        return r;
    }
    u->exit = warden_watch_child(o->warden, u->pid, on_exit_of_probe, u);
    u->timer = warden_watch_timer(o->warden, ANSWER_MS, on_no_answer, u);
    if (!u->exit || !u->timer) {
        upgrade_cancel(u);
        return -ENOMEM;
    }
    return 0;
}

void upgrade_cancel(struct upgrade *u)
{
    pid_t pid = u->pid;
    stop_watching(u);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}
