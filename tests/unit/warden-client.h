/* SPDX-License-Identifier: Apache-2.0 */
/* A control plane small enough for tests and measurements: starts a warden in a child process,
 * sends it plans and speaks to warden-runner. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "proto/plan.h"
#include "warden/warden.h"

struct client {
    pid_t warden_pid;
    int sock;
    int side; /* closing it ends the warden in order */
    uint64_t tag;
};

/* A descriptor sent over the side socket is a new control plane's. */
__attribute__((unused)) static void client_on_side(int fd, uint32_t events, void *data)
{
    int fds[FD_PASS_MAX];
    char byte;
    (void)events;
    if (fd_recv_msg(fd, &byte, 1, fds) == 1)
        warden_attach(data, fds[0]);
    else
        warden_quit(data);
}

__attribute__((unused)) static void client_run_warden(const struct warden_options *o, int sock,
                                                      int side)
{
    struct error err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct warden *w = warden_new(o, &err);
    if (!w) {
        fprintf(stderr, "# warden_new: %s\n", err.message);
        _exit(2);
    }
    warden_attach(w, sock);
    warden_watch(w, side, EPOLLIN, client_on_side, w);
    warden_loop(w);
    warden_free(w);
    _exit(0);
}

__attribute__((unused)) static struct client client_start(const struct warden_options *o)
{
    struct client c = {.tag = 0};
    int pair[2], side[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, side) < 0)
        exit(3);
    fflush(stdout);
    c.warden_pid = fork();
    if (c.warden_pid == 0) {
        close(pair[0]);
        close(side[0]);
        client_run_warden(o, pair[1], side[1]);
    }
    close(pair[1]);
    close(side[1]);
    c.sock = pair[0];
    c.side = side[0];
    return c;
}

/* As a control plane that was started anew. */
__attribute__((unused)) static bool client_reattach(struct client *c)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    close(c->sock);
    c->sock = pair[0];
    bool sent = fd_send_msg(c->side, "a", 1, &pair[1], 1) == 1;
    close(pair[1]);
    return sent;
}

__attribute__((unused)) static struct plan client_plan(enum plan_op op, const char *id)
{
    struct plan p = {.version = PLAN_VERSION, .op = op};
    snprintf(p.id, sizeof(p.id), "%s", id);
    return p;
}

/* The next record; *ret_fd may be NULL. false when the warden is gone. */
__attribute__((unused)) static bool client_receive(struct client *c, struct plan_reply *ret,
                                                   int *ret_fd)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(c->sock, ret, sizeof(*ret), fds);
    for (size_t i = ret_fd ? 1 : 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (ret_fd)
        *ret_fd = fds[0];
    return n == sizeof(*ret);
}

/* Sends a plan and waits for its reply; events in between are dropped. */
__attribute__((unused)) static struct plan_reply client_call(struct client *c, struct plan *p,
                                                             int *ret_fd)
{
    struct plan_reply reply = {.error = EPIPE};
    p->tag = ++c->tag;
    if (fd_send_msg(c->sock, p, sizeof(*p), NULL, 0) < 0)
        return reply;
    while (client_receive(c, &reply, ret_fd))
        if (reply.tag == p->tag && reply.event == EVENT_NONE)
            return reply;
    reply.error = EPIPE;
    return reply;
}

__attribute__((unused)) static bool client_wait_exited(struct client *c, const char *id,
                                                       struct plan_reply *ret)
{
    while (client_receive(c, ret, NULL))
        if (ret->event == EVENT_EXITED && strcmp(ret->id, id) == 0)
            return true;
    return false;
}

__attribute__((unused)) static bool client_read_all(int fd, void *data, size_t len)
{
    for (char *p = data; len;) {
        ssize_t n = read(fd, p, len);
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* Runs a command inside; the answer is static. "" when the connection broke. */
__attribute__((unused)) static const char *client_shell(int sock, const char *fmt, ...)
{
    static char command[16384], answer[1024 * 1024 + 128];
    va_list ap;
    va_start(ap, fmt);
    uint32_t len = (uint32_t)vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    answer[0] = 0;
    if (write(sock, &len, sizeof(len)) != sizeof(len) ||
        write(sock, command, len) != (ssize_t)len || !client_read_all(sock, &len, sizeof(len)) ||
        len >= sizeof(answer) || !client_read_all(sock, answer, len))
        return "";
    answer[len] = 0;
    return answer;
}
